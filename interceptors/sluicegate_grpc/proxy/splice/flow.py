"""Flow control of one direction (RFC 9113 section 5.2): the credit that its receiver has granted.

The two ends manage their windows, and WINDOW_UPDATE frames pass through. The gateway corrects them for the
bytes that it keeps: the sender gets credit for those at once, or one slow stream would stop all others, and
what the receiver grants for them later is swallowed. So, at any time:

    what the sender may send = what the receiver takes + what was sent on credit (`debt`)

Bytes that may be sent and find no room at the receiver wait in their stream's outlet.
"""

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from enum import IntEnum

from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import NoRoomError
from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.frames import MAX_WINDOW, ErrorCode, WireError, data_frames

_DEFAULT_WINDOW = 65_535


class Credit(IntEnum):
    """Which windows of the sender have regained credit for withheld bytes."""

    NONE = 0
    CONNECTION = 1
    STREAM = 2
    """For the connection and for the stream."""


@dataclass(slots=True, eq=False)
class Chunk:
    """Bytes of one stream that the gateway keeps."""

    payload: bytes
    credit: Credit
    """The credit that the sender got for them."""

    def split(self, at: int) -> "Chunk":
        """Keep what is before `at`; returns the rest."""
        rest = Chunk(self.payload[at:], self.credit)
        self.payload = self.payload[:at]
        return rest


def joined(chunks: Sequence[Chunk]) -> bytes:
    """The bytes of chunks, in one piece."""
    if len(chunks) == 1:
        return chunks[0].payload
    return b"".join(chunk.payload for chunk in chunks)


@dataclass(slots=True, eq=False)
class Outlet:
    """The waiting bytes of one stream, in order, and its receiver's window."""

    stream: int
    window: int
    """The receiver's, for this stream."""
    debt: int = 0
    """Bytes forwarded after their sender had regained the credit for them."""
    ahead: int = 0
    """Kept bytes whose credit the sender has regained."""
    ends: bool = False
    """True once its last frame is among `items`."""
    items: "deque[Chunk | bytes]" = field(default_factory=deque)
    """Chunks, and frames (the stream's trailers) that follow them."""


