"""Clients that send at a pace of their own, each message with its time, and connect anew when cut off."""

import asyncio
import struct
import time
from abc import ABC, abstractmethod
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager, suppress
from typing import Any

from benchmarks.harness import kafka_long_bytes, pulsar_bytes
from benchmarks.harness.noted import SENT_BYTES
from sluicegate_pulsar.codec import pulsar_pb2 as pb

_TYPES = pb.BaseCommand.Type
_MOST_IN_FLIGHT = 32
"""Unanswered messages of a client at which it waits."""
_PAUSE_S = 0.05
"""Between two attempts to connect."""


@asynccontextmanager
async def running(*works: Coroutine[Any, Any, None]) -> AsyncIterator[None]:
    """Have work done beside the block, at whose end it is cancelled.

    :raises Exception: what any of it has raised.
    """
    loop = asyncio.get_running_loop()
    tasks = [loop.create_task(each) for each in works]
    try:
        yield
    finally:
        for task in tasks:
            task.cancel()
        ends = await asyncio.gather(*tasks, return_exceptions=True)
    for end in ends:
        if isinstance(end, Exception):
            raise end


class RefusedError(Exception):
    """The gateway did not let a client in."""


class FleetClient(ABC):
    """One client with one connection.

    :param name: by which the gateway knows it.
    :param address: `host:port` of its gateway.
    :param pace: messages a second that it wants to send.
    """

    def __init__(self, name: str, topic: str, address: str, pace: float) -> None:
        self.name = name
        self.topic = topic
        self.address = address
        self.pace = pace
        self.last_answer_s = 0.0
        """When a message was answered last."""
        self._room = asyncio.Semaphore(0)

    async def run(self) -> None:
        """Send until it is cancelled."""
        while True:
            with suppress(OSError, EOFError, RefusedError):
                await self._connected()
            await asyncio.sleep(_PAUSE_S)

    async def _connected(self) -> None:
        host, port = self.address.split(":")
        reader, writer = await asyncio.open_connection(host, int(port))
        try:
            await self.open(reader, writer)
            self._room = asyncio.Semaphore(_MOST_IN_FLIGHT)
            async with running(self._send(writer)):
                await self._hear(reader, writer)
        finally:
            writer.transport.abort()

    async def _send(self, writer: asyncio.StreamWriter) -> None:
        due_s = time.monotonic()
        while True:
            await self._room.acquire()
            now_s = time.monotonic()
            # What it could not send before it does not catch up on.
            due_s = max(due_s + 1 / self.pace, now_s - 1 / self.pace)
            if due_s > now_s:
                await asyncio.sleep(due_s - now_s)
            writer.write(self.message(time.monotonic_ns().to_bytes(SENT_BYTES)))

    async def _hear(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            if self.is_answer(await frame(reader), writer):
                self.last_answer_s = time.monotonic()
                self._room.release()

    @abstractmethod
    async def open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """What comes before the first message.

        :raises RefusedError: if the client is not let in.
        """

    @abstractmethod
    def message(self, sent: bytes) -> bytes:
        """A message that ends with these bytes."""

    @abstractmethod
    def is_answer(self, received: bytes, writer: asyncio.StreamWriter) -> bool:
        """Whether a frame answers a message; answers what has to be."""


async def frame(reader: asyncio.StreamReader) -> bytes:
    """The next frame without its length."""
    (length,) = struct.unpack(">I", await reader.readexactly(4))
    return await reader.readexactly(length)


class KafkaClient(FleetClient):
    """One that sends Produce requests of one record each."""

    def __init__(self, name: str, topic: str, address: str, pace: float) -> None:
        super().__init__(name, topic, address, pace)
        records = kafka_long_bytes.batch(kafka_long_bytes.record(SENT_BYTES), 1)
        self._before = kafka_long_bytes.produce({topic: {0: records}}, name)[: -1 - SENT_BYTES]

    async def open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Nothing comes before it."""

    def message(self, sent: bytes) -> bytes:
        """See `FleetClient`."""
        return self._before + sent + b"\0"

    def is_answer(self, received: bytes, writer: asyncio.StreamWriter) -> bool:
        """See `FleetClient`."""
        return True


class PulsarClient(FleetClient):
    """One that has a producer."""

    _sequence = 0

    async def open(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """See `FleetClient`."""
        await attach(reader, writer, self.topic, self.name)

    def message(self, sent: bytes) -> bytes:
        """See `FleetClient`."""
        self._sequence += 1
        now_ms = time.time_ns() // 1_000_000
        return pulsar_bytes.send(self._sequence, sent, producer_name=self.name, publish_time=now_ms)

    def is_answer(self, received: bytes, writer: asyncio.StreamWriter) -> bool:
        """See `FleetClient`."""
        return _command(received, writer).type == _TYPES.SEND_RECEIPT


async def attach(reader: asyncio.StreamReader, writer: asyncio.StreamWriter, topic: str, name: str) -> None:
    """Log in to Pulsar and make a producer.

    :raises RefusedError: if it is refused; the text says why.
    """
    writer.write(pulsar_bytes.command("connect", client_version="Pulsar-CPP-v4.2.0", protocol_version=20))
    while _command(await frame(reader), writer).type != _TYPES.CONNECTED:
        pass
    asked = {"topic": topic, "producer_id": 0, "request_id": 1, "producer_name": name}
    writer.write(pulsar_bytes.command("producer", **asked, user_provided_producer_name=True))
    while (answer := _command(await frame(reader), writer)).type != _TYPES.PRODUCER_SUCCESS:
        if answer.type == _TYPES.ERROR:
            raise RefusedError(answer.error.message)


def _command(received: bytes, writer: asyncio.StreamWriter) -> pb.BaseCommand:
    end = 4 + int.from_bytes(received[:4])
    command = pb.BaseCommand.FromString(received[4:end])
    if command.type == _TYPES.PING:
        writer.write(pulsar_bytes.command("pong"))
    return command
