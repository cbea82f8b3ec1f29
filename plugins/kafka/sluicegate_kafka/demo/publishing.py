"""Scenes of publishing: producers, message size, publish rate, observe-only, a policy that changes."""

import asyncio
import time
from collections.abc import Mapping
from contextlib import AsyncExitStack
from typing import Any

from sluicegate.demo.measuring import rates
from sluicegate.demo.scene import Observation, Scene, Stage
from sluicegate_kafka.demo.clients import producer, send

_KIB = 1024
_PUBLISH_S = 5.0
_RATE = 200
_BYTE_RATE_KIB = 128
_FREE_S = 5.0


async def _producers(stage: Stage) -> Observation:
    async with AsyncExitStack() as stack:
        third = await stack.enter_async_context(producer(stage, "producer-3"))
        async with AsyncExitStack() as two:
            admitted = []
            for number in (1, 2):
                client = await two.enter_async_context(producer(stage, f"producer-{number}"))
                admitted += await send(client, stage, 10)
            refused = await send(third, stage, 10)
        freed = time.monotonic()
        later = await send(third, stage, 10)
        while any(later) and time.monotonic() - freed < _FREE_S:
            await asyncio.sleep(0.1)
            later = await send(third, stage, 10)
    met = not any(admitted) and all(refused) and not any(later)
    text = (
        f"{admitted.count('')} of 2 took a place; the third was {'refused' if all(refused) else 'let in'}; "
        f"after the others had closed it was {'refused' if any(later) else 'let in'}"
    )
    return Observation(met, text, refused[0])


async def _one_message(stage: Stage) -> Observation:
    async with producer(stage, "sizes", max_request_size=64 * _KIB, max_batch_size=64 * _KIB) as client:
        below = await send(client, stage, 4 * _KIB)
        above = await send(client, stage, 4 * _KIB + 200)
        after = await send(client, stage, 10)
    met = not any(below) and all(above) and not any(after)
    text = (
        f"4 KiB {_outcome(below)}, 4 KiB + 200 B {_outcome(above)}, "
        f"the next message of that producer {_outcome(after)}"
    )
    return Observation(met, text, above[0])


async def _batch(stage: Stage) -> Observation:
    async with producer(stage, "batches", max_batch_size=64 * _KIB, linger_ms=50) as client:
        small = await send(client, stage, *[_KIB] * 10)
        mixed = await send(client, stage, 10, 5 * _KIB, 20)
    met = not any(small) and all(mixed)
    text = (
        f"a batch of ten 1 KiB messages {_outcome(small)}; "
        f"one of three, of which one has 5 KiB, {_outcome(mixed)} whole"
    )
    return Observation(met, text, mixed[0])


def _outcome(errors: list[str]) -> str:
    return "refused" if all(errors) else "refused in part" if any(errors) else "accepted"


async def _publish(stage: Stage, size: int, seconds: float) -> list[float]:
    """Publish as fast as the gate lets us; when each message was acknowledged, in seconds."""
    times: list[float] = []
    slots = asyncio.Semaphore(40)
    async with producer(stage, "saturating") as client:
        began = time.monotonic()

        def acknowledged(answer: "asyncio.Future[Any]") -> None:
            slots.release()
            if answer.cancelled() or answer.exception() is not None:
                return
            times.append(time.monotonic() - began)

        while time.monotonic() - began < seconds:
            await slots.acquire()
            answer = await client.send(stage.topic, bytes(size), partition=0)
            answer.add_done_callback(acknowledged)
    return times


async def _publish_rate(stage: Stage) -> Observation:
    first, rate = rates(await _publish(stage, 500, _PUBLISH_S), _PUBLISH_S)
    met = first <= 2 * _RATE and 0.8 * _RATE <= rate <= 1.05 * _RATE
    text = f"{rate:.0f} messages/s over {_PUBLISH_S - 1:.0f} s, after {first} in the first second"
    return Observation(met, text)


async def _publish_bytes(stage: Stage) -> Observation:
    first, rate = rates(await _publish(stage, _KIB, _PUBLISH_S), _PUBLISH_S)
    met = first <= 2 * _BYTE_RATE_KIB and 0.8 * _BYTE_RATE_KIB <= rate <= 1.05 * _BYTE_RATE_KIB
    text = (
        f"{rate:.0f} KiB/s of messages over {_PUBLISH_S - 1:.0f} s, after {first} KiB in the first second; "
        "the batches' own bytes count too"
    )
    return Observation(met, text)


