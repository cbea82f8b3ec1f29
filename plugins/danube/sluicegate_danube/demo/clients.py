"""danube-client for the scenes, and measuring what it gets."""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable
from contextlib import asynccontextmanager
from typing import Any, TypeVar

from sluicegate.demo.scene import Stage

T = TypeVar("T")
_IN_FLIGHT = 16


def words(error: BaseException) -> str:
    """An error as its client words it: the gRPC status, and its text."""
    import grpc.aio

    if isinstance(error, grpc.aio.AioRpcError):
        return f"{error.code().name}: {error.details()}"
    return f"{type(error).__name__}: {error}"


@asynccontextmanager
async def client(stage: Stage) -> AsyncIterator[Any]:
    """A `DanubeClient` of the gate; whatever it has opened is closed at the end."""
    from danube import DanubeClientBuilder

    made = await DanubeClientBuilder().service_url(f"http://{stage.address}").build()
    try:
        yield made
    finally:
        for connection in made.connection_manager._connections.values():  # noqa: SLF001 - it has no close
            await connection.channel.close()


async def attempt(call: Awaitable[T]) -> tuple[T | None, str]:
    """Call the client.

    :return: what it returned, and its own error; empty if there was none.
    """
    import grpc

    try:
        return await call, ""
    except grpc.RpcError as error:
        return None, words(error)


async def producer(of: Any, stage: Stage, name: str, *, reliable: bool = True) -> Any:
    """A producer that sends each message once: a `TopicProducer`, as danube-client's `Producer` has inside.

    :raises grpc.RpcError: if it is refused, again and again.
    """
    from danube import DispatchStrategy
    from danube.topic_producer import TopicProducer

    strategy = DispatchStrategy.RELIABLE if reliable else DispatchStrategy.NON_RELIABLE
    made = TopicProducer(of, stage.topic, name, None, strategy, 0, 0, 0)
    await made.create()
    return made


async def publish(by: Any, *sizes: int) -> list[str]:
    """Send messages one after the other.

    :param sizes: bytes of each.
    :return: for each the client's own error, empty if it was accepted.
    """
    return [(await attempt(by.send(bytes(size))))[1] for size in sizes]


async def fill(by: Any, messages: int, size: int) -> None:
    """Publish messages, several at a time.

    :raises RuntimeError: if one was refused.
    """
    waiting = iter(range(messages))

    async def send() -> None:
        for _ in waiting:
            _, error = await attempt(by.send(bytes(size)))
            if error:
                raise RuntimeError(f"cannot fill the topic: {error}")

    await asyncio.gather(*(send() for _ in range(_IN_FLIGHT)))


async def saturate(by: Any, size: int, seconds: float) -> list[float]:
    """Publish as fast as the gate lets us; when each message was acknowledged, in seconds."""
    times: list[float] = []
    began = time.monotonic()

    async def send() -> None:
        while time.monotonic() - began < seconds:
            if not (await publish(by, size))[0]:
                times.append(time.monotonic() - began)

    await asyncio.gather(*(send() for _ in range(_IN_FLIGHT)))
    return times


async def subscribe(of: Any, stage: Stage, subscription: str, name: str = "reader") -> Any:
    """A shared consumer.

    :raises grpc.RpcError: if it is refused, again and again.
    """
    from danube import SubType

    builder = of.new_consumer().with_topic(stage.topic).with_consumer_name(name)
    made = builder.with_subscription(subscription).with_subscription_type(SubType.SHARED).build()
    await made.subscribe()
    return made


async def take(messages: "asyncio.Queue[Any]", within_s: float) -> Any:
    """The next message; None if none comes in time."""
    try:
        return await asyncio.wait_for(messages.get(), within_s)
    except TimeoutError:
        return None


async def arrivals(consumer: Any, seconds: float) -> list[float]:
    """When messages arrive at a consumer, which acknowledges them.

    :param seconds: how long to look, from the first message on.
    :return: seconds since the first message, one for each message.
    """
    messages = await consumer.receive()
    first: float | None = None
    times: list[float] = []
    while first is None or time.monotonic() - first < seconds:
        message = await take(messages, 0.1)
        if message is None:
            continue
        now = time.monotonic()
        first = now if first is None else first
        times.append(now - first)
        await consumer.ack(message)
    await consumer.close()
    return times
