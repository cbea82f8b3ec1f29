"""pulsar-client for the scenes, and measuring what it gets.

The client blocks, so its calls run in threads; each scene has a client of its own. It must not write to a
Python logger: its own threads do, and now and then that aborts the process when it ends.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, TypeVar

from sluicegate.demo.scene import Stage

T = TypeVar("T")
_OPERATION_S = 8
_POLL_MS = 100
_THREADS = ThreadPoolExecutor(64, "demo")
"""More than the event loop has by default, as all scenes are played at once."""


async def blocking(call: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call what blocks, in a thread."""
    work = partial(call, *arguments, **options)
    return await asyncio.get_running_loop().run_in_executor(_THREADS, work)


def words(error: BaseException) -> str:
    """An error as its client words it, on one line: `ProducerBusy`, and what it knows beyond it."""
    text = " ".join(str(error).split()).removeprefix("Pulsar error: ")
    name = type(error).__name__
    return text if name in text else f"{name}: {text}"


@asynccontextmanager
async def client(stage: Stage) -> AsyncIterator[Any]:
    """A `pulsar.Client` that is connected to the gate."""
    import pulsar

    made = pulsar.Client(
        f"pulsar://{stage.address}",
        operation_timeout_seconds=_OPERATION_S,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )
    try:
        yield made
    finally:
        await blocking(made.close)


async def attempt(call: Any, *arguments: Any, **options: Any) -> tuple[Any, str]:
    """Call the client.

    :return: what it returned, and its own error; empty if there was none.
    """
    from pulsar import PulsarException

    try:
        return await blocking(call, *arguments, **options), ""
    except PulsarException as error:
        return None, words(error)


async def publish(producer: Any, *sizes: int, **options: Any) -> list[str]:
    """Send messages one after the other.

    :param sizes: bytes of each.
    :param options: more arguments of pulsar-client's `send`.
    :return: for each the client's own error, empty if it was acknowledged.
    """
    return [(await attempt(producer.send, bytes(size), **options))[1] for size in sizes]


async def fill(stage: Stage, of: Any, messages: int, size: int) -> None:
    """Publish messages through the gate, after a subscription was made for each that is to read them.

    :param of: the client.
    :raises RuntimeError: if one was refused.
    """
    producer = await blocking(of.create_producer, stage.topic, max_pending_messages=messages)
    refused: list[Any] = []

    def send() -> None:
        for _ in range(messages):
            producer.send_async(bytes(size), lambda result, _: refused.append(result))
        producer.flush()

    await blocking(send)
    await blocking(producer.close)
    failed = [result for result in refused if str(result) != "Ok" and not str(result).endswith(".Ok")]
    if failed:
        raise RuntimeError(f"cannot fill {stage.topic}: {failed[0]}")


def _receive(consumer: Any) -> Any:
    import pulsar

    try:
        return consumer.receive(timeout_millis=_POLL_MS)
    except pulsar.Timeout:
        return None


async def arrivals(consumer: Any, seconds: float, *, acknowledge: bool = True) -> list[float]:
    """When messages arrive at a consumer.

    :param seconds: how long to look, from the first message on.
    :return: seconds since the first message, one for each message.
    """

    def look() -> list[float]:
        first: float | None = None
        times: list[float] = []
        while first is None or time.monotonic() - first < seconds:
            message = _receive(consumer)
            if message is None:
                continue
            now = time.monotonic()
            first = now if first is None else first
            times.append(now - first)
            if acknowledge:
                consumer.acknowledge(message)
        return times

    return await blocking(look)


async def ages(consumer: Any, messages: int, within_s: float = 10.0) -> list[tuple[bytes, float]]:
    """Content and age in ms of each message when it arrives.

    :param messages: how many to wait for.
    """

    def look() -> list[tuple[bytes, float]]:
        found: list[tuple[bytes, float]] = []
        until = time.monotonic() + within_s
        while len(found) < messages and time.monotonic() < until:
            message = _receive(consumer)
            if message is not None:
                found.append((message.data(), time.time_ns() / 1e6 - message.publish_timestamp()))
                consumer.acknowledge(message)
        return found

    return await blocking(look)
