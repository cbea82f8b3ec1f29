"""Scenes for message size, observe-only and policy changes at run time."""

import asyncio
from functools import partial
from time import monotonic

from sluicegate.demo.clients import refusal
from sluicegate.demo.scene import Observation, Scene, Seen, Stage, Verdict
from sluicegate.demo.topic_log import TopicLog

_KIB = 1024
_AGAIN_S = 0.05


def outcome(error: str) -> str:
    """The outcome of a message, in a word."""
    return "refused" if error else "accepted"


def message_size(topic: str, limit: int = 4 * _KIB, **settings: object) -> Scene:
    """A limit on the size of messages, exact to the byte.

    :param settings: more settings of the topic.
    """
    return Scene(
        "message-size",
        topic,
        {"max_message_size": f"{limit // _KIB}KiB", **settings},
        f"{limit // _KIB} KiB passes, one byte more is refused, the producer continues",
        partial(_size, limit=limit),
    )


async def _size(stage: Stage, limit: int) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "sizes")
        below = await refusal(producer.publish(limit))
        above = await refusal(producer.publish(limit + 1))
        after = await refusal(producer.publish(10))
    text = (
        f"{limit // _KIB} KiB {outcome(below)}, {limit // _KIB} KiB + 1 B {outcome(above)}, "
        f"the next message of that producer {outcome(after)}"
    )
    return Seen(not below and bool(above) and not after, text, above)


def observe_only(topic: str) -> Scene:
    """A policy that is observe-only."""
    return Scene(
        "observe-only",
        topic,
        {"max_message_size": "1KiB", "mode": {"max_message_size": "observe"}},
        "5 KiB passes, and the decision log records the refusal that was not applied",
        _observed,
        _judge_observed,
    )


async def _observed(stage: Stage) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "watched")
        error = await refusal(producer.publish(5 * _KIB))
    return Seen(not error, f"5 KiB {outcome(error)}", error)


def _judge_observed(seen: Seen, log: TopicLog) -> Observation:
    rows = list(log.of("publish", "would_reject", "max_message_size"))
    text = f"{seen.text}; {len(rows)} row would_reject in the decision log"
    if rows:
        text += f": {rows[0]['current']:.0f} B against a limit of {rows[0]['limit']:.0f} B"
    right = seen.met and len(rows) == 1
    return Observation(Verdict.RIGHT if right else Verdict.DIFFERENT, text, seen.error)


def live_change(topic: str) -> Scene:
    """A policy file that changes while a client is connected."""
    return Scene(
        "live-change",
        topic,
        {"max_message_size": "1KiB"},
        "4 KiB is refused, and passes on the same connection once the policy file says 8KiB",
        _change,
    )


async def _change(stage: Stage) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "patient")
        before = await refusal(producer.publish(4 * _KIB))
        stage.change_policy({"max_message_size": "8KiB"})
        changed = monotonic()
        while after := await refusal(producer.publish(4 * _KIB)):
            if monotonic() - changed > stage.patience_s:
                break
            await asyncio.sleep(_AGAIN_S)
        took_ms = (monotonic() - changed) * 1000
    text = (
        f"4 KiB {outcome(before)}; after the file said 8KiB, {outcome(after)} on the same connection "
        f"({took_ms:.0f} ms later)"
    )
    return Seen(bool(before) and not after, text, before)
