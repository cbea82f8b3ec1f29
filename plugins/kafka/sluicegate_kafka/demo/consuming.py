"""Scenes of consuming: subscriptions, consumers, dispatch rates, fixed delay."""

import asyncio
import time
from typing import Any

from sluicegate.demo.measuring import rates
from sluicegate.demo.scene import Observation, Scene, Stage
from sluicegate_kafka.demo.clients import Member, arrivals, fill, producer, reader, send

_READ_S = 4.0
_RATE = 200
_SUBSCRIPTION_RATE = 100
_SIZE = 100
_DELAY_MS = 2_000
_LATE_MS = 1_500
"""A delayed message may be this late: it is looked for at each poll."""
_DELAYED = 20


async def _groups(stage: Stage) -> Observation:
    """Three groups of one member each, of which one is too many."""
    await fill(stage, 5, _SIZE)
    members = [Member(stage, f"group-{n}", f"consumer-{n}") for n in (1, 2, 3)]
    errors = await asyncio.gather(*(member.join() for member in members))
    joined = [member for member, error in zip(members, errors, strict=True) if not error]
    reading = sum(await asyncio.gather(*(_reads(member) for member in joined)))
    await asyncio.gather(*(member.leave() for member in members))
    text = f"{len(joined)} of 3 joined, and {reading} of them read; {3 - len(joined)} refused"
    return Observation(len(joined) == 2 and reading == 2, text, next(filter(None, errors), ""))


async def _one_group(stage: Stage) -> Observation:
    """A second consumer for a group that may have one."""
    await fill(stage, 5, _SIZE)
    first, second = Member(stage, "workers", "consumer-1"), Member(stage, "workers", "consumer-2")
    admitted = await first.join()
    refused = await second.join()
    reads = await _reads(first)
    await asyncio.gather(first.leave(), second.leave())
    text = (
        f"the first {'was refused' if admitted else 'joined'}, the second "
        f"{'was refused' if refused else 'joined'}; the first {'reads on' if reads else 'reads nothing'}"
    )
    return Observation(not admitted and bool(refused) and reads, text, refused)


async def _reads(member: Member) -> bool:
    """Whether a member is given a message."""
    try:
        async with asyncio.timeout(5):
            await member.client.getone()
    except TimeoutError:
        return False
    return True


async def _dispatch_rate(stage: Stage) -> Observation:
    await fill(stage, int(_RATE * (_READ_S + 1)) + _RATE, _SIZE)
    async with reader(stage, "reader") as client:
        first, rate = rates(await arrivals(client, _READ_S), _READ_S)
    met = first <= 2.2 * _RATE and 0.8 * _RATE <= rate <= 1.1 * _RATE
    text = f"{rate:.0f} messages/s over {_READ_S - 1:.0f} s, after {first} in the first second"
    return Observation(met, text)


async def _subscription_rate(stage: Stage) -> Observation:
    await fill(stage, int(_SUBSCRIPTION_RATE * (_READ_S + 1)) + _SUBSCRIPTION_RATE, _SIZE)
    members = [Member(stage, f"readers-{n}", f"reader-{n}") for n in (1, 2)]
    errors = [error for error in await asyncio.gather(*(member.join() for member in members)) if error]
    if errors:
        return Observation(False, f"{len(errors)} of 2 groups could not join", errors[0])
    times = await asyncio.gather(*(arrivals(member.client, _READ_S) for member in members))
    await asyncio.gather(*(member.leave() for member in members))
    found = [rates(at, _READ_S)[1] for at in times]
    met = all(0.8 * _SUBSCRIPTION_RATE <= rate <= 1.1 * _SUBSCRIPTION_RATE for rate in found)
    text = f"{found[0]:.0f} and {found[1]:.0f} messages/s over {_READ_S - 1:.0f} s, {sum(found):.0f} together"
    return Observation(met, text)


async def _delay(stage: Stage) -> Observation:
    async with reader(stage, "reader") as client, producer(stage, "punctual", linger_ms=0) as publisher:
        reading = asyncio.ensure_future(_lateness(client))
        for _ in range(_DELAYED):
            await send(publisher, stage, _SIZE)
            await asyncio.sleep(0.05)
        late = await reading
    if not late:
        return Observation(False, f"none of {_DELAYED} messages came")
    offsets = [offset for offset, _ in late]
    delays = [delay for _, delay in late]
    met = (
        offsets == list(range(_DELAYED)) and min(delays) >= _DELAY_MS and max(delays) <= _DELAY_MS + _LATE_MS
    )
    order = "in order" if offsets == sorted(set(offsets)) else "not in order or not once"
    text = f"{len(late)} of {_DELAYED} messages, {order}, after {min(delays):.0f} to {max(delays):.0f} ms"
    return Observation(met, text)


async def _lateness(client: Any) -> list[tuple[int, float]]:
    """Offset and age in ms of each message when it arrives."""
    found: list[tuple[int, float]] = []
    until = time.monotonic() + 10
    while len(found) < _DELAYED and time.monotonic() < until:
        got = await client.getmany(timeout_ms=100)
        now_ms = time.time_ns() / 1e6
        found += [
            (record.offset, now_ms - record.timestamp) for records in got.values() for record in records
        ]
    return found


async def _future(stage: Stage) -> Observation:
    hour_ms = 3_600_000
    async with producer(stage, "time-traveller") as client:
        now_ms = time.time_ns() // 1_000_000
        ahead = await send(client, stage, _SIZE, timestamp_ms=now_ms + 2 * hour_ms)
        normal = await send(client, stage, _SIZE)
    text = (
        f"two hours ahead {'refused' if all(ahead) else 'accepted'}, "
        f"stamped now {'refused' if all(normal) else 'accepted'}"
    )
    return Observation(all(ahead) and not any(normal), text, ahead[0])


SCENES = (
    Scene(
        "subscriptions",
        "demo.subscriptions",
        {"max_subscriptions_per_topic": 2, "on_unknown": {"max_subscriptions_per_topic": "last"}},
        "two groups join and read, a third is refused",
        _groups,
    ),
    Scene(
        "consumers-topic",
        "demo.consumers",
        {"max_consumers_per_topic": 2},
        "two consumers, of whatever groups, join and read; a third is refused",
        _groups,
    ),
    Scene(
        "consumers-subscription",
        "demo.workers",
        {"max_consumers_per_subscription": 1},
        "one consumer of the group joins and reads, a second is refused",
        _one_group,
    ),
    Scene(
        "dispatch-rate",
        "demo.dispatch",
        {"max_dispatch_rate": f"{_RATE}/s"},
        f"a reader of a full topic gets its burst, then {_RATE} messages/s",
        _dispatch_rate,
    ),
    Scene(
        "subscription-dispatch-rate",
        "demo.readers",
        {"max_subscription_dispatch_rate": f"{_SUBSCRIPTION_RATE}/s"},
        f"each of two groups gets {_SUBSCRIPTION_RATE} messages/s, apart from the other",
        _subscription_rate,
    ),
    Scene(
        "fixed-delay",
        "demo.delayed",
        {"fixed_delivery_delay": f"{_DELAY_MS // 1000}s"},
        f"each message comes once, in order, {_DELAY_MS} ms after it was published or a little later",
        _delay,
    ),
    Scene(
        "fixed-delay-future",
        "demo.future",
        {"fixed_delivery_delay": "2s", "max_timestamp_ahead": "1h"},
        "a message stamped two hours ahead is refused, others pass",
        _future,
    ),
)
