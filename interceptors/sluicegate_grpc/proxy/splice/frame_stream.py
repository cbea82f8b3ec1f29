"""One direction of a connection: splits its bytes into frames, and forwards them.

Frames pass unchanged unless a handler changes them. Handlers cut, replace and insert frames by
edits of the bytes read, so a read without edits is forwarded as one buffer.
"""

from collections import deque
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import TypeAlias

from sluicegate.broker import Buffer
from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import NoRoomError, Pieces
from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.flow import Flow, Outlet
from sluicegate_grpc.proxy.splice.frames import (
    CONTINUATION,
    DATA,
    END_STREAM,
    HEAD,
    HEADERS,
    LEAST_MAX_FRAME,
    SETTINGS,
    STREAM_MASK,
    ErrorCode,
    WireError,
    frame,
    malformed,
    read_head,
    unpadded,
    window_update,
)

Handler: TypeAlias = Callable[[bytes, int, int, int, int, int], None]
"""`(buffer, start, stop, flags, stream, now_ns)` of one whole frame, which passes unless it is cut."""
_NOTHING_YET = -1
_UNKNOWN = CONTINUATION + 1
"""All kinds that HTTP/2 does not know."""
WORK_PER_TURN = 1_152
"""What one turn of the event loop may take, in units of some 0.9 us: each frame counts one."""
CALL_WORK = 4
"""Extra work of HEADERS, and of DATA with a handler."""
BYTES_SHIFT = 9
"""Each 512 bytes (2**9) count one more."""
BATCH = 16
"""Frames per count of work: counting each would cost a tenth of a call."""
_BATCH = range(BATCH)
_JOINED_BYTES = 16_384
"""Parts that are smaller together are sent as one."""


