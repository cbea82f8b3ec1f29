"""One direction of a connection: splits its bytes into frames, and forwards them.

Frames pass unchanged unless a handler changes them. Handlers cut, replace and insert frames by
edits of the bytes read, so a read without edits is forwarded as one buffer.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from operator import itemgetter
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
class Reserved:
    """Memory that header blocks and other withheld frames take."""

    _budget: Budget
    """Bytes that all sessions may keep together."""
    size: int = 0

    def take(self, size: int) -> None:
        """Reserve memory for header blocks.

        :raises NoRoomError: if there is no room for them.
        """
        if not self._budget.take(size):
            raise NoRoomError
        self.size += size

    def charge(self, size: int) -> None:
        """Count memory that withheld bytes take besides."""
        self._budget.charge(size)
        self.size += size

    def give(self, size: int) -> None:
        """Release memory that was taken or charged."""
        self._budget.give(size)
        self.size -= size


@dataclass(slots=True, eq=False)
class _Partial:
    """What is not complete: a frame, or a header block."""

    rest: Pieces
    """Of a frame, or frames that wait for their turn."""
    stream: int = _NOTHING_YET
    """The stream whose header block is not complete, which only CONTINUATION may follow; 0 for none."""
    began_ns: int = 0
    waits_for_turn: bool = False
    """True while frames that have come are not looked at until their turn comes."""


@dataclass(slots=True, eq=False)
class Read:
    """The bytes that are looked at now, and what is sent besides or instead."""

    data: bytes = b""
    at: int = 0
    """Offset of the current frame."""
    walked: int = 0
    """How many of them were looked at."""
    edits: list[tuple[int, int, bytes]] = field(default_factory=list)
    """What is forwarded instead of some of them: start, stop, and bytes."""
    credit: dict[int, int] = field(default_factory=dict)
    """What the sender is granted, in bytes by stream; 0 for the connection.

    Kept as sums, not as edits: WINDOW_UPDATE for each frame of a read would cost its sender as much as the
    frames, and a stream that ends before the read does takes its sum with it.
    """
    charged: int = 0
    """Work that a handler asked to count beside its frame."""


class FrameStream:
    """The frames of one direction.

    :param budget: bytes that all sessions may keep together.
    """

    __slots__ = (
        "_handlers",
        "_marked",
        "_partial",
        "back",
        "flow",
        "max_frame",
        "read",
        "reads",
        "reserved",
        "watched",
    )

    def __init__(self, budget: Budget) -> None:
        self.read = Read()
        self.flow = Flow(budget, self.insert, self.grant)
        self.back: FrameStream
        """The other direction: what its sender is told goes there."""
        self.watched: set[int] = set()
        """Streams whose DATA frames are looked at."""
        self.max_frame = LEAST_MAX_FRAME
        """Payload of a frame that the receiver takes."""
        self.reads = 0
        """How often bytes have come."""
        self.reserved = Reserved(budget)
        self._partial = _Partial(Pieces(budget))
        self._handlers: tuple[Handler, ...] = ()
        self._marked = 0
        """Flags by which DATA of any stream is looked at."""

    def join(self, back: "FrameStream") -> None:
        """Make two directions those of one connection."""
        self.back, back.back = back, self

    @property
    def buffered_bytes(self) -> int:
        """Buffered bytes: of an incomplete frame, and withheld ones."""
        return self._partial.rest.size + self.reserved.size + self.flow.buffered_bytes

    @property
    def frame_began_ns(self) -> int:
        """When the current partial frame or header block began; 0 if there is none."""
        partial = self._partial
        return partial.began_ns if partial.rest.size > 0 or partial.stream > 0 else 0

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

        :param data: none for the rest that has waited for another turn.
        :return: True if the rest has to wait for another turn.
        :raises WireError: if they break the protocol.
        :raises NoRoomError: if there is no room for the rest.
        """
        # <hot> Runs for every read.
        self.reads += 1
        partial, read = self._partial, self.read
        rest = partial.rest
        if rest.size:
            if partial.waits_for_turn and data:
                rest.keep(data)
                return False
            partial.waits_for_turn = False
            whole = rest.add(data)
            if whole is None:
                return False
            data = whole
        read.data = data
        read.at = 0
        was_open = partial.stream > 0
        try:
            read.at = self._frames(data, now_ns)
        finally:  # what passed before a malformed frame is already decided and counted
            read.walked = at = read.at
        if not was_open or partial.stream <= 0:
            partial.began_ns = now_ns
        if at < len(data):
            need = HEAD  # the pieces of a frame are joined once, when all of it is there
            if len(data) - at >= HEAD:
                high, low = read_head(data, at)[:2]
                need += high << 8 | low
            rest.begin(data[at:] if at else data, need)
        return partial.waits_for_turn

    def _frames(self, data: bytes, now_ns: int) -> int:  # noqa: C901 - one loop, and hot
        # <hot> One round for each frame.
        handlers, marked = self._handlers, self._marked
        watched, flow, max_frame = self.watched, self.flow, self.max_frame
        partial, read = self._partial, self.read
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
                if partial.stream and (kind != CONTINUATION or stream != partial.stream):
                    self._unexpected(kind)
                if kind | flags & marked == DATA and size and stream not in watched and size <= flow.window:
                    flow.window -= size
                else:
                    if kind <= HEADERS:
                        calls += 1
                    elif kind > _UNKNOWN:
                        kind = _UNKNOWN
                    read.at = at
                    handlers[kind](data, at, stop, flags, stream, now_ns)
                    if read.charged:
                        at = stop
                        break
                at = stop
            left -= BATCH + CALL_WORK * calls + (at - begin >> BYTES_SHIFT) + read.charged
            read.charged = 0
        partial.waits_for_turn = end - at >= HEAD
        return at

    def charge(self, work: int) -> None:
        """Charge extra work for the current frame.

        :param work: in the units of `WORK_PER_TURN`.
        """
        self.read.charged += work

    def _unexpected(self, kind: int) -> None:
        if self._partial.stream != _NOTHING_YET:
            raise malformed("a header block was left open")
        if kind != SETTINGS:  # RFC 9113 section 3.4
            raise malformed("the first frame is not SETTINGS")
        self._partial.stream = 0

    def _checked(self, size: int) -> int:
        if size > self.max_frame:
            text = f"a frame of {size} bytes, over the limit of {self.max_frame}"
            raise WireError(ErrorCode.FRAME_SIZE_ERROR, GrpcClose.FRAME_TOO_LARGE, text)
        return self.max_frame

    def withhold(self, start: int, stop: int) -> None:
        """Cut a header block out of what was read, and reserve memory for it.

        :raises NoRoomError: if there is no room for it; it is cut in any case.
        """
        self.cut(start, stop)
        self.reserved.take(stop - start)

    def drop(self) -> None:
        """Discard everything that is buffered."""
        self._partial.rest.drop()
        self.reserved.give(self.reserved.size)
        for outlet in tuple(self.flow.outlets.values()):
            self.flow.close(outlet)
        self.read.credit.clear()
        self.read.edits.clear()

    def block_begins(self, start: int, stop: int, stream: int) -> None:
        """A header block is incomplete: only CONTINUATION of its stream may follow.

        :raises NoRoomError: if there is no room for it.
        """
        self.withhold(start, stop)
        self._partial.stream = stream

    def block_ends(self, size: int) -> None:
        """It is complete; its frames, which were withheld, take no memory any more."""
        self._partial.stream = 0
        self.reserved.give(size)

    def settings_apply(self, stop: int, initial_window: int | None, max_frame: int) -> None:
        """The receiver's settings apply from an offset on; None or 0 for those that do not change."""
        self.read.at = stop
        if initial_window is not None:
            self.flow.initial_changed(initial_window)
        self.max_frame = max(self.max_frame, max_frame)

    # -- edits ---------------------------------------------------------------------------------------

    def cut(self, start: int, stop: int) -> None:
        """Cut bytes out of what was read."""
        self.read.edits.append((start, stop, b""))

    def replace(self, start: int, stop: int, frame: bytes) -> None:
        """Replace a frame."""
        self.read.edits.append((start, stop, frame))

    def insert(self, frame: bytes) -> None:
        """Insert a frame before the current one."""
        self.read.edits.append((self.read.at, self.read.at, frame))

    def insert_at(self, at: int, frame: bytes) -> None:
        """Insert a frame at an offset of what was read; several at one offset keep the order of the calls."""
        self.read.edits.append((at, at, frame))

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
        self.flow.end(outlet, last)

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
        if (outlet := self.flow.outlets.get(stream)) is not None:
            self.flow.close(outlet)

    def grant(self, stream: int, amount: int) -> None:
        """Grant the sender credit, on a stream or (0) on the connection."""
        if amount:
            self.read.credit[stream] = self.read.credit.get(stream, 0) + amount

    def refund(self, stream: int, amount: int) -> None:
        """Grant the sender credit on a stream and on the connection."""
        self.grant(0, amount)
        self.grant(stream, amount)

    def pending(self, stream: int) -> int:
        """The credit on a stream that its sender is about to get."""
        return self.read.credit.get(stream, 0)

    def revoke(self, stream: int) -> None:
        """A stream has ended: drop its pending credit."""
        self.read.credit.pop(stream, None)

    def is_untouched(self, data: bytes) -> bool:
        """Whether the bytes to forward are `data`, as passed to `walk`."""
        # <hot> Twice for every read.
        read = self.read
        return not (read.edits or read.credit) and read.data is data and read.walked == len(data)

    def done(self) -> None:
        """The bytes read were forwarded unchanged."""
        read = self.read
        read.data, read.walked, read.at = b"", 0, 0

    def take(self, data: bytes | None = None) -> list[Buffer] | None:
        """The bytes to forward, and the credit that is granted to the other direction's sender.

        :param data: the bytes passed to `walk`, if any.
        :return: None if it is `data`, unchanged.
        """
        read, upto, edits = self.read.data, self.read.walked, self.read.edits
        credit, at = self.back.read.credit, self.read.at
        edits.extend((at, at, window_update(stream, amount)) for stream, amount in credit.items())
        credit.clear()
        if not edits and read is data and upto == len(read):
            self.done()
            return None
        parts: list[Buffer] = []
        view = memoryview(read)
        at = 0
        for start, stop, put in sorted(edits, key=itemgetter(0)):
            if start > at:
                parts.append(view[at:start])
            if put:
                parts.append(put)
            at = max(at, stop)
        if upto > at:
            parts.append(view[at:upto])
        edits.clear()
        self.done()
        if len(parts) > 1 and sum(map(len, parts)) <= _JOINED_BYTES:
            return [b"".join(parts)]
        return parts
