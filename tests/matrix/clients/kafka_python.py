"""kafka-python at its defaults: each producer and each consumer is a client."""

import asyncio
import time
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from kafka import KafkaConsumer, KafkaProducer, TopicPartition
from tests.matrix.clients.polling import Polled, PollingConsumer

from sluicegate.demo.clients import Message, RefusedError, words

_POLL_MS = 100


class KafkaPythonClient:
    """Producers and consumers of one gate."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def producer(self, topic: str, name: str, *, reliable: bool = True) -> "KafkaPythonProducer":
        """A producer; Kafka lets it in when its first message comes."""

        def make() -> tuple[Any, int]:
            made = KafkaProducer(bootstrap_servers=self._address)
            return made, len(made.partitions_for(topic))

        made, partitions = await asyncio.to_thread(make)
        return KafkaPythonProducer(made, topic, partitions)

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> PollingConsumer:
        """A member of a group, or a reader of the first partition."""
        made = PollingConsumer(lambda: _polled(self._address, topic, None if alone else subscription), name)
        await made.join()
        return made


def _polled(address: str, topic: str, group: str | None) -> Polled:
    consumer = KafkaConsumer(bootstrap_servers=address, group_id=group, auto_offset_reset="earliest")
    if group is None:
        consumer.assign([TopicPartition(topic, 0)])
    else:
        consumer.subscribe([topic])
        # A group's leader that joins before it has the topic's metadata joins again when they come. If a poll
        # times out in the midst of that, 3.0.12 never ends the second join, with a gate or without
        # (docs/kafka.md). So have the metadata first.
        consumer.partitions_for_topic(topic)

    def poll() -> Sequence[Message]:
        found = consumer.poll(_POLL_MS)
        now_ms = time.time_ns() / 1e6
        return [
            Message(len(one.value), one.timestamp, now_ms, one.offset)
            for each in found.values()
            for one in each
        ]

    return Polled(poll, lambda: group is not None and bool(consumer.assignment()), consumer.close)


class KafkaPythonProducer:
    """One producer; its messages go to all partitions in turn."""

    def __init__(self, made: Any, topic: str, partitions: int) -> None:
        self._made, self._topic, self._partitions = made, topic, partitions
        self._numbers = count()

    async def publish(self, size: int, **asked: Any) -> None:
        """Publish a message."""
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def stored(_: object) -> None:
            loop.call_soon_threadsafe(answer.set_result, "")

        def failed(error: BaseException) -> None:
            loop.call_soon_threadsafe(answer.set_result, words(error))

        partition = next(self._numbers) % self._partitions
        sent = await asyncio.to_thread(self._made.send, self._topic, bytes(size), partition=partition)
        sent.add_callback(stored)
        sent.add_errback(failed)
        if error := await answer:
            raise RefusedError(error)

    async def close(self) -> None:
        """Leave."""
        await asyncio.to_thread(self._made.close)


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[KafkaPythonClient]:
    """Clients of the gate at an address."""
    yield KafkaPythonClient(address)
