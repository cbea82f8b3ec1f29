"""When a client is read from, and what becomes of bytes that arrive while it should not be.

What reading waits for is a set of reasons, kept as bits, so that pausing twice or resuming what was not
paused does no harm.
"""

import asyncio
import select

DIALLING = 1
"""The broker is not connected yet."""
FULL = 2
"""The broker does not take what is sent to it."""
SESSION = 4
"""The session asked for it."""
ASKING = 8
"""The front has a question to answer."""
ENDING = 16
"""The gateway drains, or this connection is being closed."""
UNREAD = 32
"""The client does not take what is sent to it."""
KEPT_WHILE = DIALLING | SESSION | ASKING | ENDING
"""Reasons for which bytes that still arrive are kept back; a transport may deliver after it was paused."""

PENDING_LIMIT = 1024 * 1024
"""Bytes kept back for one client; one read of the event loop is at most a quarter of it."""
_GONE = select.POLLRDHUP | select.POLLHUP | select.POLLERR


class PausableReading(asyncio.Protocol):
    """The reading half of a client's connection.

    :param descriptor: of the client's socket, to notice that it hung up while nothing is read from it.
    """

    __slots__ = (
        "_descriptor",
        "_eof",
        "_pauses",
        "_pending",
        "_pending_bytes",
        "_transport",
        "closing_ns",
    )

    def __init__(self, descriptor: int) -> None:
        self.closing_ns = 0
        """When closing began; 0 while the connection is in use."""
        self._descriptor = descriptor
        self._transport: asyncio.Transport | None = None
        self._pauses = DIALLING
        self._pending: list[bytes] | None = None
        self._pending_bytes = 0
        self._eof = False

    def pause(self, reason: int) -> None:
        """Stop reading from the client for a further reason."""
        if not self._pauses and self._transport is not None and not self.closing_ns:
            self._transport.pause_reading()
        self._pauses |= reason

    def resume(self, reason: int) -> None:
        """Take one reason back; reading goes on when none is left."""
        if not self._pauses & reason:
            return
        self._pauses &= ~reason
        if not (self._pauses or self._eof or self.closing_ns) and self._transport is not None:
            self._transport.resume_reading()

    def hold_back_reading(self) -> None:
        """Apply the reasons to a transport that has only now begun to read."""
        if self._pauses and self._transport is not None and not self.closing_ns:
            self._transport.pause_reading()

    def _keep(self, data: bytes) -> bool:
        """Keep bytes back that came while reading was paused; those of a closing connection are dropped.

        :return: False if there are too many now.
        """
        if self.closing_ns:
            return True
        if self._pending is None:
            self._pending = []
        self._pending.append(data)
        self._pending_bytes += len(data)
        self.hold_back_reading()
        return self._pending_bytes <= PENDING_LIMIT

    def _take_pending(self) -> bytes | None:
        """What was kept back, if it may be used now."""
        if self._pending is None or self._pauses & KEPT_WHILE or self.closing_ns:
            return None
        data = b"".join(self._pending)
        self._drop_pending()
        return data

    def _drop_pending(self) -> None:
        self._pending = None
        self._pending_bytes = 0

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
        """Ask the kernel: an end that nobody reads is not reported."""
        poller = select.poll()
        poller.register(self._descriptor, select.POLLRDHUP)
        return any(events & _GONE for _, events in poller.poll(0))
