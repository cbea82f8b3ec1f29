"""pulsar-client's classes at a door, or wrappers of them: those that block, in threads, and those of asyncio.

Each client has a connection of its own, as one that leaves closes it.
"""

import asyncio
import os
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import pulsar
from pulsar.asyncio import PulsarException as AioPulsarException
from tests.conformance.policing import Policed, in_thread
from tests.waiting import LONG_S

from sluicegate.testing.conformance.door import Received, RefusedByDoor, Sample

NewClient = Callable[..., Any]
"""`new_client(principal, **options)`."""

_REFUSALS = (
    pulsar.ProducerBusy,
    pulsar.ConsumerBusy,
    pulsar.MessageTooBig,
    pulsar.NotAllowedError,
    pulsar.ChecksumError,
    pulsar.ProducerBlockedQuotaExceededException,
)
_RESULTS = [getattr(pulsar.Result, each.__name__) for each in _REFUSALS]
_OF_CONSUMERS = {
    "consumer_type": pulsar.ConsumerType.Shared,
    "initial_position": pulsar.InitialPosition.Earliest,
}


class _PulsarDoor(Policed):
    """A door that pulsar-client goes through.

    :param policed: what decides.
    :param client: makes its clients for a principal.
    """

    def __init__(self, policed: Policed, client: NewClient) -> None:
        super().__init__(policed.file, policed.sink, policed.gates, policed.tells_reasons)
        self._new = client

    def _client(self, principal: str) -> Any:
        # Its own threads must not write to a Python logger: now and then that aborts the process.
        quiet = pulsar.FileLogger(pulsar.LoggerLevel.Error, os.devnull)
        patience = {"operation_timeout_seconds": LONG_S, "connection_timeout_ms": LONG_S * 1000}
        return self._new(principal, logger=quiet, **patience)


class BlockingDoor(_PulsarDoor):
    """The classes that block."""

    async def producer(self, topic: str, name: str, principal: str) -> "_BlockingProducer":
        """Register a producer."""
        client = self._client(principal)
        try:
            made = await in_thread(client.create_producer, topic, producer_name=name, send_timeout_millis=0)
        except _REFUSALS as error:
            await in_thread(client.close)
            raise RefusedByDoor(str(error)) from None
        return _BlockingProducer(client, made)

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> "_BlockingConsumer":
        """Attach a consumer of a shared subscription."""
        client = self._client(principal)
        try:
            made = await in_thread(client.subscribe, topic, subscription, consumer_name=name, **_OF_CONSUMERS)
        except _REFUSALS as error:
            await in_thread(client.close)
            raise RefusedByDoor(str(error)) from None
        return _BlockingConsumer(client, made)


class _BlockingProducer:
    def __init__(self, client: Any, made: Any) -> None:
        self._client, self._made = client, made

    async def publish(self, message: Sample) -> None:
        try:
            await in_thread(self._made.send, message.value, **_asked(message))
        except _REFUSALS as error:
            raise RefusedByDoor(str(error)) from None

    async def close(self) -> None:
        await in_thread(self._client.close)


class _BlockingConsumer:
    def __init__(self, client: Any, made: Any) -> None:
        self._client, self._made = client, made

    async def receive(self, within_s: float) -> Received | None:
        try:
            return _received(await in_thread(self._made.receive, round(within_s * 1000)))
        except pulsar.Timeout:
            return None

    async def acknowledge(self, message: Received) -> None:
        await in_thread(self._made.acknowledge, message.raw)

    async def close(self) -> None:
        await in_thread(self._client.close)


class AioDoor(_PulsarDoor):
    """The classes of asyncio."""

    async def producer(self, topic: str, name: str, principal: str) -> "_AioProducer":
        """Register a producer."""
        client = self._client(principal)
        try:
            made = await client.create_producer(topic, producer_name=name, send_timeout_millis=0)
        except AioPulsarException as error:
            await client.close()
            raise _refusal(error) from None
        return _AioProducer(client, made)

    async def consumer(self, topic: str, subscription: str, name: str, principal: str) -> "_AioConsumer":
        """Attach a consumer of a shared subscription."""
        client = self._client(principal)
        try:
            made = await client.subscribe(topic, subscription, consumer_name=name, **_OF_CONSUMERS)
        except AioPulsarException as error:
            await client.close()
            raise _refusal(error) from None
        return _AioConsumer(client, made)


class _AioProducer:
    def __init__(self, client: Any, made: Any) -> None:
        self._client, self._made = client, made

    async def publish(self, message: Sample) -> None:
        try:
            await self._made.send(message.value, **_asked(message))
        except AioPulsarException as error:
            raise _refusal(error) from None

    async def close(self) -> None:
        await self._client.close()


class _AioConsumer:
    def __init__(self, client: Any, made: Any) -> None:
        self._client, self._made = client, made
        self._reading: asyncio.Future[Any] | None = None

    async def receive(self, within_s: float) -> Received | None:
        # The original's call loses its message when it is cancelled, so it goes on.
        if self._reading is None:
            self._reading = asyncio.ensure_future(self._made.receive())
        done, _ = await asyncio.wait([self._reading], timeout=within_s)
        if not done:
            return None
        message, self._reading = self._reading.result(), None
        return _received(message)

    async def acknowledge(self, message: Received) -> None:
        await self._made.acknowledge(message.raw)

    async def close(self) -> None:
        if self._reading is not None:
            self._reading.cancel()
        await self._client.close()


def _asked(message: Sample) -> dict[str, Any]:
    """The arguments of a message besides its value."""
    asked: dict[str, Any] = {
        "properties": {name: content.decode() for name, content in message.headers.items()},
        "partition_key": None if message.key is None else message.key.decode(),
    }
    if message.delay_ms:
        asked["deliver_after"] = timedelta(milliseconds=message.delay_ms)
    return asked


def _refusal(error: AioPulsarException) -> Exception:
    """What an exception means: a refusal by its result, or that something failed."""
    return RefusedByDoor(str(error)) if error.error() in _RESULTS else error


def _received(message: Any) -> Received:
    headers = {name: content.encode() for name, content in message.properties().items()}
    return Received(message.data(), headers, message)
