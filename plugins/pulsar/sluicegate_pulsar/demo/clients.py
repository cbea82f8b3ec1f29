"""pulsar-client, as the demo's scenes want a client (`sluicegate.demo.DemoClient`).

The client blocks, so its calls run in threads; each scene has a client of its own. It must not write to a
Python logger: its own threads do, and now and then that aborts the process when it ends.
"""

import asyncio
import os
import time
from collections.abc import AsyncIterator, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from functools import partial
from typing import Any, TypeVar

from sluicegate.demo.clients import Message, RefusedError, words

T = TypeVar("T")
_OPERATION_S = 60
_THREADS = ThreadPoolExecutor(64, "demo")
"""More than the event loop has by default, as many scenes are played at once."""


async def _blocking(call: Callable[..., T], *arguments: Any, **options: Any) -> T:
    """Call what blocks, in a thread.

    :raises RefusedError: if the client raises one of its errors.
    """
    from pulsar import PulsarException

    work = partial(call, *arguments, **options)
    try:
        return await asyncio.get_running_loop().run_in_executor(_THREADS, work)
    except PulsarException as error:
        raise RefusedError(words(error).replace("Pulsar error: ", "")) from None


class PulsarClient:
    """A `pulsar.Client` that is connected to the gateway."""

    def __init__(self, made: Any) -> None:
        self._made = made

    async def producer(
        self, topic: str, name: str, *, reliable: bool = True, **options: Any
    ) -> "PulsarProducer":
        """A producer; its name is the broker's choice, as names must be unique in a cluster.

        :param options: more arguments of pulsar-client's `create_producer`.
        """
        return PulsarProducer(await _blocking(self._made.create_producer, topic, **options))

    async def consumer(
        self, topic: str, subscription: str, name: str, *, exclusive: bool = False, alone: bool = False
    ) -> "PulsarConsumer":
        """A consumer of a shared or an exclusive subscription."""
        import pulsar

        kind = pulsar.ConsumerType.Exclusive if exclusive else pulsar.ConsumerType.Shared
        made = await _blocking(
            self._made.subscribe,
            topic,
            subscription,
            consumer_type=kind,
            consumer_name=name,
            initial_position=pulsar.InitialPosition.Earliest,
        )
        return PulsarConsumer(made)


class PulsarProducer:
    """One producer."""

    def __init__(self, made: Any) -> None:
        self._made = made

    async def publish(self, size: int, **asked: Any) -> None:
        """Publish a message.

        :param asked: more arguments of pulsar-client's `send_async`.
        """
        loop = asyncio.get_running_loop()
        answer: asyncio.Future[str] = loop.create_future()

        def settle(result: str) -> None:
            if not answer.done():
                answer.set_result(result)

        def answered(result: Any, _: Any) -> None:
            with suppress(RuntimeError):  # the loop may have ended by the time of the last answers
                loop.call_soon_threadsafe(settle, str(result).removeprefix("Result."))

        self._made.send_async(bytes(size), answered, **asked)
        result = await answer
        if result != "Ok":
            raise RefusedError(result)

    async def close(self) -> None:
        """Detach."""
        await _blocking(self._made.close)


class PulsarConsumer:
    """One consumer."""

    def __init__(self, made: Any) -> None:
        self._made = made

    async def receive(self, within_s: float) -> Message | None:
        """The next message."""
        return await _blocking(self._receive, round(within_s * 1000))

    def _receive(self, within_ms: int) -> Message | None:
        import pulsar

        try:
            message = self._made.receive(timeout_millis=within_ms)
        except pulsar.Timeout:
            return None
        return Message(len(message.data()), message.publish_timestamp(), time.time_ns() / 1e6, message)

    async def acknowledge(self, message: Message) -> None:
        """Acknowledge it."""
        await _blocking(self._made.acknowledge, message.raw)

    async def close(self) -> None:
        """Detach."""
        await _blocking(self._made.close)


@asynccontextmanager
async def clients(address: str) -> AsyncIterator[PulsarClient]:
    """A client of the gateway at an address; all that it made is closed with the block."""
    import pulsar

    made = pulsar.Client(
        f"pulsar://{address}",
        operation_timeout_seconds=_OPERATION_S,
        logger=pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull),
    )
    try:
        yield PulsarClient(made)
    finally:
        with suppress(RefusedError):
            await _blocking(made.close)
