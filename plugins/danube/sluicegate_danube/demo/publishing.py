"""Scenes of publishing: producers, message size, publish rate, observe-only, a live change."""

import asyncio
import time

from sluicegate.demo.measuring import highest, rates
from sluicegate.demo.scene import Observation, Scene, Stage
from sluicegate_danube.demo.clients import attempt, client, producer, publish, saturate

_KIB = 1024
_PUBLISH_S = 5.0
_RATE = 200
_FREE_S = 10.0


def _outcome(errors: list[str]) -> str:
    return "refused" if all(errors) else "refused in part" if any(errors) else "accepted"


async def _producers(stage: Stage) -> Observation:
    async with client(stage) as of:
        made = [await attempt(producer(of, stage, f"producer-{n}")) for n in range(3)]
        admitted = [one for one, _ in made if one is not None]
        sent = [await publish(one, 10) for one in admitted]
        # Producers take no leave from Danube: it is all that is heard of them that ends.
        admitted[0].stop()
        freed = time.monotonic()
        _, later = await attempt(producer(of, stage, "producer-3"))
        while later and time.monotonic() - freed < _FREE_S:
            _, later = await attempt(producer(of, stage, "producer-3"))
    met = len(admitted) == 2 and not any(error for errors in sent for error in errors) and not later
    text = (
        f"{len(admitted)} of 3 were let in; after one of them had fallen silent another was "
        f"{'refused' if later else 'let in'}"
    )
    return Observation(met, text, made[-1][1])


async def _size(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        below = await publish(one, 4 * _KIB)
        above = await publish(one, 4 * _KIB + 1)
        after = await publish(one, 10)
    met = not any(below) and all(above) and not any(after)
    text = (
        f"4 KiB {_outcome(below)}, 4 KiB + 1 B {_outcome(above)}, "
        f"the next message of that producer {_outcome(after)}"
    )
    return Observation(met, text, above[0])


async def _publish_rate(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        first, rate = rates(await saturate(one, 500, _PUBLISH_S), _PUBLISH_S)
    met = first <= 2 * _RATE and 0.8 * _RATE <= rate <= highest(_RATE, first, _PUBLISH_S)
    return Observation(
        met, f"{rate:.0f} messages/s over {_PUBLISH_S - 1:.0f} s, after {first} in the first second"
    )


async def _rejecting(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        # At the same time: one after the other may be no more than the rate on a slow machine.
        answers = await asyncio.gather(*(attempt(one.send(bytes(10))) for _ in range(40)))
        errors = [error for _, error in answers]
        await asyncio.sleep(1.1)
        after = await publish(one, 10)
    accepted = errors.count("")
    text = (
        f"{accepted} of 40 accepted, the rest refused at once; a second later the same producer was "
        f"{_outcome(after)}"
    )
    return Observation(
        10 <= accepted <= 30 and not any(after), text, next((error for error in errors if error), "")
    )


async def _observed(stage: Stage) -> Observation:
    async with client(stage) as of:
        errors = await publish(await producer(of, stage, "producer"), 5 * _KIB)
    rows = await stage.decisions("would_reject")
    limits = [(row["current"], row["limit"]) for row in rows if row["policy"] == "max_message_size"]
    text = f"5 KiB {_outcome(errors)}; {len(limits)} row would_reject in the decision log"
    if limits:
        text += f": {limits[0][0]:.0f} B against a limit of {limits[0][1]:.0f} B"
    return Observation(not any(errors) and len(limits) == 1, text, errors[0])


async def _change(stage: Stage) -> Observation:
    async with client(stage) as of:
        one = await producer(of, stage, "producer")
        before = await publish(one, 4 * _KIB)
        await stage.change_policy({"max_message_size": "8KiB"})
        changed = time.monotonic()
        after = await publish(one, 4 * _KIB)
        while any(after) and time.monotonic() - changed < 1.0:
            await asyncio.sleep(0.02)
            after = await publish(one, 4 * _KIB)
        took_ms = (time.monotonic() - changed) * 1000
    text = (
        f"4 KiB {_outcome(before)}; after the file said 8KiB, {_outcome(after)} on the same connection "
        f"({took_ms:.0f} ms later)"
    )
    return Observation(all(before) and not any(after), text, before[0])


SCENES = (
    Scene(
        "producers",
        "/default/producers",
        {"max_producers_per_topic": 2},
        "two producers publish, a third is refused until a place is free",
        _producers,
    ),
    Scene(
        "message-size",
        "/default/size",
        {"max_message_size": "4KiB"},
        "4 KiB passes, more is refused, the producer goes on",
        _size,
    ),
    Scene(
        "publish-rate",
        "/default/rate",
        {"max_publish_rate": f"{_RATE}/s", "on_limit": {"max_publish_rate": "delay"}},
        f"at most {2 * _RATE} in the first second (rate + burst), then {_RATE} messages/s, none refused",
        _publish_rate,
    ),
    Scene(
        "publish-rate-reject",
        "/default/impatient",
        {"max_publish_rate": "10/s"},
        "a burst of 10 passes, what is over the rate is refused at once, which is the default on Danube",
        _rejecting,
    ),
    Scene(
        "observe-only",
        "/default/observed",
        {"max_message_size": "1KiB", "observe_only": {"max_message_size": True}},
        "5 KiB passes, and the decision log says what would have been done",
        _observed,
    ),
    Scene(
        "live-change",
        "/default/change",
        {"max_message_size": "1KiB"},
        "4 KiB is refused, and passes within 1 s of the policy file saying 8KiB",
        _change,
    ),
)
