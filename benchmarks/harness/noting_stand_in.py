"""Stand-ins for Kafka and Pulsar that answer at once, keep nothing, and note what comes and when.

Run as a program with `kafka` or `pulsar`, the port to listen on, and optionally a file for the notes. A
message then ends with the time at which it was sent, as `noted.py` says.
"""

import asyncio
import signal
import struct
import sys
from abc import ABC, abstractmethod
from collections.abc import Mapping
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from typing import cast

import uvloop

from benchmarks.harness import pulsar_bytes
from benchmarks.harness.kafka_produced import PRODUCE, VERSIONS, produced
from benchmarks.harness.noted import SENT_BYTES, NotePad
from benchmarks.harness.processes import Child, free_port, start_module
from sluicegate_pulsar.codec import pulsar_pb2 as pb

_FLUSH_S = 0.1
_START_S = 60
_TYPES = pb.BaseCommand.Type


class _Connection(asyncio.Protocol, ABC):
    """One connection, whose frames begin with their length in four bytes."""

    def __init__(self, notes: NotePad | None) -> None:
        self._notes = notes
        self._received = b""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """It is open."""
        self._transport = cast("asyncio.Transport", transport)

    def data_received(self, data: bytes) -> None:
        """Answer all frames that are complete."""
        received, at, answers = self._received + data, 0, []
        while at + 4 <= len(received):
            end = at + 4 + int.from_bytes(received[at : at + 4])
            if end > len(received):
                break
            answers.append(self._answer(received[at + 4 : end]))
            at = end
        self._received = received[at:]
        self._transport.write(b"".join(answers))

    @abstractmethod
    def _answer(self, frame: bytes) -> bytes:
        """What is answered to a frame; empty for nothing."""


class _Kafka(_Connection):
    def _answer(self, frame: bytes) -> bytes:
        api_key, correlation_id = struct.unpack_from(">h2xi", frame)
        if api_key == PRODUCE and self._notes is not None:
            self._notes.message(frame[-1 - SENT_BYTES : -1])  # no headers come behind the value
        body = produced(frame) if api_key == PRODUCE else VERSIONS
        return struct.pack(">ii", 4 + len(body), correlation_id) + body


class _Pulsar(_Connection):
    def __init__(self, notes: NotePad | None) -> None:
        super().__init__(notes)
        self._producers: dict[int, str] = {}

    def connection_lost(self, _error: Exception | None) -> None:
        """Its producers have gone."""
        for producer in tuple(self._producers):
            self._gone(producer)

    def _answer(self, frame: bytes) -> bytes:
        end = 4 + int.from_bytes(frame[:4])
        command = pb.BaseCommand.FromString(frame[4:end])
        if command.type == _TYPES.SEND:
            if self._notes is not None:
                self._notes.message(frame[-SENT_BYTES:])
            send = command.send
            stored = {"ledger_id": 1, "entry_id": send.sequence_id}
            ids = {"producer_id": send.producer_id, "sequence_id": send.sequence_id}
            return pulsar_bytes.command("send_receipt", **ids, message_id=stored)
        if command.type == _TYPES.CONNECT:
            return pulsar_bytes.command("connected", server_version="Pulsar Server4.2.4", protocol_version=20)
        if command.type == _TYPES.PING:
            return pulsar_bytes.command("pong")
        return self._of_producers(command)

    def _of_producers(self, command: pb.BaseCommand) -> bytes:
        if command.type == _TYPES.PRODUCER:
            asked = command.producer
            self._producers[asked.producer_id] = asked.producer_name
            if self._notes is not None:
                self._notes.came(asked.producer_name)
            return pulsar_bytes.command(
                "producer_success", request_id=asked.request_id, producer_name=asked.producer_name
            )
        if command.type == _TYPES.CLOSE_PRODUCER:
            self._gone(command.close_producer.producer_id)
            return pulsar_bytes.command("success", request_id=command.close_producer.request_id)
        return b""

    def _gone(self, producer: int) -> None:
        name = self._producers.pop(producer, None)
        if name is not None and self._notes is not None:
            self._notes.went(name)


_CONNECTIONS: Mapping[str, type[_Connection]] = {"kafka": _Kafka, "pulsar": _Pulsar}


def start_noting(
    stack: ExitStack, directory: Path, system: str, notes: Path | None = None
) -> tuple[int, Child]:
    """Start one; it ends with `stack`.

    :param directory: for its output; made if it is missing.
    :param system: `kafka` or `pulsar`.
    :param notes: file for what it notes.
    :return: its port and its process.
    """
    port = free_port()
    more = [] if notes is None else [str(notes)]
    child = start_module(stack, directory, "noting_stand_in", system, str(port), *more)
    child.wait_for_port(port, _START_S)
    return port, child


async def _main(system: str, port: int, path: str = "") -> None:
    notes, loop = NotePad(Path(path)) if path else None, asyncio.get_running_loop()
    over = asyncio.Event()
    loop.add_signal_handler(signal.SIGTERM, over.set)
    server = await loop.create_server(partial(_CONNECTIONS[system], notes), "127.0.0.1", port, backlog=4096)
    while not over.is_set():
        try:
            await asyncio.wait_for(over.wait(), _FLUSH_S)
        except TimeoutError:
            if notes is not None:
                notes.flush()
    server.close()
    if notes is not None:
        notes.close()


if __name__ == "__main__":
    uvloop.run(_main(sys.argv[1], int(sys.argv[2]), *sys.argv[3:]))
