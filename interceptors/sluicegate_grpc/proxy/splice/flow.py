"""Flow control of one direction (RFC 9113 section 5.2): what its receiver still takes, and who was told so.

Windows are the business of the two ends, and their frames pass as they are. The gate corrects them for the
bytes that it keeps: the sender gets leave for those at once, or one slow stream would stop all others, and
what the receiver grants for them later is swallowed. So, at any time:

    what the sender may send = what the receiver takes + what was sent on credit (`debt`)

Bytes that may be sent and find no room at the receiver wait in their stream's outlet.
"""

from collections import deque
from collections.abc import Callable
from enum import IntEnum

from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import NoRoomError
from sluicegate_grpc.proxy.splice.frames import MAX_WINDOW, ErrorCode, WireError, data_frames

_DEFAULT_WINDOW = 65_535


class Credit(IntEnum):
    """How far the sender got leave again for bytes that the gate keeps."""

    NONE = 0
    CONNECTION = 1
    STREAM = 2
    """For the connection and for the stream."""


class Chunk:
    """Bytes of one stream that the gate keeps.

    :param payload: must not change.
    :param credit: what the sender was given for them.
    """

    __slots__ = ("credit", "payload")

    def __init__(self, payload: bytes, credit: Credit) -> None:
        self.payload = payload
        self.credit = credit

    def split(self, at: int) -> "Chunk":
        """Keep what is before `at`; returns the rest."""
        rest = Chunk(self.payload[at:], self.credit)
        self.payload = self.payload[:at]
        return rest


class Outlet:
    """What one stream may send on, in order, and what its receiver still takes of it.

    :param stream: its id.
    :param window: the receiver's, for this stream.
    """

    __slots__ = ("ahead", "debt", "ends", "items", "stream", "window")

    def __init__(self, stream: int, window: int) -> None:
        self.stream = stream
        self.window = window
        self.debt = 0
        """Bytes sent on for which the sender had leave again before."""
        self.ahead = 0
        """Bytes kept for which the sender has leave again."""
        self.ends = False
        """True once nothing can come behind what it has."""
        self.items: deque[Chunk | bytes] = deque()
        """Chunks, and frames (the stream's trailers) that are to go behind them."""


