"""One client's connection without its socket: it takes bytes and the time, and gives bytes."""

from collections.abc import Callable
from struct import Struct

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.codec.own_frames import NO_REQUEST
from sluicegate_pulsar.reference.broker import LABEL, Broker
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.connected_consumers import Consuming
from sluicegate_pulsar.reference.connected_producers import Producing
from sluicegate_pulsar.reference.link import Link
from sluicegate_pulsar.reference.lookups import Lookups

_PROTOCOL_VERSION = 20
_HEADERS = 10 * 1024
"""Bytes that a frame may have beyond the largest message."""
_u32 = Struct(">I").unpack_from

_Handler = Callable[[pb.BaseCommand, bytes, int], None]


class Connection:
    """The protocol with one client.

    :param broker: the broker that the client is connected to.
    :param send: sends bytes to the client, in order.
    """

    def __init__(self, broker: Broker, send: Callable[[bytes], None]) -> None:
        self._broker = broker
        self._link = Link(broker, send)
        self._buffer = b""
        self.principal: str | None = None
        """Who the client is by its token; empty without one, None before CONNECT."""
        lookups = Lookups(self._link)
        self._producing = producing = Producing(self._link)
        self._consuming = consuming = Consuming(self._link)
        base = pb.BaseCommand
        self._handlers: dict[int, _Handler] = {
            base.PING: lambda c, f, now: self._link.answer(pb.Pong()),
            base.PONG: lambda c, f, now: None,
            base.LOOKUP: lambda c, f, now: lookups.lookup(c.lookup),
            base.PARTITIONED_METADATA: lambda c, f, now: lookups.partitions(c.partitioned_metadata),
            base.GET_TOPICS_OF_NAMESPACE: lambda c, f, now: lookups.topics(c.get_topics_of_namespace),
            base.GET_SCHEMA: lambda c, f, now: lookups.schema(c.get_schema),
            base.GET_OR_CREATE_SCHEMA: lambda c, f, now: lookups.make_schema(c.get_or_create_schema),
            base.PRODUCER: lambda c, f, now: producing.attach(c.producer),
            base.SEND: lambda c, f, now: producing.send(c.send, f, now),
            base.CLOSE_PRODUCER: lambda c, f, now: producing.detach(c.close_producer),
            base.SUBSCRIBE: lambda c, f, now: consuming.attach(c.subscribe, now),
            base.FLOW: lambda c, f, now: consuming.flow(c.flow, now),
            base.ACK: lambda c, f, now: consuming.acknowledge(c.ack, now),
            base.REDELIVER_UNACKNOWLEDGED_MESSAGES: lambda c, f, now: consuming.redeliver(
                c.redeliver_unacknowledged_messages, now
            ),
            base.SEEK: lambda c, f, now: consuming.seek(c.seek, now),
            base.GET_LAST_MESSAGE_ID: lambda c, f, now: consuming.last_message_id(c.get_last_message_id),
            base.CLOSE_CONSUMER: lambda c, f, now: consuming.detach(c.close_consumer, now),
            base.UNSUBSCRIBE: lambda c, f, now: consuming.unsubscribe(c.unsubscribe, now),
        }

    def receive(self, data: bytes, now_ms: int) -> None:
        """Process what the client sent.

        :param now_ms: wall clock, ms since the epoch.
        :raises ProtocolError: if the connection is to be closed.
        """
        data = self._buffer + data if self._buffer else data
        at = 0
        while len(data) - at >= 4:
            size = _u32(data, at)[0]
            most = self._broker.settings.max_message_size + _HEADERS
            if size > most:
                raise ProtocolError(f"a frame of {size} bytes, expected at most {most}")
            if len(data) - at - 4 < size:
                break
            self._frame(data[at : at + 4 + size], now_ms)
            at += 4 + size
        self._buffer = data[at:]

    def ping(self) -> None:
        """Send a PING to the client."""
        self._link.answer(pb.Ping())

    def lost(self, now_ms: int) -> None:
        """The socket is closed: detach its producers and consumers."""
        self._producing.lost()
        self._consuming.lost(now_ms)

    def _frame(self, frame: bytes, now_ms: int) -> None:
        command = parse_command(frame, 0, len(frame))
        if self.principal is None and command.type != pb.BaseCommand.PING:
            self._connect(command)
            return
        handler = self._handlers.get(command.type) if command.HasField("type") else None
        try:
            if handler is None:
                raise RefusedError(pb.NOT_ALLOWED_ERROR, "the reference broker does not know this command")
            handler(command, frame, now_ms)
        except RefusedError as refused:
            self._link.refuse(_request_id(command), refused)

    def _connect(self, command: "pb.BaseCommand") -> None:
        if command.type != pb.BaseCommand.CONNECT:
            raise ProtocolError(f"a command of type {command.type} before CONNECT")
        request = command.connect
        settings = self._broker.settings
        if settings.tokens:
            token = request.auth_data.decode(errors="replace")
            principal = settings.tokens.get(token) if request.auth_method_name == "token" else None
            if principal is None:
                self._link.refuse(NO_REQUEST, RefusedError(pb.AUTHENTICATION_ERROR, "Failed to authenticate"))
                raise ProtocolError("no token of this broker")
        else:
            principal = ""
        self.principal = principal
        readable = request.feature_flags.supports_broker_entry_metadata
        self._link.wants_entry_metadata = settings.broker_entry_metadata and readable
        connected = pb.Connected(
            server_version=LABEL,
            protocol_version=min(request.protocol_version, _PROTOCOL_VERSION),
            max_message_size=settings.max_message_size,
        )
        self._link.answer(connected)


def _request_id(command: "pb.BaseCommand") -> int:
    """The id under which a client waits for the answer to a command."""
    for _, value in command.ListFields():
        request_id = getattr(value, "request_id", None)
        if isinstance(request_id, int):
            return request_id
    return NO_REQUEST
