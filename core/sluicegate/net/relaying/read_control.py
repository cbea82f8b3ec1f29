"""When the gateway reads from a client, and how it buffers bytes that arrive while reading is paused."""

import asyncio
import select
from abc import abstractmethod

from sluicegate.model import ANONYMOUS, CloseReason, ConnectionClose
from sluicegate.net.relaying.fair_reading import TURN, PacedReading
from sluicegate.net.relaying.turns import Turns

DIALLING = 1
"""The broker is not connected yet."""
FULL = 2
"""The broker does not read."""
SESSION = 4
"""The session asked for it."""
ASKING = 8
"""The front has a question to answer."""
ENDING = 16
"""The gateway drains, or this connection is being closed."""
UNREAD = 32
"""The client does not read."""
_STOPPED_WHILE = DIALLING | SESSION | ASKING | ENDING
KEPT_WHILE = _STOPPED_WHILE | TURN
"""Reasons to buffer bytes that still arrive: a transport may deliver after it was paused."""

_PENDING_LIMIT = 1024 * 1024
"""Most bytes buffered for one client; one read of the event loop is at most a quarter of it."""
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class PausableReading(PacedReading):
    """The reading half of a client's connection.

    :param turns: shared by all connections.
    :param descriptor: of the client's socket, to notice that it hung up while nothing is read from it.
    """

    __slots__ = ("_descriptor", "_eof")

    address: str
    """The client's host."""

    def __init__(self, turns: Turns, descriptor: int) -> None:
        super().__init__(turns, DIALLING)
        self._descriptor = descriptor
        self._eof = False

    @property
    @abstractmethod
    def principal(self) -> str:
        """The principal that the broker has accepted; `ANONYMOUS` if there is none."""

    @property
    def user(self) -> str:
        """Whose memory and turns it takes: the principal, or the host of a client without one."""
        principal = self.principal
        return self.address if principal == ANONYMOUS else principal

    @abstractmethod
    def _go_on(self) -> None:
        """Hand on the buffered bytes if reading is not stopped."""

    def _may_read(self) -> bool:
        return not self._eof

    def _is_stopped(self) -> bool:
        return bool(self._pauses & _STOPPED_WHILE)

    def _handed_on(self, count: int) -> None:
        self._go_on()

    @abstractmethod
    def close(self, counter: CloseReason | None = None, detail: str = "") -> None:
        """Send queued bytes, then close both sides."""

    def cut_off(self) -> None:
        """Its beginning was cancelled: uvloop has closed the connection, if there is one, silently."""
        if self._transport is not None:
            self._transport = None
            self.connection_lost(None)

    def _keep(self, data: bytes) -> None:
        """Buffer bytes that arrive while reading is paused; those of a closing connection are dropped."""
        if self.closing_ns:
            return
        self._put_behind(data)
        self.hold_back_reading()
        if self._pending_bytes > _PENDING_LIMIT:
            detail = f"over {_PENDING_LIMIT} bytes while reading was paused"
            self.close(ConnectionClose.EARLY_BYTES_OVER_LIMIT, detail)

    def _take_pending(self) -> bytes | None:
        """The buffered bytes, if they may be used now."""
        if self._pending is None or self._pauses & KEPT_WHILE or self.closing_ns:
            return None
        return self._taken_back()

    def _close_client(self, transport: asyncio.Transport) -> None:
        """Close towards the client so that it gets the last answer.

        Closing a socket with unread bytes resets it, which can overtake what was sent before; so if reading
        was paused, what was not read is read and thrown away until the client closes too.
        """
        unread = self._pauses and not self._eof
        self._pauses |= ENDING
        self._drop_pending()
        if unread and transport.can_write_eof():
            transport.write_eof()
            transport.resume_reading()
        else:
            transport.close()

    def _is_client_gone(self) -> bool:
        """Ask the kernel: the end of a connection that is not read is not reported."""
        poller = select.poll()
        poller.register(self._descriptor, select.POLLRDHUP)
        return any(events & _GONE for _, events in poller.poll(0))
