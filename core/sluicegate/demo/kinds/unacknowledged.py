"""The scene for unacknowledged messages: a consumer gets up to the limit, and more once it acknowledges."""

import asyncio
from collections.abc import Sequence
from functools import partial
from time import monotonic

from sluicegate.demo.clients import DemoConsumer, Message
from sluicegate.demo.scene import Scene, Seen, Stage

_SIZE = 1_000
_LOOK_S = 0.1
_QUIET_S = 1.0


def unacknowledged(topic: str, limit: int = 10, consumers: int = 1) -> Scene:
    """A limit on unacknowledged messages.

    :param consumers: number of consumers of one subscription.
    """
    who = "a consumer gets" if consumers == 1 else f"each of {consumers} consumers gets"
    return Scene(
        "unacked",
        topic,
        {"max_unacked_messages_per_consumer": limit},
        f"{who} {limit} messages, and more only when it acknowledges",
        partial(_unacknowledged, limit=limit, consumers=consumers),
    )


async def _unacknowledged(stage: Stage, limit: int, consumers: int) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "filling")
        await producer.publish(_SIZE)
        made = [await client.consumer(stage.topic, "lazy", f"reader-{n}") for n in range(1, consumers + 1)]
        # One after the other, because the messages of a batch are delivered together.
        for _ in range(5 * limit * consumers - 1):
            await producer.publish(_SIZE)
        taken = await asyncio.gather(*(_take(each, limit, stage.patience_s) for each in made))
        for consumer, messages in zip(made, taken, strict=True):
            for message in messages:
                await consumer.acknowledge(message)
        more = await asyncio.gather(*(_take(each, limit, stage.patience_s) for each in made))
    text = f"{_counts(taken)} delivered and no more; {_counts(more)} more once those were acknowledged"
    return Seen(all(len(each) == limit for each in (*taken, *more)), text)


def _counts(taken: Sequence[Sequence[Message]]) -> str:
    return " and ".join(str(len(each)) for each in taken)


async def _take(consumer: DemoConsumer, wanted: int, patience_s: float) -> list[Message]:
    """Receive the wanted number of messages, and further ones that follow immediately."""
    taken: list[Message] = []
    until = monotonic() + patience_s
    while len(taken) < wanted and monotonic() < until:
        if message := await consumer.receive(_LOOK_S):
            taken.append(message)
    while message := await consumer.receive(_QUIET_S):
        taken.append(message)
    return taken
