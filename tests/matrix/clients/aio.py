"""aiokafka at its defaults, but for longer sessions: each producer and each consumer is a client."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from itertools import count
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.errors import KafkaError
from tests.waiting import AIOKAFKA_SESSION_MS

from sluicegate.demo.clients import RefusedError, words
from sluicegate_kafka.demo.clients import KafkaConsumer


class AiokafkaClient:
    """Producers and consumers of one gate."""

    def __init__(self, address: str) -> None:
        self._address = address

    async def producer(self, topic: str, name: str, *, reliable: bool = True) -> "AiokafkaProducer":
        """A producer; Kafka lets it in when its first message comes."""
        made = AIOKafkaProducer(bootstrap_servers=self._address)
        await made.start()
        return AiokafkaProducer(made, topic, len(await made.partitions_for(topic)))

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> "AiokafkaConsumer":
        """A member of a group, or a reader of the first partition."""
        options: dict[str, Any] = {"bootstrap_servers": self._address, "auto_offset_reset": "earliest"}
        if alone:
            made = AIOKafkaConsumer(**options)
            made.assign([TopicPartition(topic, 0)])
        else:
            options["session_timeout_ms"] = AIOKAFKA_SESSION_MS
            made = AIOKafkaConsumer(topic, group_id=subscription, **options)
        found = AiokafkaConsumer(made)
        try:
            await made.start()
            if alone:
                await found.read()
        except KafkaError as error:
            await made.stop()
            raise RefusedError(words(error)) from None
        return found


class AiokafkaProducer:
    """One producer; its messages go to all partitions in turn."""

    def __init__(self, made: AIOKafkaProducer, topic: str, partitions: int) -> None:
        self._made, self._topic, self._partitions = made, topic, partitions
        self._numbers = count()

    async def publish(self, size: int, **asked: Any) -> None:
        """Publish a message."""
        partition = next(self._numbers) % self._partitions
        try:
            await self._made.send_and_wait(self._topic, bytes(size), partition=partition)
        except KafkaError as error:
            raise RefusedError(words(error)) from None

    async def close(self) -> None:
        """Leave."""
        await self._made.stop()


class AiokafkaConsumer(KafkaConsumer):
    """One consumer; without a group it takes part once it has read something."""

    async def read(self) -> None:
        """Return once a message has come."""
        while (first := await self.receive(1)) is None:
            pass
        self._come.appendleft(first)


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[AiokafkaClient]:
    """Clients of the gate at an address."""
    yield AiokafkaClient(address)
