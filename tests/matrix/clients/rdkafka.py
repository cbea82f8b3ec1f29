"""confluent-kafka, which is librdkafka, at its defaults: each producer and each consumer is a client."""

import asyncio
import threading
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from confluent_kafka import OFFSET_BEGINNING, Consumer, KafkaException, Producer, TopicPartition
from tests.matrix.clients.polling import Polled, PollingConsumer

from sluicegate.demo.clients import Message, RefusedError

_POLL_S = 0.1
_NO_GROUP = {"group.id": "none", "enable.auto.commit": False}
"""confluent-kafka insists on the name of a group; a consumer that does not commit is in none."""


class RdkafkaClient:
    """Producers and consumers of one gate."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def producer(self, topic: str, name: str, *, reliable: bool = True) -> "RdkafkaProducer":
        """A producer; Kafka lets it in when its first message comes."""
        made = Producer({"bootstrap.servers": self._address})
        partitions = (await asyncio.to_thread(made.list_topics, topic)).topics[topic].partitions
        return RdkafkaProducer(made, topic, len(partitions))

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> PollingConsumer:
        """A member of a group, or a reader of the first partition."""

        def make() -> Polled:
            return _polled(self._address, topic, _NO_GROUP if alone else {"group.id": subscription}, alone)

        made = PollingConsumer(make, name)
        await made.join()
        return made


def _polled(address: str, topic: str, group: dict[str, Any], alone: bool) -> Polled:
    consumer = Consumer({"bootstrap.servers": address, "auto.offset.reset": "earliest", **group})
    joined = threading.Event()
    if alone:
        consumer.assign([TopicPartition(topic, 0, OFFSET_BEGINNING)])
    else:
        consumer.subscribe([topic], on_assign=lambda _, __: joined.set())

    def poll() -> Sequence[Message]:
        message = consumer.poll(_POLL_S)
        if message is None:
            return ()
        if (error := message.error()) is not None:
            raise KafkaException(error)
        value, (_, published_ms) = message.value() or b"", message.timestamp()
        return (Message(len(value), published_ms, time.time_ns() / 1e6, message.offset()),)

    return Polled(poll, joined.is_set, consumer.close)


class RdkafkaProducer:
    """One producer, polled by a thread of its own; its messages go to all partitions in turn."""

    def __init__(self, made: Producer, topic: str, partitions: int) -> None:
        self._made, self._topic, self._partitions = made, topic, partitions
        self._numbers = count()
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._poll, name="producer", daemon=True)
        self._thread.start()

    async def publish(self, size: int, **asked: Any) -> None:
        """Publish a message."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def answered(error: Any, _: Any) -> None:
            loop.call_soon_threadsafe(answer.set_result, f"{error.name()}: {error.str()}" if error else "")

        partition = next(self._numbers) % self._partitions
        self._made.produce(self._topic, bytes(size), partition=partition, on_delivery=answered)
        if error := await answer:
            raise RefusedError(error)

    async def close(self) -> None:
        """End it: librdkafka's producer ends when nothing refers to it."""
        self._stopping.set()
        await asyncio.to_thread(self._thread.join)
        await asyncio.to_thread(self._end)

    def _end(self) -> None:
        self._made.flush()
        del self._made

    def _poll(self) -> None:
        while not self._stopping.is_set():
            self._made.poll(_POLL_S)


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[RdkafkaClient]:
    """Clients of the gate at an address."""
    yield RdkafkaClient(address)
