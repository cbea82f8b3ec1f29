"""The broker's end of one client's connection: bytes in, back-pressure, the end."""

import asyncio
from collections.abc import Callable, Sequence
from time import monotonic_ns
from typing import TYPE_CHECKING, Any, Protocol, cast

from sluicegate.broker import PASS, Buffer, Command
from sluicegate.model import CloseReason, SessionClose
from sluicegate.net.relaying.fair_reading import CHEAP_NS, TURN, UNTIMED_BYTES, PacedReading
from sluicegate.net.relaying.owner import Owner
from sluicegate.net.relaying.read_control import FULL
from sluicegate.net.relaying.splicing import WORTHWHILE, WORTHWHILE_AGAIN, Splice, ready

if TYPE_CHECKING:
    from sluicegate.broker import BaseSession

HIGH_WATER, LOW_WATER = 256 * 1024, 64 * 1024
"""Bytes queued for one end above which its source is not read, and below which it is read again."""
SPLICED = 128
"""A reason not to read: the kernel moves what comes (`splicing`)."""
LARGE_READ = 16 * 1024
"""A smaller read means that the rest arrives slowly, and is not worth a splice."""
_HEAD_BYTES = 4096
"""Read of a request of which the rest is probably moved by the kernel."""
_SMALL_BYTES = 2 * _HEAD_BYTES
"""Bytes behind a large request among which the next one has to begin; else requests are no longer large."""


class Downstream(Protocol):
    """The client's end of the connection, see `ClientSide`."""

    session: "BaseSession | None"
    to_client: Callable[[Buffer], None]
    closing_ns: int
    last_ns: int
    unanswered: bool

    @property
    def user(self) -> str:
        """Whose turns it takes."""

    @property
    def connections(self) -> Owner[Any]:
        """What owns all connections of the broker."""

    def dialled(self, upstream: "UpstreamSide", /) -> None:
        """The broker is connected."""

    def carry_out(self, commands: Sequence[Command], /) -> None:
        """Execute commands of the session, in order."""

    def turn(self, call: Callable[..., Sequence[Command]], /, *arguments: object) -> None:
        """Call the session without bytes, and carry out its commands."""

    def data_received(self, data: bytes, /) -> None:
        """Hand bytes from the client to the session."""

    def is_only_paused_for(self, reason: int, /) -> bool:
        """Whether there is no other reason not to read from the client."""

    def pause(self, reason: int, /) -> None:
        """Stop reading from the client for a reason."""

    def resume(self, reason: int, /) -> None:
        """Read again, unless another reason is left."""

    def upstream_ended(self) -> None:
        """The broker closed."""

    def side_lost(self) -> None:
        """One of the two connections is closed."""

    def failed(self, error: Exception, /) -> None:
        """The session raised: end this client, and no other."""

    def close(self, counter: CloseReason | None = None, detail: str = "", /) -> None:
        """Send queued bytes, then close both sides."""


