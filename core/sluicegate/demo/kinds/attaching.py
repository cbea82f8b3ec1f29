"""Scenes of attaching: producers, subscriptions and consumers up to a limit, and one more."""

import asyncio
from collections.abc import Sequence
from functools import partial
from time import monotonic
from typing import Any

from sluicegate.demo.clients import DemoClient, DemoConsumer, DemoProducer, attempt, refusal
from sluicegate.demo.scene import Scene, Seen, Stage

_SIZE = 10
_AGAIN_S = 0.1
_LOOK_S = 0.5


def producers(topic: str, limit: int = 2) -> Scene:
    """A limit on producers, one too many, and a place that becomes free."""
    return Scene(
        "producers",
        topic,
        {"max_producers_per_topic": limit},
        f"{limit} producers publish, one more is refused until a place is free",
        partial(_producers, limit=limit),
    )


async def _publishing(client: DemoClient, stage: Stage, name: str) -> DemoProducer:
    """A producer that has published: on some systems only that attaches it."""
    made = await client.producer(stage.topic, name)
    await made.publish(_SIZE)
    return made


async def _producers(stage: Stage, limit: int) -> Seen:
    async with stage.clients() as client:
        made = [await attempt(_publishing(client, stage, f"producer-{n}")) for n in range(1, limit + 2)]
        admitted = [producer for producer, error in made if not error]
        errors = [error for _, error in made if error]
        if admitted:
            await admitted[0].close()
        later = await _until_let_in(client, stage)
    met = [bool(error) for _, error in made] == [False] * limit + [True] and not later
    text = (
        f"{len(admitted)} of {limit + 1} were let in; after one of them had left another was "
        f"{'refused' if later else 'let in'}"
    )
    return Seen(met, text, next(iter(errors), ""))


async def _until_let_in(client: DemoClient, stage: Stage) -> str:
    """Try until a producer is let in; gives the last error if none is."""
    until = monotonic() + stage.patience_s
    while True:
        _, error = await attempt(_publishing(client, stage, "producer-later"))
        if not error or monotonic() >= until:
            return error
        await asyncio.sleep(_AGAIN_S)


def subscriptions(topic: str, limit: int = 2, **settings: Any) -> Scene:
    """A limit on subscriptions, and one too many.

    :param settings: more settings of the topic.
    """
    names = [f"subscription-{n}" for n in range(1, limit + 2)]
    return Scene(
        "subscriptions",
        topic,
        {"max_subscriptions_per_topic": limit, **settings},
        f"{limit} subscriptions are made and read, one more is refused",
        partial(_consumers, limit=limit, subscriptions=names),
    )


def consumers_of_topic(topic: str, limit: int = 2, *, one_each: bool = False) -> Scene:
    """A limit on the consumers of a topic, and one too many.

    :param one_each: True where each consumer needs a subscription of its own.
    """
    names = [f"workers-{n}" if one_each else "workers" for n in range(1, limit + 2)]
    return Scene(
        "consumers-topic",
        topic,
        {"max_consumers_per_topic": limit},
        f"{limit} consumers join and read, one more is refused",
        partial(_consumers, limit=limit, subscriptions=names),
    )


def consumers_of_subscription(topic: str, limit: int = 2) -> Scene:
    """A limit on the consumers of a subscription, and one too many."""
    return Scene(
        "consumers-subscription",
        topic,
        {"max_consumers_per_subscription": limit},
        f"{limit} consumer{'' if limit == 1 else 's'} of the subscription join and read, one more is refused",
        partial(_consumers, limit=limit, subscriptions=["workers"] * (limit + 1)),
    )


async def _consumers(stage: Stage, limit: int, subscriptions: Sequence[str]) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "filling")
        await producer.publish(_SIZE)  # a topic exists once something was published
        made = [
            await attempt(client.consumer(stage.topic, subscription, f"consumer-{n}"))
            for n, subscription in enumerate(subscriptions, 1)
        ]
        joined = [consumer for consumer, error in made if not error]
        reading = await _all_read(producer, joined, stage.patience_s)
    errors = [error for _, error in made if error]
    text = f"{len(joined)} of {len(made)} joined, and {reading} of them read; {len(errors)} refused"
    met = [bool(error) for _, error in made] == [False] * limit + [True] and reading == limit
    return Seen(met, text, next(iter(errors), ""))


async def _all_read(producer: DemoProducer, consumers: Sequence[DemoConsumer], patience_s: float) -> int:
    """Publish until each consumer has got a message; gives how many have."""
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
