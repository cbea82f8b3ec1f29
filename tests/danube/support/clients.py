"""Danube's own Python client; what it leaves open is closed."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from danube import (
    Consumer,
    ConsumerOptions,
    DanubeClient,
    DanubeClientBuilder,
    DispatchStrategy,
    Producer,
    ProducerOptions,
    SubType,
)
from danube.proto import DanubeApi_pb2 as pb
from tests.waiting import LONG_S

NOTHING_S = 0.3
"""How long to wait to see that nothing comes."""


@asynccontextmanager
async def danube_client(url: str, ca: str = "") -> AsyncIterator[DanubeClient]:
    """A client of the broker or gate at a URL (`http://host:port`); its connections are closed at the end.

    :param ca: file of the certificates that it trusts; for `https`.
    """
    builder = DanubeClientBuilder().service_url(url)
    client = await (builder.with_tls(ca) if ca else builder).build()
    try:
        yield client
    finally:
        for connection in client.connection_manager._connections.values():
            await connection.channel.close()


@asynccontextmanager
async def producing(
    client: DanubeClient,
    topic: str,
    name: str = "producer",
    *,
    reliable: bool = False,
    partitions: int = 0,
    subject: str = "",
    max_retries: int = 0,
) -> AsyncIterator[Producer]:
    """A producer within the block.

    :param max_retries: of the client on statuses that it retries; 0 for its default.
    """
    strategy = DispatchStrategy.RELIABLE if reliable else DispatchStrategy.NON_RELIABLE
    builder = client.new_producer().with_topic(topic).with_name(name).with_dispatch_strategy(strategy)
    builder = builder.with_options(ProducerOptions(max_retries=max_retries)).with_partitions(partitions)
    producer: Producer = (builder.with_schema_subject(subject) if subject else builder).build()
    await producer.create()
    try:
        yield producer
    finally:
        await producer.close()


class Receiving:
    """A consumer that receives."""

    def __init__(self, consumer: Consumer, queue: "asyncio.Queue[pb.StreamMessage]") -> None:
        self.consumer = consumer
        self._queue = queue

    async def next(self) -> pb.StreamMessage:
        """The next message, not acknowledged.

        :raises TimeoutError: if none comes.
        """
        return await asyncio.wait_for(self._queue.get(), LONG_S)

    async def take(self, count: int, *, ack: bool = True) -> list[bytes]:
        """Payloads of the next messages."""
        payloads = []
        for _ in range(count):
            message = await self.next()
            payloads.append(message.payload)
            if ack:
                await self.consumer.ack(message)
        return payloads

    async def nothing(self) -> bool:
        """Whether nothing comes for a while."""
        try:
            await asyncio.wait_for(self._queue.get(), NOTHING_S)
        except TimeoutError:
            return True
        return False


@asynccontextmanager
async def consuming(
    client: DanubeClient,
    topic: str,
    subscription: str = "subscription",
    name: str = "consumer",
    *,
    kind: SubType = SubType.EXCLUSIVE,
    filters: tuple[str, ...] = (),
    max_retries: int = 0,
) -> AsyncIterator[Receiving]:
    """A consumer that receives within the block; its stream is closed at the end.

    :param filters: glob patterns of routing keys, for KEY_SHARED.
    :param max_retries: of the client on statuses that it retries; 0 for its default.
    """
    builder = client.new_consumer().with_topic(topic).with_consumer_name(name).with_subscription(subscription)
    builder = builder.with_subscription_type(kind).with_key_filters(list(filters))
    consumer: Consumer = builder.with_options(ConsumerOptions(max_retries=max_retries)).build()
    await consumer.subscribe()
    try:
        yield Receiving(consumer, await consumer.receive())
    finally:
        await consumer.close()
        await asyncio.gather(*consumer._tasks, return_exceptions=True)
