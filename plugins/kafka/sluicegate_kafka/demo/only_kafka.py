"""Scenes that only Kafka has: the limit on messages within a batch, and timestamps that are ahead."""

import time

from sluicegate.demo.clients import refusal
from sluicegate.demo.kinds.sizes import outcome
from sluicegate.demo.scene import Scene, Seen, Stage
from sluicegate_kafka.demo.clients import KafkaClient

_KIB = 1024
_BATCH = 64 * _KIB
_HOUR_MS = 3_600_000


async def _batch(stage: Stage) -> Seen:
    async with stage.clients() as client:
        assert isinstance(client, KafkaClient)  # noqa: S101 - Kafka's scenes have Kafka's clients
        producer = await client.producer(stage.topic, "batches", max_batch_size=_BATCH, linger_ms=50)
        small = await refusal(producer.publish_batch(*[_KIB] * 10))
        mixed = await refusal(producer.publish_batch(10, 5 * _KIB, 20))
    text = (
        f"a batch of ten 1 KiB messages {outcome(small)}; "
        f"one of three, of which one has 5 KiB, {outcome(mixed)} whole"
    )
    return Seen(not small and bool(mixed), text, mixed)


async def _future(stage: Stage) -> Seen:
    async with stage.clients() as client:
        producer = await client.producer(stage.topic, "time-traveller")
        ahead_ms = time.time_ns() // 1_000_000 + 2 * _HOUR_MS
        ahead = await refusal(producer.publish(100, timestamp_ms=ahead_ms))
        now = await refusal(producer.publish(100))
    text = f"two hours ahead {outcome(ahead)}, stamped now {outcome(now)}"
    return Seen(bool(ahead) and not now, text, ahead)


SCENES = (
    Scene(
        "message-size-batch",
        "demo.batch",
        {"max_message_size": "4KiB"},
        "the limit is for each message: a batch of 10 KiB passes, one that holds a 5 KiB message does not",
        _batch,
    ),
    Scene(
        "fixed-delay-future",
        "demo.future",
        {"fixed_delivery_delay": "2s", "max_timestamp_ahead": "1h"},
        "a message stamped two hours ahead is refused, others pass",
        _future,
    ),
)
