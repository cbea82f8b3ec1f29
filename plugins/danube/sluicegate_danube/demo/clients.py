"""danube-client, as the demo's scenes want a client (`sluicegate.demo.DemoClient`)."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sluicegate.demo.clients import Message, RefusedError

T = TypeVar("T")


async def called(call: Awaitable[T]) -> T:
    """Await a call of the client.

    :raises RefusedError: with the gRPC status and its text, if it fails.
    """
    import grpc.aio

    try:
        return await call
    except grpc.aio.AioRpcError as error:
        raise RefusedError(f"{error.code().name}: {error.details()}") from None
    except grpc.RpcError as error:
        raise RefusedError(f"{type(error).__name__}: {error}") from None


class DanubeClient:
    """A `danube.DanubeClient` of the gateway."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self.consumers: list[DanubeConsumer] = []

    async def producer(self, topic: str, name: str, *, reliable: bool = True) -> "DanubeProducer":
        """A producer that sends each message once: the `TopicProducer` inside danube-client's producer."""
        from danube import DispatchStrategy
        from danube.topic_producer import TopicProducer

        strategy = DispatchStrategy.RELIABLE if reliable else DispatchStrategy.NON_RELIABLE
        made = TopicProducer(self._made, topic, name, None, strategy, 0, 0, 0)
        await called(made.create())
        return DanubeProducer(made)

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> "DanubeConsumer":
        """A consumer of a shared or an exclusive subscription."""
        from danube import SubType

        builder = self._made.new_consumer().with_topic(topic).with_consumer_name(name)
        kind = SubType.EXCLUSIVE if exclusive else SubType.SHARED
        made = builder.with_subscription(subscription).with_subscription_type(kind).build()
        await called(made.subscribe())
        self.consumers.append(DanubeConsumer(made))
        return self.consumers[-1]


class DanubeProducer:
    """One producer."""

    def __init__(self, made: Any) -> None:
        self._made = made

    async def publish(self, size: int, **asked: Any) -> None:
        """Publish a message; Danube's producers can ask for nothing more."""
        await called(self._made.send(bytes(size)))

    async def close(self) -> None:
        """Stop: Danube's producers have no message for leaving."""
        self._made.stop()


class DanubeConsumer:
    """One consumer."""

    def __init__(self, made: Any) -> None:
        self._made = made
        self._messages: asyncio.Queue[Any] | None = None

    async def receive(self, within_s: float) -> Message | None:
        """The next message."""
        if self._messages is None:
            self._messages = await self._made.receive()
        try:
            message = await asyncio.wait_for(self._messages.get(), within_s)
        except TimeoutError:
            return None
        return Message(len(message.payload), message.publish_time, time.time_ns() / 1e6, message)

    async def acknowledge(self, message: Message) -> None:
        """Acknowledge it."""
        await called(self._made.ack(message.raw))

    async def close(self) -> None:
        """Detach."""
        await self._made.close()


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[DanubeClient]:
    """A client of the gateway at an address; whatever it has opened is closed with the block."""
    from danube import DanubeClientBuilder

    made = await DanubeClientBuilder().service_url(f"http://{address}").build()
    client = DanubeClient(made)
    try:
        yield client
    finally:
        for consumer in client.consumers:
            await consumer.close()
        for connection in made.connection_manager._connections.values():  # noqa: SLF001 - it has no close
            await connection.channel.close()
