"""The opening of a connection: the choice of its broker, and the client's principal.

Credentials pass through; the gateway has none of its own on a client's connection. A principal counts once
the broker has accepted it.
"""

import base64
import json
from collections.abc import Callable

from sluicegate.broker import ToClient
from sluicegate.broker.broker_ports import Address
from sluicegate.model import ANONYMOUS, CloseReason, ConnectionClose, written_out
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_frame, command_type, parse_command
from sluicegate_pulsar.codec.own_frames import NO_REQUEST, error
from sluicegate_pulsar.codec.pulsar_pb2 import ServerError
from sluicegate_pulsar.events import PulsarClose, PulsarEvent
from sluicegate_pulsar.session.requests.connection import BROKER_SIZE, Connection
from sluicegate_pulsar.session.requests.handling import PASS, TAKEN, Handled, Handler
from sluicegate_pulsar.session.shared.refusals import is_cpp
from sluicegate_pulsar.session.shared.shared import Shared

_TYPES = pb.BaseCommand.Type
_MAX_TOKEN = 64 * 1024


class Handshake:
    """The opening of one connection.

    :param shared: the front's state.
    :param connection: the client's connection.
    :param addresses: brokers that the listener stands for.
    :param dial: called with the brokers to connect to, tried one after the other; later frames wait
        until then.
    :param begin: called once the broker has accepted the client.
    """

    __slots__ = ("_addresses", "_begin", "_claimed", "_connection", "_dial", "_first", "_is_begun", "_shared")

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        addresses: tuple[Address, ...],
        dial: Callable[[tuple[Address, ...]], None],
        begin: Callable[[], None],
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._addresses = addresses
        self._dial = dial
        self._begin = begin
        self._claimed = ANONYMOUS
        self._is_begun = False
        """True once the client has sent its CONNECT."""
        self._first = b""
        """That CONNECT, until the broker is connected."""

    @property
    def client_handlers(self) -> dict[int, Handler]:
        """Handlers of the commands that a client may send before it is accepted."""
        return {_TYPES.CONNECT: self._connect, _TYPES.AUTH_RESPONSE: self._auth_response}

    @property
    def later_handlers(self) -> dict[int, Handler]:
        """Handlers of the client's commands once it is accepted."""
        return {_TYPES.CONNECT: self._again}

    @property
    def broker_handlers(self) -> dict[int, Handler]:
        """Handlers of the broker's commands."""
        return {_TYPES.CONNECTED: self._connected}

    def too_early(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """Close a client that sends a command before CONNECT."""
        raise ProtocolError(f"command {command_type(data, start)} before CONNECTED")

    def _again(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        raise ProtocolError("CONNECT on a connection that is open already")

    def _connect(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        if self._is_begun:
            raise ProtocolError("CONNECT twice")
        self._is_begun = True
        command = parse_command(data, start, stop)
        connect = command.connect
        self._connection.client.introduced(connect.client_version[:100])
        self._claimed = _principal(connect)
        target = connect.proxy_to_broker_url
        if not target:
            self._forward(data[start:stop], self._addresses)
            return TAKEN
        address = self._shared.brokers.target(target)
        if address is None:
            self._shared.count(PulsarEvent.UNKNOWN_BROKER_REFUSED)
            self._refuse(
                PulsarClose.UNKNOWN_BROKER,
                f"broker {target[:200]} is not known to this gateway (see known_brokers)",
            )
            return TAKEN
        # The connection is direct: with this field the broker would take the gateway for a proxy to another.
        connect.ClearField("proxy_to_broker_url")
        self._connection.client.names_broker()
        self._forward(command_frame(command), (address,))
        return TAKEN

    def _forward(self, connect: bytes, addresses: tuple[Address, ...]) -> None:
        """Keep a CONNECT until its broker is connected."""
        self._connection.memory.keep(len(connect))
        self._first = connect
        self._dial(addresses)

    def undialled(self, reason: str) -> None:
        """The broker is unreachable: answer with an error that the client retries."""
        text = f"broker {self._shared.config.name} cannot be reached: {reason}"
        self._refuse(ConnectionClose.UPSTREAM_UNREACHABLE, text)

    def _refuse(self, counter: CloseReason, text: str) -> None:
        self._connection.send_down(error(NO_REQUEST, ServerError.SERVICE_NOT_READY, text))
        self._connection.close(counter, text)

    def dialled(self) -> None:
        """The broker is connected: forward the client's CONNECT."""
        self._connection.send_up(self._first)
        self._connection.memory.give(len(self._first))
        self._first = b""

    def _auth_response(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        if not self._is_begun:
            raise ProtocolError("AUTH_RESPONSE before CONNECT")
        return PASS

    def _connected(self, data: bytes, start: int, stop: int, now_ns: int) -> Handled:
        """The broker accepted the client."""
        client = self._connection.client
        if client.is_ready:
            raise ProtocolError("CONNECTED twice from the broker")
        client.accepted(self._claimed, exempt=self._shared.is_exempt(self._claimed))
        self._begin()
        command = parse_command(data, start, stop)
        connected = command.connected
        size = connected.max_message_size or BROKER_SIZE
        self._connection.accepted(size)
        advertised = self._shared.advertised_size(size) if is_cpp(client.version) else size
        if not _hide(connected.feature_flags) and advertised == size:
            return PASS
        if advertised < size:
            connected.max_message_size = advertised
        return (ToClient(command_frame(command)),)


def _hide(flags: pb.FeatureFlags) -> bool:
    """Remove features that would lead clients past the gateway; True if there were any."""
    hidden = [
        name
        for name in ("supports_scalable_topics", "supports_tc_metadata_discovery")
        if getattr(flags, name)
    ]
    for name in hidden:
        flags.ClearField(name)
    return bool(hidden)


def _principal(connect: pb.Connect) -> str:
    """The principal that a client claims; it counts only once the broker has accepted it.

    As Pulsar's own providers do, it takes a token's subject or the user of basic authentication as the role.
    """
    data = connect.auth_data
    try:
        if connect.auth_method_name == "token" and len(data) <= _MAX_TOKEN:
            body = data.decode().split(".")[1]
            subject = json.loads(base64.urlsafe_b64decode(body + "=" * (-len(body) % 4)))["sub"]
            return written_out(str(subject)) if subject else ANONYMOUS
        if connect.auth_method_name == "basic":
            return data.decode().split(":", 1)[0] or ANONYMOUS
    except (ValueError, IndexError, KeyError, TypeError, RecursionError):
        return ANONYMOUS  # the broker decides on these credentials
    return ANONYMOUS
