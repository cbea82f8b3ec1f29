"""Scenes for limits on attachments: producers, subscriptions and consumers up to a limit and beyond."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from functools import partial
from time import monotonic
from typing import Any

from sluicegate.demo.clients import DemoClient, DemoConsumer, DemoProducer, attempt, refusal
from sluicegate.demo.scene import Scene, Seen, Stage

_SIZE = 10
_AGAIN_S = 0.1
_LOOK_S = 0.5


def producers(topic: str, limit: int = 2, excess: int = 1) -> Scene:
    """Too many producers for a limit, one of which is admitted after another has detached.

    :param excess: number of producers beyond the limit.
    """
    return Scene(
        "producers",
        topic,
        {"max_producers_per_topic": limit},
        f"{limit} producers publish, {_more(excess)} refused until a place is free",
        partial(_producers, limit=limit, excess=excess),
    )


def _more(excess: int) -> str:
    return "one more is" if excess == 1 else f"{excess} more are"


async def _publishing(client: DemoClient, stage: Stage, name: str) -> DemoProducer:
    """Create a producer and publish, because some systems attach it only then."""
    made = await client.producer(stage.topic, name)
    await made.publish(_SIZE)
    return made


async def _producers(stage: Stage, limit: int, excess: int) -> Seen:
    count = limit + excess
    async with stage.clients() as client:
        made = [await attempt(_publishing(client, stage, f"producer-{n}")) for n in range(1, count + 1)]
        admitted = [producer for producer, error in made if not error]
        errors = [error for _, error in made if error]
        if admitted:
            await admitted[0].close()
        later = await _until_admitted(lambda: _publishing(client, stage, "producer-later"), stage)
    met = [bool(error) for _, error in made] == [False] * limit + [True] * excess and not later
    text = (
        f"{len(admitted)} of {count} were admitted; after one of them had detached another was "
        f"{'refused' if later else 'admitted'}"
    )
    return Seen(met, text, next(iter(errors), later))


async def _until_admitted(attach: Callable[[], Awaitable[object]], stage: Stage) -> str:
    """Retry until a client is admitted; return the last error if none is."""
    until = monotonic() + stage.patience_s
    while True:
        _, error = await attempt(attach())
        if not error or monotonic() >= until:
            return error
        await asyncio.sleep(_AGAIN_S)


def subscriptions(topic: str, limit: int = 2, excess: int = 1, **settings: Any) -> Scene:
    """Too many subscriptions for a limit.

    :param excess: number of subscriptions beyond the limit.
    :param settings: more settings of the topic.
    """
    names = [f"subscription-{n}" for n in range(1, limit + excess + 1)]
    return Scene(
        "subscriptions",
        topic,
        {"max_subscriptions_per_topic": limit, **settings},
        f"{limit} subscriptions are created and read, {_more(excess)} refused",
        partial(_consumers, limit=limit, subscriptions=names),
    )


def consumers_of_topic(
    topic: str,
    limit: int = 2,
    excess: int = 1,
    *,
    one_each: bool = False,
    alone: bool = False,
    replaced: bool = False,
) -> Scene:
    """Too many consumers for the limit of a topic.

    :param excess: number of consumers beyond the limit.
    :param one_each: True if each consumer needs its own subscription.
    :param alone: True for consumers without a group, if the system has those.
    :param replaced: True to detach one at the end and attach another one instead.
    """
    names = [f"workers-{n}" if one_each else "workers" for n in range(1, limit + excess + 1)]
    return Scene(
        "consumers-topic",
        topic,
        {"max_consumers_per_topic": limit},
        f"{limit} consumers join and read, {_more(excess)} refused",
        partial(_consumers, limit=limit, subscriptions=names, alone=alone, replaced=replaced),
    )


def consumers_of_subscription(
    topic: str, limit: int = 2, excess: int = 1, *, replaced: bool = False
) -> Scene:
    """Too many consumers for the limit of a subscription.

    :param excess: number of consumers beyond the limit.
    :param replaced: True to detach one at the end and attach another one instead.
    """
    count = "1 consumer" if limit == 1 else f"{limit} consumers"
    return Scene(
        "consumers-subscription",
        topic,
        {"max_consumers_per_subscription": limit},
        f"{count} of the subscription join and read, {_more(excess)} refused",
        partial(_consumers, limit=limit, subscriptions=["workers"] * (limit + excess), replaced=replaced),
    )


async def _consumers(
    stage: Stage, limit: int, subscriptions: Sequence[str], *, alone: bool = False, replaced: bool = False
) -> Seen:
    async with stage.clients() as client:
        attach = partial(client.consumer, stage.topic, alone=alone)
        producer = await client.producer(stage.topic, "filling")
        await producer.publish(_SIZE)  # publishing creates the topic
        made = [
            await attempt(attach(subscription, f"consumer-{n}"))
            for n, subscription in enumerate(subscriptions, 1)
        ]
        joined = [consumer for consumer, error in made if not error]
        reading = await _all_read(producer, joined, stage.patience_s)
        later = ""
        if replaced and joined:
            await joined[0].close()
            later = await _until_admitted(lambda: attach(subscriptions[0], "consumer-later"), stage)
    errors = [error for _, error in made if error]
    text = f"{len(joined)} of {len(made)} joined, and {reading} of them read; {len(errors)} refused"
    if replaced:
        text += f"; after one had detached another was {'refused' if later else 'admitted'}"
    excess = len(subscriptions) - limit
    met = [bool(error) for _, error in made] == [False] * limit + [True] * excess and reading == limit
    return Seen(met and not later, text, next(iter(errors), later))


async def _all_read(producer: DemoProducer, consumers: Sequence[DemoConsumer], patience_s: float) -> int:
    """Publish until each consumer has received a message; return the number that have."""
    reading = [asyncio.ensure_future(_reads(consumer, patience_s)) for consumer in consumers]
    while reading and not all(task.done() for task in reading):
        await refusal(producer.publish(_SIZE))
        await asyncio.wait(reading, timeout=_AGAIN_S)
    return sum(task.result() for task in reading)


async def _reads(consumer: DemoConsumer, patience_s: float) -> bool:
    until = monotonic() + patience_s
    while monotonic() < until:
        message = await consumer.receive(_LOOK_S)
        if message is not None:
            await consumer.acknowledge(message)
            return True
    return False
