"""What owns the connections of one broker, as their relays see it."""

import asyncio
from typing import Protocol, TypeVar

from sluicegate.broker import BaseSession, Listener
from sluicegate.model import CloseReason, ConnectionEvent
from sluicegate.net.relaying.splicing import Pipes
from sluicegate.net.relaying.turns import Turns

_Client = TypeVar("_Client", contravariant=True)


class Owner(Protocol[_Client]):
    """Dials, answers questions and counts for all clients of a broker."""

    loop: asyncio.AbstractEventLoop
    turns: Turns
    pipes: Pipes
    bytes_from_clients: int
    bytes_from_brokers: int

    @property
    def is_tls(self) -> bool:
        """Whether either side uses TLS."""

    def opened(self, client: _Client, /) -> None:
        """A client is connected."""

    def session(self, listener: Listener, peer: str, now_ns: int, /) -> BaseSession:
        """Make the session of a client.

        :raises Exception: if the front cannot.
        """

    def forget(self, client: _Client, /) -> None:
        """Both connections of a client are closed."""

    def dial(
        self,
        side: _Client,
        addresses: tuple[tuple[str, int], ...],
        name: str = "",
        /,
        *,
        in_order: bool = False,
    ) -> None:
        """Connect a client to a broker."""

    def ask(self, client: _Client, question: object, /) -> None:
        """Have a question of a session answered."""

    def queued(self, size: int, /) -> None:
        """Bytes are queued for a client that does not read."""

    def count(self, event: ConnectionEvent, /) -> None:
        """Count an event."""

    def closing(self, client: _Client, counter: CloseReason, detail: str, now_ns: int, /) -> None:
        """A connection is closed for a reason that is counted and logged."""

    def session_failed(self, client: _Client, error: Exception, /) -> None:
        """A session raised."""
