"""Scenes of consuming: subscriptions, consumers, dispatch rates, unacknowledged messages, fixed delay.

A topic exists once it has a producer, so that each scene begins with one.
"""

import asyncio
import time
from typing import Any

from sluicegate.demo.measuring import highest, rates
from sluicegate.demo.scene import Observation, Scene, Stage
from sluicegate_danube.demo.clients import (
    arrivals,
    attempt,
    client,
    fill,
    producer,
    publish,
    subscribe,
    take,
)

_READ_S = 4.0
_RATE = 200
_SUBSCRIPTION_RATE = 100
_DROP_RATE = 20
_SIZE = 100
_DELAY_MS = 2_000
_LATE_MS = 1_000
_DELAYED = 20
_UNACKED = 10
_WAIT_S = 5.0
_QUIET_S = 1.0


async def _reads(consumer: Any) -> bool:
    message = await take(await consumer.receive(), _WAIT_S)
    return message is not None


async def _subscriptions(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        made = [await attempt(subscribe(of, stage, f"subscription-{n}", f"reader-{n}")) for n in (1, 2, 3)]
        joined = [consumer for consumer, _ in made if consumer is not None]
        again = await attempt(subscribe(of, stage, "subscription-1", "another-reader"))
        await fill(one, 10, _SIZE)
        reading = sum([await _reads(consumer) for consumer in joined])
        for consumer in joined:
            await consumer.close()
    refused = again[1]
    text = (
        f"{len(joined)} of 3 were made, and {reading} of them read; {3 - len(joined)} refused; one more "
        f"consumer of the first was {'refused' if refused else 'let in'}"
    )
    return Observation(len(joined) == 2 and reading == 2 and not refused, text, made[-1][1])


async def _consumers(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        made = [await attempt(subscribe(of, stage, "workers", f"worker-{n}")) for n in (1, 2, 3)]
        joined = [consumer for consumer, _ in made if consumer is not None]
        await fill(one, 20, _SIZE)
        reading = sum([await _reads(consumer) for consumer in joined])
        for consumer in joined:
            await consumer.close()
    text = f"{len(joined)} of 3 joined, and {reading} of them read; {3 - len(joined)} refused"
    return Observation(len(joined) == 2 and reading == 2, text, made[-1][1])


async def _dispatch_rate(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        consumer = await subscribe(of, stage, "reader")
        await fill(one, int(_RATE * (_READ_S + 2)), _SIZE)
        first, rate = rates(await arrivals(consumer, _READ_S), _READ_S)
    met = first <= 2.2 * _RATE and 0.8 * _RATE <= rate <= highest(_RATE, first, _READ_S)
    return Observation(
        met, f"{rate:.0f} messages/s over {_READ_S - 1:.0f} s, after {first} in the first second"
    )


async def _subscription_rate(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        consumers = [await subscribe(of, stage, f"readers-{n}", f"reader-{n}") for n in (1, 2)]
        await fill(one, int(_SUBSCRIPTION_RATE * (_READ_S + 2)), _SIZE)
        times = await asyncio.gather(*(arrivals(consumer, _READ_S) for consumer in consumers))
    seen = [rates(at, _READ_S) for at in times]
    found = [rate for _, rate in seen]
    met = all(
        0.8 * _SUBSCRIPTION_RATE <= rate <= highest(_SUBSCRIPTION_RATE, first, _READ_S)
        for first, rate in seen
    )
    text = f"{found[0]:.0f} and {found[1]:.0f} messages/s over {_READ_S - 1:.0f} s, {sum(found):.0f} together"
    return Observation(met, text)


async def _dropping(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer", reliable=False)
        consumer = await subscribe(of, stage, "reader")
        messages = await consumer.receive()
        # A topic that is not reliable drops what comes before its consumer reads.
        while await take(messages, 0.1) is None:
            await publish(one, _SIZE)
        sent = 10 * _DROP_RATE
        await fill(one, sent, _SIZE)
        arrived = 0
        while await take(messages, _QUIET_S) is not None:
            arrived += 1
        await consumer.close()
    dropped = await stage.decisions("drop")
    text = f"{arrived} of {sent} arrived; the decision log has {len(dropped)} rows drop"
    return Observation(_DROP_RATE // 2 <= arrived < sent // 2 and bool(dropped), text)


async def _unacknowledged(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        consumer = await subscribe(of, stage, "lazy")
        await fill(one, 5 * _UNACKED, _SIZE)
        messages = await consumer.receive()
        taken: list[Any] = []

        async def take_all() -> None:
            while (message := await take(messages, _QUIET_S)) is not None:
                taken.append(message)

        await take_all()
        before = len(taken)
        for message in tuple(taken):
            await consumer.ack(message)
        await take_all()
        await consumer.close()
    text = f"{before} delivered and no more; {len(taken) - before} more once those were acknowledged"
    return Observation(before == _UNACKED and len(taken) == 2 * _UNACKED, text)


async def _delayed(stage: Stage) -> Observation:
    late: list[float] = []
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        consumer = await subscribe(of, stage, "reader")
        messages = await consumer.receive()

        async def read() -> None:
            while len(late) < _DELAYED and (message := await take(messages, 2 * _WAIT_S)) is not None:
                late.append(time.time_ns() / 1e6 - message.publish_time)
                await consumer.ack(message)

        reading = asyncio.ensure_future(read())
        for _ in range(_DELAYED):
            await publish(one, _SIZE)
            await asyncio.sleep(0.05)
        await reading
        await consumer.close()
    if not late:
        return Observation(False, f"none of {_DELAYED} messages came")
    met = len(late) == _DELAYED and min(late) >= _DELAY_MS and max(late) <= _DELAY_MS + _LATE_MS
    return Observation(
        met, f"{len(late)} of {_DELAYED} messages, after {min(late):.0f} to {max(late):.0f} ms"
    )


SCENES = (
    Scene(
        "subscriptions",
        "/default/subscriptions",
        {"max_subscriptions_per_topic": 2},
        "two subscriptions are made and read, a third is refused; a consumer may join one that exists",
        _subscriptions,
    ),
    Scene(
        "consumers-topic",
        "/default/consumers",
        {"max_consumers_per_topic": 2},
        "two consumers join and read, a third is refused",
        _consumers,
    ),
    Scene(
        "consumers-subscription",
        "/default/workers",
        {"max_consumers_per_subscription": 2},
        "two consumers of the subscription join and read, a third is refused",
        _consumers,
    ),
    Scene(
        "dispatch-rate",
        "/default/dispatch",
        {"max_dispatch_rate": f"{_RATE}/s"},
        f"a reader of a full topic gets its burst, then {_RATE} messages/s",
        _dispatch_rate,
    ),
    Scene(
        "subscription-dispatch-rate",
        "/default/readers",
        {"max_subscription_dispatch_rate": f"{_SUBSCRIPTION_RATE}/s"},
        f"each of two subscriptions gets {_SUBSCRIPTION_RATE} messages/s, apart from the other",
        _subscription_rate,
    ),
    Scene(
        "dispatch-rate-drop",
        "/default/fleeting",
        {"max_dispatch_rate": f"{_DROP_RATE}/s", "on_limit": {"max_dispatch_rate": "drop"}},
        "of a topic that is not reliable, what is over the rate is dropped and counted",
        _dropping,
    ),
    Scene(
        "unacked",
        "/default/unacked",
        {"max_unacked_messages_per_consumer": _UNACKED},
        f"a consumer gets {_UNACKED} messages, and more only when it acknowledges",
        _unacknowledged,
    ),
    Scene(
        "fixed-delay",
        "/default/delayed",
        {"fixed_delivery_delay": f"{_DELAY_MS // 1000}s"},
        f"each message comes {_DELAY_MS} ms after it was published or a little later",
        _delayed,
    ),
)