class UpstreamSide(PacedReading):
    """The connection to the broker; the client's side keeps all lasting state."""

    __slots__ = (
        "_client",
        "_head_bytes",
        "_splice",
        "_splice_up",
        "client_transport",
        "stands_in",
        "transport",
    )

    transport: asyncio.Transport

    def __init__(self, client: Downstream, *, stands_in: bool = False) -> None:
        super().__init__(client.connections.turns)
        self._client = client
        self._splice: Splice | None = None
        """Moves bytes to the client meanwhile; nothing else is sent to it."""
        self._splice_up: Splice | None = None
        """Moves bytes of the client here meanwhile; nothing else is sent to the broker.

        Between two large requests it stays, and reads the head of the next one.
        """
        self._head_bytes = 0
        """Read since the last large request."""
        self.client_transport: asyncio.Transport | None = None
        """The connection to the client, once its side knows of this one."""
        self.stands_in = stands_in
        """True if another broker was preferred, and cannot be connected."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """The broker accepted."""
        self.transport = self._transport = cast("asyncio.Transport", transport)  # no inheritance in uvloop
        self.transport.set_write_buffer_limits(HIGH_WATER, LOW_WATER)
        self._client.dialled(self)

    def data_received(self, data: bytes) -> None:  # noqa: C901 - hot
        """Hand bytes from the broker to the session."""
        if self._pauses and self._pauses & TURN:
            if not self.closing_ns:
                self._put_behind(data)
            return
        count = len(data)
        if count > self._cheap_bytes:
            self._pace(data)
            return
        client = self._client
        session = client.session
        if session is None or client.closing_ns:
            return
        # <hot> As `_hand_on`, without the call.
        client.last_ns = now_ns = monotonic_ns()
        client.unanswered = False
        client.connections.bytes_from_brokers += count
        try:
            commands = session.receive_upstream(data, now_ns)
            if commands is PASS:
                client.to_client(data)
                if count <= UNTIMED_BYTES:
                    return
            elif commands:
                client.carry_out(commands)
        except Exception as error:  # noqa: BLE001 - whatever a session raises ends its own client only
            client.failed(error)
        if (spent_ns := monotonic_ns() - now_ns) > CHEAP_NS:
            self._learn(count, spent_ns)
        if count >= LARGE_READ:
            self._handed_on(count)

    def _hand_on(self, data: bytes, now_ns: int) -> None:
        client = self._client
        session = client.session
        if session is None or client.closing_ns:
            return
        client.last_ns = now_ns
        client.unanswered = False
        client.connections.bytes_from_brokers += len(data)
        try:
            commands = session.receive_upstream(data, now_ns)
            if commands is PASS:
                client.to_client(data)
            elif commands:
                client.carry_out(commands)
        except Exception as error:  # noqa: BLE001 - whatever a session raises ends its own client only
            client.failed(error)

    @property
    def user(self) -> str:
        """The user of the client."""
        return self._client.user

    def _is_stopped(self) -> bool:
        return False  # what was read goes on; back-pressure ends reading

    def _handed_on(self, count: int) -> None:
        """Check whether the kernel can move the next bytes."""
        client = self._client
        if count >= LARGE_READ and client.session is not None and not self._pauses:
            self._look_ahead(client.session)

    def _look_ahead(self, session: "BaseSession") -> None:
        """Have the kernel move the rest of a long answer, if the session need not see it."""
        count = session.unread_bytes
        if self._splice is None and count >= WORTHWHILE:
            self._splice = splice = self._ready(self.transport, self.client_transport, self._spliced)
            if splice is not None:
                self.pause(SPLICED)
                splice.move(count)

    def _ready(
        self, source: asyncio.Transport, target: asyncio.Transport | None, on_moved: Callable[[Splice], None]
    ) -> Splice | None:
        """Prepare to have the kernel move bytes from one side to the other."""
        connections = self._client.connections
        if connections.is_tls or target is None:
            return None
        return ready(connections.loop, connections.pipes, source, target, on_moved)

    def _spliced(self, splice: Splice) -> None:
        client = self._client
        self._splice = None
        splice.close()
        client.connections.bytes_from_brokers += splice.moved
        if client.closing_ns:
            return
        if not splice.is_empty:
            client.close(SessionClose.CLIENT_GONE)  # what is in the pipe cannot be sent any more
            return
        self.resume(SPLICED)
        client.turn(cast("BaseSession", client.session).passed, splice.moved, monotonic_ns())

    def splice_request(self) -> None:
        """Have the kernel move the rest of a long request, if the session need not see it."""
        session, source = self._client.session, self.client_transport
        if session is None or source is None or self._splice_up is not None or self.closing_ns:
            return
        count = session.unread_request_bytes
        if count >= WORTHWHILE_AGAIN:  # the next requests are probably as long
            self._splice_up = splice = self._ready(source, self.transport, self._spliced_up)
            if splice is not None:
                self._client.pause(SPLICED)
                splice.move(count)

    def _spliced_up(self, splice: Splice) -> None:
        client = self._client
        client.connections.bytes_from_clients += splice.moved
        if client.closing_ns or not splice.is_empty:
            # The client stays paused, so that what it still sends does not reset its connection.
            self._splice_up = None
            client.upstream_ended()  # what is in the pipe cannot be sent any more
            return
        client.turn(cast("BaseSession", client.session).request_passed, splice.moved, monotonic_ns())
        if not splice.is_open:
            self._read_as_usual()
        elif not client.closing_ns:
            self._head_bytes = 0
            splice.keep(self._next_request, self._read_as_usual)

    def _next_request(self) -> None:
        """Read no more than the head of the next request: if it is as long, the kernel moves the rest."""
        client, splice = self._client, cast("Splice", self._splice_up)
        session = cast("BaseSession", client.session)
        if session.unread_request_bytes < WORTHWHILE_AGAIN:
            may_read = self._head_bytes < _SMALL_BYTES and client.is_only_paused_for(SPLICED)
            head = splice.read(_HEAD_BYTES) if may_read else b""
            if head is None:
                return
            if not head:
                self._read_as_usual()  # at the end, too, which the transport reports
                return
            self._head_bytes += len(head)
            client.data_received(head)
        if splice.is_open and (count := session.unread_request_bytes) >= WORTHWHILE_AGAIN:
            splice.move(count)

    def _read_as_usual(self) -> None:
        """Requests are no longer large, or the pipe is needed elsewhere."""
        splice, self._splice_up = self._splice_up, None
        if splice is not None:
            splice.close()
            self._client.resume(SPLICED)

    @property
    def moved_ns(self) -> int:
        """When the kernel last moved bytes to either side; 0 if it moves none now."""
        return max(0 if each is None else each.last_ns for each in (self._splice, self._splice_up))

    @property
    def waits_for_client(self) -> bool:
        """Whether the client's bytes are awaited here, and not that the broker takes them."""
        splice = self._splice_up
        if splice is None or splice.is_held_up:
            return False
        return bool(splice.last_ns) or self._client.is_only_paused_for(SPLICED)

    @property
    def queued_bytes(self) -> int:
        """Bytes for the broker that it has not taken, and of the broker that wait for their turn."""
        return self.unsent_bytes + self._pending_bytes

    def write_eof(self) -> bool:
        """Close the sending side; False if the connection cannot, as with TLS."""
        if not self.transport.can_write_eof():
            return False
        self.transport.write_eof()
        return True

    def close(self, now_ns: int) -> None:
        """Send queued bytes, then close."""
        self.closing_ns = now_ns
        for splice in (self._splice, self._splice_up):
            if splice is not None and splice.last_ns:
                splice.close()
        self._read_as_usual()
        self._drop_pending()
        self.transport.close()

    def pause_writing(self) -> None:
        """The broker is slow: stop reading from the client."""
        self._client.pause(FULL)

    def resume_writing(self) -> None:
        """The broker reads again."""
        self._client.resume(FULL)

    def eof_received(self) -> None:
        """The broker has closed its sending side: send the client the rest, then close."""
        self._hand_on_all()
        self._client.upstream_ended()

    def connection_lost(self, exc: Exception | None) -> None:
        """The connection to the broker is closed."""
        self._hand_on_all()
        self._client.upstream_ended()
        self._client.side_lost()
