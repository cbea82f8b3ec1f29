"""aiokafka, as the demo's scenes want a client (`sluicegate.demo.DemoClient`)."""

import time
from collections import deque
from collections.abc import AsyncIterator
from contextlib import AsyncExitStack, asynccontextmanager
from typing import Any

from sluicegate.demo.clients import Message, RefusedError, words

PARTITION = 0
_BATCH_BYTES = 4_096
"""Small batches, so that a rate is kept in small steps."""
_LARGEST_BYTES = 1 << 20
_SESSION_MS = 45_000
_REQUEST_MS = 60_000
"""Longer than any hold, and long enough for a slow machine."""


class KafkaClient:
    """aiokafka's clients of one scene.

    :param address: of the gateway, host:port.
    :param stack: closes what was made.
    """

    def __init__(self, address: str, stack: AsyncExitStack) -> None:
        self.address = address
        self._stack = stack

    async def producer(
        self, topic: str, name: str, *, reliable: bool = True, **options: Any
    ) -> "KafkaProducer":
        """A producer; Kafka lets it in when its first message comes.

        :param options: more arguments of aiokafka's producer.
        """
        from aiokafka import AIOKafkaProducer

        made = AIOKafkaProducer(
            bootstrap_servers=self.address,
            client_id=name,
            **{
                "acks": 1,
                "request_timeout_ms": _REQUEST_MS,
                "max_batch_size": _BATCH_BYTES,
                "max_request_size": _LARGEST_BYTES,
                **options,
            },
        )
        producer = KafkaProducer(made, topic)
        self._stack.push_async_callback(producer.close)
        await made.start()
        return producer

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> "KafkaConsumer":
        """A member of a group, or a reader of the scene's partition."""
        from aiokafka import AIOKafkaConsumer, TopicPartition
        from aiokafka.errors import KafkaError

        group: dict[str, Any] = {
            "group_id": subscription,
            "enable_auto_commit": False,
            "session_timeout_ms": _SESSION_MS,
            "heartbeat_interval_ms": 500,
        }
        made = AIOKafkaConsumer(
            *([] if alone else [topic]),
            bootstrap_servers=self.address,
            client_id=name,
            auto_offset_reset="earliest",
            request_timeout_ms=_REQUEST_MS,
            **({} if alone else group),
        )
        if alone:
            made.assign([TopicPartition(topic, PARTITION)])
        consumer = KafkaConsumer(made)
        self._stack.push_async_callback(consumer.close)
        try:
            await made.start()
        except KafkaError as error:
            raise RefusedError(words(error)) from None
        return consumer


class KafkaProducer:
    """One `AIOKafkaProducer`; its messages go to one partition of one topic."""

    def __init__(self, made: Any, topic: str) -> None:
        self._made = made
        self._topic = topic

    async def publish(self, size: int, **asked: Any) -> None:
        """Publish a message.

        :param asked: more arguments of aiokafka's `send`.
        """
        await self.publish_batch(size, **asked)

    async def publish_batch(self, *sizes: int, **asked: Any) -> None:
        """Publish messages at once, so that they make up one batch, as far as the batch size allows."""
        from aiokafka.errors import KafkaError

        try:
            answers = [
                await self._made.send(self._topic, bytes(size), partition=PARTITION, **asked)
                for size in sizes
            ]
            for answer in answers:
                await answer
        except KafkaError as error:
            raise RefusedError(words(error)) from None

    async def close(self) -> None:
        """Detach."""
        await self._made.stop()


class KafkaConsumer:
    """One `AIOKafkaConsumer`."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self._come: deque[Message] = deque()

    async def receive(self, within_s: float) -> Message | None:
        """The next message."""
        if not self._come:
            got = await self._made.getmany(timeout_ms=round(within_s * 1000))
            now_ms = time.time_ns() / 1e6
            for records in got.values():
                for record in records:
                    self._come.append(Message(len(record.value), record.timestamp, now_ms, record))
        return self._come.popleft() if self._come else None

    async def acknowledge(self, message: Message) -> None:
        """A group commits offsets and acknowledges no single message."""

    async def close(self) -> None:
        """Leave the group, if there is one."""
        await self._made.stop()


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[KafkaClient]:
    """Clients of the gateway at an address; they are closed with the block."""
    async with AsyncExitStack() as stack:
        yield KafkaClient(address, stack)
