"""Scenes for fixed delays: each message is delivered once, and never too early."""

import asyncio
from collections.abc import Mapping, Sequence
from functools import partial
from time import monotonic
from typing import Any

from sluicegate.demo.clients import DemoConsumer, Message
from sluicegate.demo.law import CLOCK_S
from sluicegate.demo.scene import Observation, Scene, Seen, Stage, Verdict
from sluicegate.demo.topic_log import TopicLog

_DELAY_MS = 2_000
_MESSAGES = 20
_PAUSE_S = 0.05
_SIZE = 100
_LOOK_S = 0.5
_TWICE_S = 0.3
"""How long to look for duplicates after all messages were received."""


def fixed_delay(
    topic: str,
    name: str = "fixed-delay",
    expected: str = "",
    *,
    exclusive: bool = False,
    alone: bool = True,
    in_order: bool = True,
    once: bool = True,
    **asked: Any,
) -> Scene:
    """A delay for each message of a topic.

    :param expected: the expected behaviour, if it differs from the usual one.
    :param alone: True for a consumer without a group, if the system has those.
    :param in_order: True if the system preserves the order of messages.
    :param once: False if the system itself may deliver a message twice.
    :param asked: options of the client library for each message.
    """
    usual = f"each message comes once, {_DELAY_MS} ms after it was published or a little later"
    return Scene(
        name,
        topic,
        {"fixed_delivery_delay": f"{_DELAY_MS // 1000}s"},
        expected or usual,
        partial(_delayed, exclusive=exclusive, alone=alone, once=once, asked=asked),
        partial(_judge, in_order=in_order),
    )


async def _delayed(stage: Stage, exclusive: bool, alone: bool, once: bool, asked: Mapping[str, Any]) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "punctual")
        consumer = await client.consumer(stage.topic, "reader", "reader", exclusive=exclusive, alone=alone)
        reading = asyncio.ensure_future(_read(consumer, stage.patience_s))
        for _ in range(_MESSAGES):
            await producer.publish(_SIZE, **asked)
            await asyncio.sleep(_PAUSE_S)
        came = await reading
    facts = {
        "published_ms": [message.published_ms for message in came],
        "received_ms": [message.received_ms for message in came],
    }
    different = len(_different(came))
    text = f"{different} of {_MESSAGES} messages"
    if twice := len(came) - different:
        text += f", {twice} of them twice"
    return Seen(different == _MESSAGES and not (once and twice), text, facts=facts)


def _different(came: Sequence[Message]) -> set[float]:
    """Messages are published one after another, so their times tell them apart."""
    return {message.published_ms for message in came}


async def _read(consumer: DemoConsumer, patience_s: float) -> list[Message]:
    messages: list[Message] = []
    until = monotonic() + patience_s
    while len(_different(messages)) < _MESSAGES and monotonic() < until:
        message = await consumer.receive(_LOOK_S)
        if message is not None:
            messages.append(message)
            await consumer.acknowledge(message)
    if extra := await consumer.receive(_TWICE_S):
        messages.append(extra)
    return messages


def _judge(seen: Seen, log: TopicLog, in_order: bool) -> Observation:
    published, received = seen.facts["published_ms"], seen.facts["received_ms"]
    if not published:
        return Observation(Verdict.DIFFERENT, f"none of {_MESSAGES} messages came", seen.error)
    ages = [at - since for since, at in zip(published, received, strict=True)]
    early = max(_DELAY_MS - min(ages), _early_release(published, log))
    ordered = not in_order or published == sorted(published)
    text = f"{seen.text}, after {min(ages):.0f} to {max(ages):.0f} ms"
    if early > 0:
        text += f"; up to {early:.1f} ms too early"
    if not ordered:
        text += "; not in order"
    right = seen.met and early <= 0 and ordered
    return Observation(Verdict.RIGHT if right else Verdict.DIFFERENT, text, seen.error)


def _early_release(published_ms: Sequence[float], log: TopicLog) -> float:
    """How much too early the gateway released a message, in ms of its own clock; 0 if the broker delays.

    The n-th released message is at best the n-th published one.
    """
    order = sorted(published_ms)
    released, worst = 0, 0.0
    for row in log.of("dispatch", "allow"):
        released += row["messages"]
        if released > len(order):
            break
        due_ms = order[released - 1] + _DELAY_MS
        worst = max(worst, due_ms - row["time"].timestamp() * 1000 - CLOCK_S * 1000)
    return worst
