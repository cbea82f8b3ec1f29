"""The reference broker's sockets and timers. Other modules do no input or output."""

import asyncio
import logging
import socket
import time
from types import TracebackType
from typing import cast

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.reference.admin import make_app
from sluicegate_pulsar.reference.broker import LABEL, Broker, Settings
from sluicegate_pulsar.reference.client_connection import Connection
from sluicegate_pulsar.reference.subscription import Subscription
from sluicegate_pulsar.reference.topic_names import parse_name
from sluicegate_pulsar.reference.web import WebServer

_log = logging.getLogger(__name__)
_KEEP_ALIVE_S = 30.0


def wall_ms() -> int:
    """The wall clock in ms since the epoch, the unit of delivery times."""
    return time.time_ns() // 1_000_000


class ReferenceBroker:
    """An in-memory broker that speaks Pulsar's binary protocol, for demos and fast tests. It is not Pulsar.

    One node on loopback, without TLS, transactions, geo-replication, schema checks, retention or limits: it
    keeps all that is published until it ends. Use it as an async context manager.

    :param settings: how it behaves; the default if None.
    :param host: address to listen on.
    :param port: of the binary protocol; 0 for a free one.
    :param admin_port: of the admin API; 0 for a free one.
    """

    def __init__(
        self,
        settings: Settings | None = None,
        *,
        host: str = "127.0.0.1",
        port: int = 0,
        admin_port: int = 0,
    ) -> None:
        self.broker = Broker(settings if settings is not None else Settings(), self._wake_at)
        self._host = host
        self._port = port
        self._admin_port = admin_port
        self._connections: set[_Socket] = set()
        self._timers: dict[Subscription, tuple[int, asyncio.TimerHandle]] = {}
        self._server: asyncio.Server | None = None
        self._admin: WebServer | None = None

    @property
    def service_url(self) -> str:
        """`pulsar://host:port`."""
        return self.broker.service_url

    @property
    def admin_url(self) -> str:
        """`http://host:port`."""
        return self.broker.admin_url

    @property
    def principals(self) -> list[str]:
        """Connections by token; "" for those without one."""
        principals = (connection.speaker.principal for connection in self._connections)
        return sorted(principal for principal in principals if principal is not None)

    def disconnect_all(self) -> None:
        """Cut all connections, as a crash would. Clients reconnect."""
        for connection in list(self._connections):
            connection.abort()

    def unload(self, topic: str) -> None:
        """Close all producers and consumers of a topic and notify their clients, as a move would.

        :raises RefusedError: if it is not a topic name.
        """
        self.broker.unload(parse_name(topic))

    async def __aenter__(self) -> "ReferenceBroker":
        """Begin to listen.

        :raises OSError: if a port is not available.
        """
        loop = asyncio.get_running_loop()
        self._server = await loop.create_server(self._accept, self._host, self._port)
        try:
            self._admin = WebServer(make_app(self.broker), self._host, self._admin_port)
        except OSError:
            self._server.close()
            raise
        self.broker.service_url = f"pulsar://{self._host}:{_port_of(self._server.sockets[0])}"
        self.broker.admin_url = f"http://{self._host}:{self._admin.port}"
        self._admin.start()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Stop and discard what is stored."""
        if self._server is not None:
            self._server.close()
        self.disconnect_all()
        for _, timer in self._timers.values():
            timer.cancel()
        self._timers.clear()
        if self._admin is not None:
            await self._admin.stop()

    def _accept(self) -> asyncio.Protocol:
        return _Socket(self.broker, self._connections)

    def _wake_at(self, subscription: Subscription, at_ms: int) -> None:
        planned = self._timers.get(subscription)
        if planned is not None:
            if planned[0] <= at_ms:
                return
            planned[1].cancel()
        # One ms more: the loop may wake a little early, and would then look again only a whole tick later.
        seconds = (max(at_ms - wall_ms(), 0) + 1) / 1000
        timer = asyncio.get_running_loop().call_later(seconds, self._wake, subscription)
        self._timers[subscription] = (at_ms, timer)

    def _wake(self, subscription: Subscription) -> None:
        del self._timers[subscription]
        self.broker.carry_out(subscription, subscription.pump(wall_ms()))


class _Socket(asyncio.Protocol):
    """Carries bytes between one socket and its `Connection`."""

    def __init__(self, broker: Broker, connections: "set[_Socket]") -> None:
        self._connections = connections
        self._transport: asyncio.Transport | None = None
        self._silent = 0
        """How many times in a row nothing was heard since the last look."""
        self._timer: asyncio.TimerHandle | None = None
        self.speaker = Connection(broker, self._send)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """A client has connected."""
        self._transport = cast("asyncio.Transport", transport)  # uvloop's are not instances of it
        self._connections.add(self)
        self._watch()

    def data_received(self, data: bytes) -> None:
        """Process bytes; malformed ones end the connection."""
        self._silent = 0
        try:
            self.speaker.receive(data, wall_ms())
        except ProtocolError as error:
            _log.info("%s closes a connection: %s", LABEL, error.reason)
            if self._transport is not None:
                self._transport.close()

    def connection_lost(self, error: Exception | None) -> None:
        """The client has disconnected."""
        self._connections.discard(self)
        if self._timer is not None:
            self._timer.cancel()
        self.speaker.lost(wall_ms())

    def abort(self) -> None:
        """Cut the connection."""
        if self._transport is not None:
            self._transport.abort()

    def _send(self, data: bytes) -> None:
        if self._transport is not None and not self._transport.is_closing():
            self._transport.write(data)

    def _watch(self) -> None:
        """Ping a silent client; cut one that does not answer."""
        if self._silent > 1:
            self.abort()
            return
        if self._silent:
            self.speaker.ping()
        self._silent += 1
        self._timer = asyncio.get_running_loop().call_later(_KEEP_ALIVE_S, self._watch)


def _port_of(listening: socket.socket) -> int:
    port: int = listening.getsockname()[1]
    return port
