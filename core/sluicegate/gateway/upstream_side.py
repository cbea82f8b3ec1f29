"""The broker's end of one client's connection: bytes in, back-pressure, the end."""

import asyncio
from time import monotonic_ns
from typing import TYPE_CHECKING, cast

from sluicegate.broker import PASS
from sluicegate.gateway.reading import FULL

if TYPE_CHECKING:
    from sluicegate.gateway.relay import ClientSide

HIGH_WATER, LOW_WATER = 256 * 1024, 64 * 1024
"""Bytes queued for one end: with more, no more is read for it, until it has taken all but the second."""
_LARGE_READ = 16 * 1024
"""A read of fewer bytes tells that the rest comes slowly: it is read as it comes."""


class UpstreamSide(asyncio.Protocol):
    """The connection to the broker; everything that lasts is kept by the client's side."""

    __slots__ = ("_client", "stands_in", "transport")

    transport: asyncio.Transport

    def __init__(self, client: "ClientSide", *, stands_in: bool = False) -> None:
        self._client = client
        self.stands_in = stands_in
        """True if another broker was preferred, and cannot be connected."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The broker accepted."""
        self.transport = cast("asyncio.Transport", transport)  # uvloop's are none by inheritance
        self.transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        self._client.dialled(self)

    def data_received(self, data: bytes) -> None:
        """Hand bytes from the broker to the session."""
        client = self._client
        session = client.session
        if session is None or client.closing_ns:
            return
        client.last_ns = now_ns = monotonic_ns()
        client.unanswered = False
        client.connections.bytes_from_brokers += len(data)
        try:
            commands = session.receive_upstream(data, now_ns)
            if commands is PASS:
                client.to_client(data)
                if len(data) >= _LARGE_READ:
                    client.look_ahead(session)
            elif commands:
                client.carry_out(commands)
        except Exception as error:  # noqa: BLE001 - whatever a session raises ends its own client only
            client.failed(error)

    def pause_writing(self) -> None:
        """The broker is slow: stop reading from the client."""
        self._client.pause(FULL)

    def resume_writing(self) -> None:
        """The broker takes bytes again."""
        self._client.resume(FULL)

    def eof_received(self) -> None:
        """The broker has said all; the client gets what is on its way, then the same end."""
        self._client.upstream_ended()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection to the broker is gone."""
        self._client.upstream_ended()
        self._client.side_lost()
