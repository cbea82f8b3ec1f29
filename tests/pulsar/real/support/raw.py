"""A bare connection that speaks single commands, for the codes and texts that client libraries hide."""

import socket
import struct
import time
from types import TracebackType
from typing import Any, Self

import google_crc32c
from tests.waiting import LONG_S

from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, MessageMetadata

_PROTOCOL_VERSION = 21


class RawClient:
    """One connection to a broker or a gateway, on which the handshake is done.

    :param address: `host:port`.
    :param version: what the client calls itself; refusals of messages depend on it.
    :param connect: further fields of CONNECT, such as `auth_method_name` and `auth_data`.
    """

    def __init__(self, address: str, version: str = "raw", **connect: Any) -> None:
        host, _, port = address.rpartition(":")
        self.socket = socket.create_connection((host, int(port)), LONG_S)
        self._requests = 0
        command = BaseCommand(type=BaseCommand.CONNECT)
        command.connect.client_version = version
        command.connect.protocol_version = _PROTOCOL_VERSION
        for name, value in connect.items():
            setattr(command.connect, name, value)
        self.send(command)
        self.connected = self.receive(BaseCommand.CONNECTED, BaseCommand.ERROR)
        """CONNECTED, or the ERROR that came in its place."""

    def producer(self, topic: str, producer_id: int = 1) -> BaseCommand:
        """Make a producer; returns PRODUCER_SUCCESS or ERROR."""
        command = BaseCommand(type=BaseCommand.PRODUCER)
        command.producer.topic = topic
        command.producer.producer_id = producer_id
        command.producer.request_id = self._request()
        self.send(command)
        return self.receive(BaseCommand.PRODUCER_SUCCESS, BaseCommand.ERROR)

    def subscribe(self, topic: str, subscription: str, *, consumer_id: int = 1, kind: int = 1) -> BaseCommand:
        """Attach a consumer; returns SUCCESS or ERROR.

        :param kind: 0 Exclusive, 1 Shared, 2 Failover, 3 Key_Shared.
        """
        command = BaseCommand(type=BaseCommand.SUBSCRIBE)
        command.subscribe.topic = topic
        command.subscribe.subscription = subscription
        command.subscribe.consumer_id = consumer_id
        command.subscribe.sub_type = kind  # type: ignore[assignment]
        command.subscribe.request_id = self._request()
        self.send(command)
        return self.receive(BaseCommand.SUCCESS, BaseCommand.ERROR)

    def publish(
        self, payload: bytes, *, sequence_id: int = 0, producer_id: int = 1, **metadata: Any
    ) -> BaseCommand:
        """Send one message and return SEND_RECEIPT or SEND_ERROR.

        :param metadata: fields of the message's metadata, such as `deliver_at_time`.
        """
        self.send(*message(payload, sequence_id=sequence_id, producer_id=producer_id, **metadata))
        return self.receive(BaseCommand.SEND_RECEIPT, BaseCommand.SEND_ERROR)

    def send(self, command: BaseCommand, rest: bytes = b"") -> None:
        """Send a frame; `rest` is what follows the command."""
        body = command.SerializeToString()
        self.socket.sendall(struct.pack(">II", 4 + len(body) + len(rest), len(body)) + body + rest)

    def receive(self, *kinds: int) -> BaseCommand:
        """The next command of these kinds, others being skipped and pings answered.

        :raises ConnectionError: if the other side closes.
        :raises TimeoutError: if none comes in 20 s.
        """
        while True:
            command = self.next()
            if command.type in kinds:
                return command
            if command.type == BaseCommand.PING:
                pong = BaseCommand(type=BaseCommand.PONG)
                pong.pong.SetInParent()
                self.send(pong)

    def next(self) -> BaseCommand:
        """The next command, whatever it is."""
        size, command_size = struct.unpack(">II", self._exactly(8))
        body = self._exactly(size - 4)
        return BaseCommand.FromString(body[:command_size])

    def close(self) -> None:
        """Close the connection as a crash does, without a word."""
        self.socket.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _request(self) -> int:
        self._requests += 1
        return self._requests

    def _exactly(self, count: int) -> bytes:
        found = bytearray()
        while len(found) < count:
            piece = self.socket.recv(count - len(found))
            if not piece:
                raise ConnectionError("the other side closed the connection")
            found += piece
        return bytes(found)


def message(
    payload: bytes, *, sequence_id: int = 0, producer_id: int = 1, **metadata: Any
) -> tuple[BaseCommand, bytes]:
    """SEND of one message and what follows the command: checksum, metadata and payload."""
    command = BaseCommand(type=BaseCommand.SEND)
    command.send.producer_id = producer_id
    command.send.sequence_id = sequence_id
    fields: dict[str, Any] = {"producer_name": "raw", "publish_time": time.time_ns() // 1_000_000} | metadata
    described = MessageMetadata(sequence_id=sequence_id, **fields).SerializeToString()
    body = struct.pack(">I", len(described)) + described + payload
    return command, struct.pack(">HI", 0x0E01, google_crc32c.value(body)) + body