@dataclass(slots=True, eq=False)
class Flow:
    """One direction."""

    budget: Budget
    """Bytes that all sessions may keep together."""
    emit: Callable[[bytes], None]
    """Sends a frame to the receiver."""
    grant: Callable[[int, int], None]
    """Grants the sender credit: stream (0 for the connection) and bytes."""
    window: int = _DEFAULT_WINDOW
    """What the receiver still takes on the connection."""
    initial: int = _DEFAULT_WINDOW
    """What it takes on a new stream."""
    debt: int = 0
    """Bytes forwarded after their sender had regained the credit for them."""
    outlets: dict[int, Outlet] = field(default_factory=dict)
    """Streams whose windows are followed."""
    blocked: dict[int, Outlet] = field(default_factory=dict)
    """Those of them that wait for the connection's window alone."""
    buffered_bytes: int = 0
    uncredited: int = 0
    """Kept bytes whose credit the sender has not regained."""

    # -- the receiver's windows -----------------------------------------------------------------------

    def updated(self, stream: int, amount: int) -> int:
        """The receiver has opened a window.

        :param stream: 0 for the connection.
        :return: how much of it to pass on to the sender.
        :raises WireError: if it is more than a window can be.
        """
        if stream:
            outlet = self.outlets.get(stream)
            if outlet is None:
                return amount
            outlet.window += amount
            swallowed = min(amount, outlet.debt)
            outlet.debt -= swallowed
            self._drain(outlet)
        else:
            self.opened(amount)
            swallowed = min(amount, self.debt)
            self.debt -= swallowed
            self.drain()
        return amount - swallowed

    def opened(self, amount: int) -> None:
        """The receiver has opened the connection's window; see `updated`."""
        self.window += amount
        if self.window > MAX_WINDOW:
            raise WireError(ErrorCode.FLOW_CONTROL_ERROR, GrpcClose.WINDOW_OVERFLOW, "window over 2^31-1")

    def initial_changed(self, initial: int) -> None:
        """SETTINGS_INITIAL_WINDOW_SIZE: applies to open streams, too."""
        outlets = tuple(self.outlets.values())
        for outlet in outlets:
            outlet.window += initial - self.initial  # may be below 0 then (RFC 9113 section 6.9.2)
        self.initial = initial
        for outlet in outlets:
            self._drain(outlet)

    # -- withholding ----------------------------------------------------------------------------------

    def open(self, stream: int) -> Outlet:
        """Track the windows of a stream that has sent nothing yet."""
        outlet = self.outlets[stream] = Outlet(stream, self.initial)
        return outlet

    def open_late(self, stream: int) -> Outlet:
        """Track the order, not the window, of a stream that has sent bytes untracked."""
        outlet = self.outlets[stream] = Outlet(stream, MAX_WINDOW)
        return outlet

    def close(self, outlet: Outlet) -> None:
        """A stream has ended: discard its waiting bytes."""
        self.discard(outlet, [item for item in outlet.items if isinstance(item, Chunk)])
        outlet.items.clear()
        # Its debt on the connection stays: the receiver still grants credit for what it got.
        self.outlets.pop(outlet.stream, None)
        self.blocked.pop(outlet.stream, None)

    def fits(self, outlet: Outlet, size: int) -> bool:
        """Whether bytes of a stream may pass at once."""
        return not outlet.items and size <= self.window and size <= outlet.window

    def passed(self, outlet: Outlet, size: int) -> None:
        """Count bytes of a stream that pass."""
        self.window -= size
        outlet.window -= size

    def wait(self, payload: bytes) -> Chunk:
        """Buffer bytes without a window, at the cost of their sender's window.

        :raises WireError: if that is used up as well; nothing is buffered then.
        """
        size = len(payload)
        # The receiver has opened windows for no more: without this, a sender could fill the memory.
        if self.uncredited + size > self.window + self.debt:
            text = "more was sent than the windows allow"
            raise WireError(ErrorCode.FLOW_CONTROL_ERROR, GrpcClose.WINDOW_EXCEEDED, text)
        self.uncredited += size
        self.buffered_bytes += size
        return Chunk(payload, Credit.NONE)

    def keep(self, outlet: Outlet, payload: bytes, padding: int, ahead: int) -> Chunk:
        """Withhold received bytes.

        :param padding: padding bytes, which are never forwarded.
        :param ahead: how many withheld bytes of the stream may regain credit.
        :raises WireError: if neither the budget nor its sender's window has room; nothing is kept then.
        """
        size = len(payload)
        if padding:
            self.grant(0, padding)
            self.grant(outlet.stream, padding)
        # Unread bytes are bounded by their sender's window; a partial frame is not.
        if not self.budget.take(size, spare=self.budget.limit // 4):
            return self.wait(payload)
        self.buffered_bytes += size
        self.grant(0, size)
        if outlet.ahead + size > ahead:
            return Chunk(payload, Credit.CONNECTION)
        outlet.ahead += size
        self.grant(outlet.stream, size)
        return Chunk(payload, Credit.STREAM)

    def advance(self, outlet: Outlet, chunk: Chunk) -> None:
        """Grant the sender credit on the stream too, as more of its bytes is needed."""
        if chunk.credit is Credit.CONNECTION:
            chunk.credit = Credit.STREAM
            outlet.ahead += len(chunk.payload)
            self.grant(outlet.stream, len(chunk.payload))

    def own(self, outlet: Outlet, payload: bytes) -> Chunk:
        """Send bytes of the gateway's own, which no sender was charged for.

        :raises NoRoomError: if there is no room for them.
        """
        if not self.budget.take(len(payload)):
            raise NoRoomError
        self.buffered_bytes += len(payload)
        outlet.ahead += len(payload)
        return Chunk(payload, Credit.STREAM)

    def drop(self, outlet: Outlet, chunk: Chunk) -> None:
        """Discard withheld bytes; their sender regains the credit for them."""
        self.discard(outlet, [chunk])
        if chunk.credit is not Credit.STREAM:
            self.grant(outlet.stream, len(chunk.payload))

    def discard(self, outlet: Outlet, chunks: Iterable[Chunk]) -> None:
        """Discard bytes of a stream that has ended: their sender regains the credit for the connection."""
        for chunk in chunks:
            size = len(chunk.payload)
            self._let_go(outlet, chunk, size)
            if chunk.credit is Credit.NONE:
                self.grant(0, size)

    def _let_go(self, outlet: Outlet, chunk: Chunk, size: int) -> None:
        self.buffered_bytes -= size
        if chunk.credit is Credit.NONE:
            self.uncredited -= size
        else:
            self.budget.give(size)
        if chunk.credit is Credit.STREAM:
            outlet.ahead -= size

    # -- forwarding ------------------------------------------------------------------------------------

    def send(self, outlet: Outlet, *items: Chunk | bytes) -> None:
        """Send chunks or frames of a stream, as soon as its windows allow."""
        outlet.items.extend(items)
        self._drain(outlet)

    def end(self, outlet: Outlet, last: bytes) -> None:
        """Send the last frame of a stream, after its waiting bytes."""
        outlet.ends = True
        self.send(outlet, last)

    def drain(self) -> None:
        """Send what the connection's window now allows."""
        # Each round uses up the window or removes one stream, which bounds the cost of a WINDOW_UPDATE.
        while self.blocked and self.window > 0:
            self._drain(next(iter(self.blocked.values())))

    def _drain(self, outlet: Outlet) -> None:
        items = outlet.items
        while items:
            item = items[0]
            if isinstance(item, bytes):
                self.emit(item)
            elif not self._send_chunk(outlet, item):
                # One without a window of its own is not looked at when the connection's opens.
                if outlet.window > 0:
                    self.blocked[outlet.stream] = outlet
                else:
                    self.blocked.pop(outlet.stream, None)
                return
            items.popleft()
        self.blocked.pop(outlet.stream, None)
        if outlet.ends:
            self.outlets.pop(outlet.stream, None)

    def _send_chunk(self, outlet: Outlet, chunk: Chunk) -> bool:
        """Send as much as the windows allow; True if that was all."""
        size = len(chunk.payload)
        room = min(size, self.window, outlet.window)
        if room <= 0 < size:
            return False
        rest = chunk.split(room) if room < size else None
        self.window -= room
        outlet.window -= room
        if chunk.credit is not Credit.NONE:
            self.debt += room
        if chunk.credit is Credit.STREAM:
            outlet.debt += room
        self._let_go(outlet, chunk, room)
        if room:
            for frame in data_frames(outlet.stream, chunk.payload):
                self.emit(frame)
        if rest is not None:
            chunk.payload = rest.payload
            return False
        return True