class Flow:
    """One direction.

    :param budget: bytes that all sessions may keep together.
    :param emit: sends a frame to the receiver.
    :param grant: gives the sender leave: stream (0 for the connection) and bytes.
    """

    __slots__ = (
        "_budget",
        "_emit",
        "_grant",
        "blocked",
        "debt",
        "held_bytes",
        "initial",
        "outlets",
        "uncredited",
        "window",
    )

    def __init__(
        self, budget: Budget, emit: Callable[[bytes], None], grant: Callable[[int, int], None]
    ) -> None:
        self._budget = budget
        self._emit = emit
        self._grant = grant
        self.window = _DEFAULT_WINDOW
        """What the receiver still takes on the connection."""
        self.initial = _DEFAULT_WINDOW
        """What it takes on a new stream."""
        self.debt = 0
        self.outlets: dict[int, Outlet] = {}
        """Streams whose windows are followed."""
        self.blocked: dict[int, Outlet] = {}
        """Those of them that wait for the connection's window alone."""
        self.held_bytes = 0
        self.uncredited = 0
        """Bytes kept for which the sender has no leave again."""

    # -- what the receiver says -----------------------------------------------------------------------

    def updated(self, stream: int, amount: int) -> int:
        """The receiver takes more.

        :param stream: 0 for the connection.
        :return: how much of it the sender is to be told.
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
        """The receiver takes more on the connection; see `updated`."""
        self.window += amount
        if self.window > MAX_WINDOW:
            raise WireError(ErrorCode.FLOW_CONTROL_ERROR, "window_overflow", "window over 2^31-1")

    def initial_changed(self, initial: int) -> None:
        """SETTINGS_INITIAL_WINDOW_SIZE: holds for streams that are open already, too."""
        outlets = tuple(self.outlets.values())
        for outlet in outlets:
            outlet.window += initial - self.initial
        self.initial = initial
        for outlet in outlets:
            self._drain(outlet)

    # -- what is kept ---------------------------------------------------------------------------------

    def open(self, stream: int) -> Outlet:
        """Follow the windows of a stream that has sent nothing yet."""
        outlet = self.outlets[stream] = Outlet(stream, self.initial)
        return outlet

    def open_late(self, stream: int) -> Outlet:
        """Keep the order of a stream of which much has passed: its sender heeds its window."""
        outlet = self.outlets[stream] = Outlet(stream, MAX_WINDOW)
        return outlet

    def close(self, outlet: Outlet) -> None:
        """A stream has ended: what it could not send any more is dropped."""
        for item in outlet.items:
            if isinstance(item, Chunk):
                self.drop(outlet, item, over=True)
        outlet.items.clear()
        self.outlets.pop(outlet.stream, None)
        self.blocked.pop(outlet.stream, None)

    def fits(self, outlet: Outlet, size: int) -> bool:
        """Whether so many bytes of a stream may pass as they came."""
        return not outlet.items and size <= self.window and size <= outlet.window

    def passed(self, outlet: Outlet, size: int) -> None:
        """So many bytes of a stream pass as they came."""
        self.window -= size
        outlet.window -= size

    def wait(self, payload: bytes) -> Chunk:
        """Keep bytes that have no room, at the cost of their sender's window.

        :raises WireError: if that has no room either; nothing is kept then.
        """
        size = len(payload)
        if self.uncredited + size > self.window + self.debt:
            text = "more was sent than the windows allow"
            raise WireError(ErrorCode.FLOW_CONTROL_ERROR, "window_exceeded", text)
        self.uncredited += size
        self.held_bytes += size
        return Chunk(payload, Credit.NONE)

    def keep(self, outlet: Outlet, payload: bytes, padding: int, ahead: int) -> Chunk:
        """Keep bytes that came.

        :param padding: bytes that came with them and never go on.
        :param ahead: for how many kept bytes of the stream its sender may have leave again.
        :raises WireError: if neither the budget nor its sender's window has room; nothing is kept then.
        """
        size = len(payload)
        if padding:
            self._grant(0, padding)
            self._grant(outlet.stream, padding)
        # What is not taken costs its sender its window; for a frame that came in part there is no such way.
        if not self._budget.take(size, spare=self._budget.limit // 4):
            return self.wait(payload)
        self.held_bytes += size
        self._grant(0, size)
        if outlet.ahead + size > ahead:
            return Chunk(payload, Credit.CONNECTION)
        outlet.ahead += size
        self._grant(outlet.stream, size)
        return Chunk(payload, Credit.STREAM)

    def advance(self, outlet: Outlet, chunk: Chunk) -> None:
        """Give the sender leave on the stream too, for more of what was kept is needed."""
        if chunk.credit is Credit.CONNECTION:
            chunk.credit = Credit.STREAM
            outlet.ahead += len(chunk.payload)
            self._grant(outlet.stream, len(chunk.payload))

    def own(self, outlet: Outlet, payload: bytes) -> Chunk:
        """Bytes of the gate's own, which no sender was charged for.

        :raises NoRoomError: if there is no room for them.
        """
        if not self._budget.take(len(payload)):
            raise NoRoomError
        self.held_bytes += len(payload)
        outlet.ahead += len(payload)
        return Chunk(payload, Credit.STREAM)

    def drop(self, outlet: Outlet, chunk: Chunk, *, over: bool = False) -> None:
        """Forget bytes that were kept; their sender gets the leave for them that it lacks.

        :param over: True if the stream has ended, so that only the connection matters.
        """
        size = len(chunk.payload)
        self._let_go(outlet, chunk, size)
        if chunk.credit is Credit.NONE:
            self._grant(0, size)
        if chunk.credit is not Credit.STREAM and not over:
            self._grant(outlet.stream, size)

    def _let_go(self, outlet: Outlet, chunk: Chunk, size: int) -> None:
        self.held_bytes -= size
        if chunk.credit is Credit.NONE:
            self.uncredited -= size
        else:
            self._budget.give(size)
        if chunk.credit is Credit.STREAM:
            outlet.ahead -= size

    # -- what goes on ---------------------------------------------------------------------------------

    def send(self, outlet: Outlet, *items: Chunk | bytes) -> None:
        """Send chunks or frames of a stream, as soon as there is room."""
        outlet.items.extend(items)
        self._drain(outlet)

    def drain(self) -> None:
        """Send what has found room on the connection."""
        # Each turn uses the window up or takes one stream out: what a WINDOW_UPDATE costs is bounded by that.
        while self.blocked and self.window > 0:
            self._drain(next(iter(self.blocked.values())))

    def _drain(self, outlet: Outlet) -> None:
        items = outlet.items
        while items:
            item = items[0]
            if isinstance(item, bytes):
                self._emit(item)
            elif not self._send_chunk(outlet, item):
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
        """Send what there is room for; True if that was all."""
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
            for frame in data_frames(outlet.stream, chunk.payload, end=False):
                self._emit(frame)
        if rest is not None:
            chunk.payload = rest.payload
            return False
        return True
