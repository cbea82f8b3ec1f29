"""The scene of unacknowledged messages: a consumer gets so many, and more when it acknowledges."""

from functools import partial
from time import monotonic

from sluicegate.demo.clients import DemoConsumer, Message, fill
from sluicegate.demo.scene import Scene, Seen, Stage

_SIZE = 1_000
_LOOK_S = 0.1
_QUIET_S = 1.0


def unacknowledged(topic: str, limit: int = 10) -> Scene:
    """A limit on the messages that a consumer has not acknowledged."""
    return Scene(
        "unacked",
        topic,
        {"max_unacked_messages_per_consumer": limit},
        f"a consumer gets {limit} messages, and more only when it acknowledges",
        partial(_unacknowledged, limit=limit),
    )


async def _unacknowledged(stage: Stage, limit: int) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "filling")
        await producer.publish(_SIZE)
        consumer = await client.consumer(stage.topic, "lazy", "reader")
        await fill(producer, 5 * limit - 1, _SIZE)
        taken = await _take(consumer, limit, stage.patience_s)
        before = len(taken)
        for message in taken:
            await consumer.acknowledge(message)
        more = await _take(consumer, limit, stage.patience_s)
    text = f"{before} delivered and no more; {len(more)} more once those were acknowledged"
    return Seen(before == limit and len(more) == limit, text)


async def _take(consumer: DemoConsumer, wanted: int, patience_s: float) -> list[Message]:
    """Messages until so many came, and those that come beyond them within a moment."""
    taken: list[Message] = []
    until = monotonic() + patience_s
    while len(taken) < wanted and monotonic() < until:
        if message := await consumer.receive(_LOOK_S):
            taken.append(message)
    while message := await consumer.receive(_QUIET_S):
        taken.append(message)
    return taken