async def _rejecting(stage: Stage) -> Observation:
    async with producer(stage, "impatient") as client:
        errors = [(await send(client, stage, 10))[0] for _ in range(40)]
        await asyncio.sleep(1.1)
        after = await send(client, stage, 10)
    accepted = errors.count("")
    met = 10 <= accepted <= 30 and not any(after)
    text = (
        f"{accepted} of 40 accepted, the rest refused at once; a second later the same producer was "
        f"{_outcome(after)}"
    )
    return Observation(met, text, next((error for error in errors if error), ""))


async def _observed(stage: Stage) -> Observation:
    async with producer(stage, "watched", max_batch_size=64 * _KIB) as client:
        errors = await send(client, stage, 5 * _KIB)
    rows = await stage.decisions("would_reject")
    limits = [(row["current"], row["limit"]) for row in rows if row["policy"] == "max_message_size"]
    met = not any(errors) and len(limits) == 1
    text = f"5 KiB {_outcome(errors)}; {len(limits)} row would_reject in the decision log"
    if limits:
        text += f": {limits[0][0]:.0f} B against a limit of {limits[0][1]:.0f} B"
    return Observation(met, text, errors[0])


_BEFORE: Mapping[str, Any] = {"max_message_size": "1KiB"}
_AFTER: Mapping[str, Any] = {"max_message_size": "8KiB"}


async def _change(stage: Stage) -> Observation:
    async with producer(stage, "patient", max_batch_size=64 * _KIB) as client:
        before = await send(client, stage, 4 * _KIB)
        await stage.change_policy(_AFTER)
        changed = time.monotonic()
        after = await send(client, stage, 4 * _KIB)
        while any(after) and time.monotonic() - changed < 1.0:
            await asyncio.sleep(0.02)
            after = await send(client, stage, 4 * _KIB)
        took_ms = (time.monotonic() - changed) * 1000
    met = all(before) and not any(after)
    text = (
        f"4 KiB {_outcome(before)}; after the file said 8KiB, {_outcome(after)} on the same connection "
        f"({took_ms:.0f} ms later)"
    )
    return Observation(met, text, before[0])


SCENES = (
    Scene(
        "producers",
        "demo.producers",
        {"max_producers_per_topic": 2},
        "two producers publish, a third is refused until a place is free",
        _producers,
    ),
    Scene(
        "message-size",
        "demo.size",
        {"max_message_size": "4KiB"},
        "4 KiB passes, more is refused, the producer goes on",
        _one_message,
    ),
    Scene(
        "message-size-batch",
        "demo.batch",
        {"max_message_size": "4KiB"},
        "the limit is for each message: a batch of 10 KiB passes, one that holds a 5 KiB message does not",
        _batch,
    ),
    Scene(
        "publish-rate",
        "demo.rate",
        {"max_publish_rate": f"{_RATE}/s"},
        f"at most {2 * _RATE} in the first second (rate + burst), then {_RATE} messages/s, none refused",
        _publish_rate,
    ),
    Scene(
        "publish-rate-bytes",
        "demo.byterate",
        {"max_publish_rate_bytes": f"{_BYTE_RATE_KIB}KiB/s"},
        f"at most {2 * _BYTE_RATE_KIB} KiB in the first second, then {_BYTE_RATE_KIB} KiB/s",
        _publish_bytes,
    ),
    Scene(
        "publish-rate-reject",
        "demo.impatient",
        {"max_publish_rate": "10/s", "on_limit": {"max_publish_rate": "reject"}},
        "a burst of 10 passes, what is over the rate is refused at once",
        _rejecting,
    ),
    Scene(
        "observe-only",
        "demo.observed",
        {"max_message_size": "1KiB", "observe_only": {"max_message_size": True}},
        "5 KiB passes, and the decision log says what would have been done",
        _observed,
    ),
    Scene(
        "live-change",
        "demo.change",
        _BEFORE,
        "4 KiB is refused, and passes within 1 s of the policy file saying 8KiB",
        _change,
    ),
)