@dataclass(slots=True, eq=False)
class FrameStream:
    """The frames of one direction."""

    budget: Budget
    """Bytes that all sessions may keep together."""
    flow: Flow = field(init=False)
    back: "FrameStream" = field(init=False)
    """The other direction: what its sender is told goes there."""
    watched: set[int] = field(default_factory=set)
    """Streams whose DATA frames are looked at."""
    _continued: int = _NOTHING_YET
    """The stream whose header block is not complete, which only CONTINUATION may follow; 0 for none."""
    unacknowledged: deque[bytes] = field(default_factory=deque)
    """SETTINGS of the receiver's that the sender has not acknowledged."""
    max_frame: int = LEAST_MAX_FRAME
    """Payload of a frame that the receiver takes."""
    at: int = 0
    """Offset of the current frame in `data`."""
    data: bytes = b""
    """The bytes that are looked at now."""
    reads: int = 0
    """How often bytes have come."""
    _waits_for_turn: bool = False
    """True while frames that have come are not looked at until their turn comes."""
    _handlers: tuple[Handler, ...] = ()
    _marked: int = 0
    """Flags by which DATA of any stream is looked at."""
    _charged: int = 0
    """Work that a handler asked to count beside its frame."""
    _walked: int = 0
    _edits: list[tuple[int, int, bytes]] = field(default_factory=list)
    _grants: dict[int, int] = field(default_factory=dict)
    _rest: Pieces = field(init=False)
    _need: int = 0
    _began_ns: int = 0
    _held_frames: int = 0
    """Bytes of header blocks that wait, and what `hold_besides` counts."""

    def __post_init__(self) -> None:
        self.flow = Flow(self.budget, self.insert, self.grant)
        self._rest = Pieces(self.budget)

    def join(self, back: "FrameStream") -> None:
        """Make two directions those of one connection."""
        self.back, back.back = back, self

    @property
    def held_bytes(self) -> int:
        """Buffered bytes: of an incomplete frame, and withheld ones."""
        return self._rest.size + self._held_frames + self.flow.held_bytes

    @property
    def frame_began_ns(self) -> int:
        """When the current partial frame or header block began; 0 if there is none."""
        return self._began_ns if self._rest.size > 0 or self._continued > 0 else 0

    def hand_to(self, handlers: Mapping[int, Handler], default: Handler, marked: int = 0) -> None:
        """Set the handlers of frames.

        :param handlers: by kind; for DATA only of watched streams, of streams without a window, and `marked`.
        :param default: handles frames of all other kinds.
        :param marked: flags by which DATA of any stream is handled.
        """
        self._marked = marked
        self._handlers = tuple(handlers.get(kind, default) for kind in range(_UNKNOWN + 1))

    # -- reading --------------------------------------------------------------------------------------

    def walk(self, data: bytes, now_ns: int) -> bool:
        """Process the next bytes; `take` then gives the bytes to forward.

        One turn of the event loop processes a bounded number of frames.

        :return: True if the rest has to wait for another turn: call `resume` then, and this with no bytes.
        :raises WireError: if they break the protocol.
        :raises NoRoomError: if there is no room for the rest.
        """
        # <hot> Runs for every read.
        self.reads += 1
        rest = self._rest
        if rest.size:
            if data:
                rest.keep(data)
            if rest.size < self._need or self._waits_for_turn:
                return False
            data = rest.all()
        self.data = data
        self.at = 0
        was_open = self._continued > 0
        try:
            self.at = self._frames(data, now_ns)
        finally:  # what passed before a malformed frame is already decided and counted
            self._walked = at = self.at
        if not was_open or self._continued <= 0:
            self._began_ns = now_ns
        if at < len(data):
            rest.keep(data[at:] if at else data)
            if len(data) - at >= HEAD:
                high, low = read_head(data, at)[:2]
                self._need = HEAD + (high << 8 | low)
            else:
                self._need = HEAD
        return self._waits_for_turn

    def resume(self) -> None:
        """The turn of the rest has come."""
        self._waits_for_turn = False

    def _frames(self, data: bytes, now_ns: int) -> int:  # noqa: C901 - one loop, and hot
        # <hot> One turn for each frame.
        handlers, watched, flow, max_frame = self._handlers, self.watched, self.flow, self.max_frame
        marked = self._marked
        at, end, left = 0, len(data), WORK_PER_TURN
        while left >= BATCH * (1 + CALL_WORK):
            begin, calls = at, 0
            for _ in _BATCH:
                if end - at < HEAD:
                    return at
                high, low, kind, flags, stream = read_head(data, at)
                size = high << 8 | low
                stop = at + HEAD + size
                if size > max_frame:
                    max_frame = self._checked(size)
                if stop > end:
                    return at
                if stream < 0:
                    stream &= STREAM_MASK
                if self._continued and (kind != CONTINUATION or stream != self._continued):
                    self._out_of_place(kind)
                if kind | flags & marked == DATA and size and stream not in watched and size <= flow.window:
                    flow.window -= size
                else:
                    if kind <= HEADERS:
                        calls += 1
                    elif kind > _UNKNOWN:
                        kind = _UNKNOWN
                    self.at = at
                    handlers[kind](data, at, stop, flags, stream, now_ns)
                    if self._charged:
                        at = stop
                        break
                at = stop
            left -= BATCH + CALL_WORK * calls + (at - begin >> BYTES_SHIFT) + self._charged
            self._charged = 0
        self._waits_for_turn = end - at >= HEAD
        return at

    def charge(self, work: int) -> None:
        """Charge extra work for the current frame.

        :param work: in the units of `WORK_PER_TURN`.
        """
        self._charged += work

    def _out_of_place(self, kind: int) -> None:
        if self._continued != _NOTHING_YET:
            raise malformed("a header block was left open")
        if kind != SETTINGS:  # RFC 9113 section 3.4
            raise malformed("the first frame is not SETTINGS")
        self._continued = 0

    def _checked(self, size: int) -> int:
        if size > self.max_frame:
            text = f"a frame of {size} bytes, over the limit of {self.max_frame}"
            raise WireError(ErrorCode.FRAME_SIZE_ERROR, GrpcClose.FRAME_TOO_LARGE, text)
        return self.max_frame

    def hold(self, size: int) -> None:
        """Reserve memory for header blocks.

        :raises NoRoomError: if there is no room for them.
        """
        if not self.budget.take(size):
            raise NoRoomError
        self._held_frames += size

    def withhold(self, start: int, stop: int) -> None:
        """Cut a header block out of what was read, and reserve memory for it.

        :raises NoRoomError: if there is no room for it; it is cut in any case.
        """
        self.cut(start, stop)
        self.hold(stop - start)

    def hold_besides(self, size: int) -> None:
        """Count memory that withheld bytes take besides."""
        self.budget.charge(size)
        self._held_frames += size

    def let_go(self, size: int) -> None:
        """Release memory that is held, or held besides."""
        self.budget.give(size)
        self._held_frames -= size

    def drop(self) -> None:
        """Discard everything that is buffered."""
        self._rest.drop()
        self.let_go(self._held_frames)
        for outlet in tuple(self.flow.outlets.values()):
            self.flow.close(outlet)
        self._grants.clear()
        self._edits.clear()

    def block_begins(self, start: int, stop: int, stream: int) -> None:
        """A header block is incomplete: only CONTINUATION of its stream may follow.

        :raises NoRoomError: if there is no room for it.
        """
        self.withhold(start, stop)
        self._continued = stream

    def block_ends(self, size: int) -> None:
        """It is complete; its frames, which were withheld, take no memory any more."""
        self._continued = 0
        self.let_go(size)

    def settings_apply(self, stop: int, initial_window: int | None, max_frame: int) -> None:
        """The receiver's settings apply from an offset on; None or 0 for those that do not change."""
        self.at = stop
        if initial_window is not None:
            self.flow.initial_changed(initial_window)
        self.max_frame = max(self.max_frame, max_frame)

    # -- edits ---------------------------------------------------------------------------------------

    def cut(self, start: int, stop: int) -> None:
        """Cut bytes out of what was read."""
        self._edits.append((start, stop, b""))

    def replace(self, start: int, stop: int, frame: bytes) -> None:
        """Replace a frame."""
        self._edits.append((start, stop, frame))

    def insert(self, frame: bytes) -> None:
        """Insert a frame before the current one."""
        self._edits.append((self.at, self.at, frame))

    def insert_at(self, at: int, frame: bytes) -> None:
        """Insert a frame at an offset of what was read; several at one offset keep the order of the calls."""
        self._edits.append((at, at, frame))

    def waits(self, data: bytes, at: int, stop: int, flags: int, stream: int) -> None:
        """A DATA frame that waits for a window or behind others, of a stream without a handler."""
        flow, size = self.flow, stop - at - HEAD
        outlet = flow.outlets.get(stream) or flow.open_late(stream)
        if flow.fits(outlet, size):
            flow.passed(outlet, size)
            flow.close(outlet)
            self.watched.discard(stream)
            return
        begin, end = unpadded(data, at, stop, flags)
        self.cut(at, stop)
        self.watched.add(stream)
        self.refund(stream, size - (end - begin))
        flow.send(outlet, flow.wait(data[begin:end]))
        if flags & END_STREAM:
            self.ends(outlet, frame(DATA, END_STREAM, stream))

    def through(self, data: bytes, at: int, stop: int, flags: int, stream: int) -> tuple[int, int]:
        """Let a watched DATA frame pass, once its windows allow; returns where its content is."""
        size = stop - at - HEAD
        if stream not in self.flow.outlets and size <= self.flow.window:
            self.flow.window -= size
        else:
            self.waits(data, at, stop, flags, stream)
            self.watched.add(stream)
        return unpadded(data, at, stop, flags)

    def ends(self, outlet: Outlet, last: bytes) -> None:
        """A stream ends with this frame, after its waiting bytes."""
        self.watched.discard(outlet.stream)
        self.revoke(outlet.stream)
        outlet.ends = True
        self.flow.send(outlet, last)

    def is_behind(self, frames: bytes, stream: int, *, end: bool) -> bool:
        """Whether frames of a stream have to wait behind others; they are queued then."""
        outlet = self.flow.outlets.get(stream)
        if outlet is None or not outlet.items:
            return False
        if end:
            self.ends(outlet, frames)
        else:
            self.flow.send(outlet, frames)
        return True

    def over(self, stream: int) -> None:
        """A stream was reset: discard its waiting bytes."""
        self.watched.discard(stream)
        self.revoke(stream)
        outlet = self.flow.outlets.get(stream)
        if outlet is not None:
            self.flow.close(outlet)

    def grant(self, stream: int, amount: int) -> None:
        """Grant the sender credit, on a stream or (0) on the connection."""
        if amount:
            self._grants[stream] = self._grants.get(stream, 0) + amount

    def refund(self, stream: int, amount: int) -> None:
        """Grant the sender credit on a stream and on the connection."""
        self.grant(0, amount)
        self.grant(stream, amount)

    def settle(self) -> None:
        """Send the sender's new credit."""
        if self._grants:
            for stream, amount in self._grants.items():
                self.back.insert(window_update(stream, amount))
            self._grants.clear()

    def pending(self, stream: int) -> int:
        """The credit on a stream that its sender is about to get."""
        return self._grants.get(stream, 0)

    def revoke(self, stream: int) -> None:
        """A stream has ended: drop its pending credit."""
        self._grants.pop(stream, None)

    def is_untouched(self, data: bytes) -> bool:
        """Whether the bytes to forward are `data`, as passed to `walk`."""
        # <hot> Twice for every read.
        return not (self._edits or self._grants) and self.data is data and self._walked == len(data)

    def done(self) -> None:
        """The bytes read were forwarded unchanged."""
        self.data, self._walked, self.at = b"", 0, 0

    def take(self, data: bytes | None = None) -> list[Buffer] | None:
        """The bytes to forward.

        :param data: the bytes passed to `walk`, if any.
        :return: None if it is `data`, unchanged.
        """
        read, upto = self.data, self._walked
        if not self._edits and read is data and upto == len(read):
            self.done()
            return None
        parts: list[Buffer] = []
        view = memoryview(read)
        at = 0
        for start, stop, put in sorted(self._edits, key=_start):
            if start > at:
                parts.append(view[at:start])
            if put:
                parts.append(put)
            at = max(at, stop)
        if upto > at:
            parts.append(view[at:upto])
        self._edits.clear()
        self.done()
        if len(parts) > 1 and sum(map(len, parts)) <= _JOINED_BYTES:
            return [b"".join(parts)]
        return parts


def _start(edit: tuple[int, int, bytes]) -> int:
    return edit[0]
