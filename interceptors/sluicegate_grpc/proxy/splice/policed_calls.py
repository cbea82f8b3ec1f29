"""Which requests are read, and the headers that wait for the decision on their first message.

A refused request is not forwarded to the broker. Stream ids must ascend (RFC 9113 section 5.1.1): undecided
headers are forwarded before those of a later stream.
"""

from bisect import bisect_left, bisect_right, insort
from collections import deque
from dataclasses import dataclass, field
from enum import Enum, auto
from typing import TypeAlias

from sluicegate.model import Decision
from sluicegate.sessions.pieces import NoRoomError
from sluicegate.sessions.work import Running
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.ended_calls import Refusals
from sluicegate_grpc.proxy.splice.flow import Chunk, Credit, Outlet, joined
from sluicegate_grpc.proxy.splice.frames import (
    DATA,
    END_STREAM,
    HEAD,
    MAX_WINDOW,
    PADDED,
    ErrorCode,
    frame,
    unpadded,
    window_amount,
    window_update,
)
from sluicegate_grpc.proxy.splice.requests import Request
from sluicegate_grpc.proxy.splice.responses import Responses
from sluicegate_grpc.semantics.calls import Caller
from sluicegate_grpc.semantics.fields import Tail

Mark: TypeAlias = tuple[int, int, Request]
_SMALL = 1_024


class Step(Enum):
    """The progress of a call."""

    READING = auto()
    """A message is incomplete."""
    WAITING = auto()
    """A message waits for its decision."""
    PASSING = auto()
    """The rest of an admitted message passes."""
    FREE = auto()
    """Later bytes are not looked at."""


@dataclass(slots=True, eq=False)
class Body:
    """The withheld bytes of a request, and what is still to come of an admitted message."""

    next_step: Step
    """What follows an admitted message: `READING` if each one is decided, else `FREE`."""
    step: Step = Step.READING
    chunks: deque[Chunk] = field(default_factory=deque)
    """Undecided bytes."""
    size: int = 0
    """Their number."""
    received: int = 0
    """Bytes received while the call is read."""
    worth_reading: int = 0
    """How many bytes of a message have to be there before it is read once more."""
    left: int = 0
    """Bytes still to come of an admitted message."""
    tail: Tail | None = None
    """Checks them."""

    @property
    def owed(self) -> int | None:
        """Bytes whose credit on the stream the sender has not regained; None once any were forwarded."""
        if self.received != self.size:
            return None
        return sum(len(chunk.payload) for chunk in self.chunks if chunk.credit is not Credit.STREAM)

    def announce(self, size: int, tail: Tail | None = None) -> None:
        """The message at hand: its bytes, and what checks those that have not come."""
        self.left, self.tail = size, tail

    def passed(self, size: int) -> None:
        """Count bytes that were forwarded."""
        if self.step is Step.PASSING:
            self.left -= size
            if not self.left:
                self.tail = None
                self.worth_reading = 0
                self.step = self.next_step

    def add(self, chunk: Chunk) -> None:
        """Withhold more bytes."""
        if not chunk.payload:
            return
        self.size += len(chunk.payload)
        last = self.chunks[-1] if self.chunks else None
        if last is not None and len(last.payload) < _SMALL and last.credit is chunk.credit:
            last.payload += chunk.payload  # a chunk takes 100 bytes besides
        else:
            self.chunks.append(chunk)

    def release(self) -> list[Chunk] | None:
        """Take the bytes that may be forwarded; None if they contradict what was decided."""
        size = min(self.left, self.size) if self.step is Step.PASSING else self.size
        taken = self.take(size)
        if self.tail is not None and not all(self.tail.agrees(chunk.payload) for chunk in taken):
            self.put_back(taken)
            return None
        self.passed(size)
        return taken

    def put_back(self, chunks: list[Chunk]) -> None:
        """Withhold again what was taken."""
        self.chunks.extendleft(reversed(chunks))
        self.size += sum(len(chunk.payload) for chunk in chunks)

    def read(self, there: int) -> bytes:
        """The undecided bytes, to be read so far; it is worthwhile again once twice as many are there."""
        self.worth_reading = 2 * there
        return joined(self.chunks)

    def take(self, size: int) -> list[Chunk]:
        """Take bytes that are now decided."""
        taken: list[Chunk] = []
        self.size -= size
        while size:
            chunk = self.chunks.popleft()
            if len(chunk.payload) > size:
                self.chunks.appendleft(chunk.split(size))
            size -= len(chunk.payload)
            taken.append(chunk)
        return taken


@dataclass(slots=True, eq=False)
class Head:
    """A request's headers on their way to the broker; `PolicedCalls` writes it."""

    at: int
    """Their offset in the bytes being read."""
    is_up: bool = False
    """True once the broker knows of the request."""
    frames: bytes = b""
    """The header block, until it goes to the broker."""
    credit: int = 0
    """The window that the client has opened for the response until then."""


@dataclass(slots=True, eq=False)
class Call:
    """One policed HTTP/2 stream. What happens to it is decided by the session that owns it."""

    stream: int
    request: Request
    caller: Caller
    outlet: Outlet
    """To the broker."""
    head: Head
    body: Body
    has_response: bool = False
    """True once the client got response headers."""
    has_ended: bool = False
    """True once the client has ended the request."""
    end: bytes = b""
    """The frame that ended it, if that was not DATA."""
    _waiting: Running[Decision | None] | None = None
    """The work on the message at hand, if its decision has to wait."""

    def admit(self) -> None:
        """The message at hand may be forwarded."""
        self._waiting = None
        self.body.step = Step.PASSING

    def wait_for(self, work: Running[Decision | None]) -> None:
        """The decision of the message at hand has to wait."""
        self._waiting = work
        self.body.step = Step.WAITING

    def close(self, now_ns: int) -> None:
        """It ends: what the work on it has taken is given back."""
        if self._waiting is not None:
            self._waiting.close(now_ns)


class PolicedCalls:
    """The requests of one connection that policies apply to.

    :param connection: the client's.
    :param responses: the responses that have to be read.
    :param refusals: ends calls.
    """

    def __init__(self, connection: Connection, responses: Responses, refusals: Refusals) -> None:
        self._connection = connection
        self._responses = responses
        self._refusals = refusals
        self._up = connection.up
        self._open = connection.streams.ids
        self.calls: dict[int, Call] = {}
        """Requests that are read, by stream."""
        self.marks: dict[int, Mark] = {}
        """Requests whose first message is yet to come: where their headers are in the bytes being read."""
        self._extras: dict[int, list[tuple[int, int]]] = {}
        """By stream: offsets of window updates behind those headers."""
        self._unsent: list[int] = []
        """Streams whose headers wait, in their order."""
        self._fresh: list[Call] = []
        """Calls whose headers are in the bytes read now."""
        self.highest = 0
        """The last stream that the broker knows of, or will once this read is forwarded."""
        self.last = 0
        """The last stream that the client has opened."""

    def skip(self, stream: int) -> None:
        """The client has opened a stream that no broker hears of."""
        self.last = stream

    def passes(self, stream: int) -> None:
        """The first message of a request passes, as do its headers, which directly precede it."""
        del self.marks[stream]
        self._up.watched.discard(stream)
        if stream > self.highest:
            self.highest = stream

    def opened(self, stream: int, request: Request, at: int, stop: int, flags: int) -> None:
        """Handle a request whose headers are one frame of the bytes read now."""
        # <hot> Runs for every request.
        self.last = stream
        self._open.add(stream)
        if request.method is None or flags & END_STREAM:
            self._passes(stream, request)
        else:
            self.marks[stream] = (at, stop, request)
            self._up.watched.add(stream)

    def opened_apart(self, stream: int, request: Request, frames: bytes, flags: int) -> None:
        """Handle a request whose headers are not forwarded as they stand in the bytes read now."""
        self.last = stream
        self._open.add(stream)
        if request.method is None or flags & END_STREAM:
            # Now, not when the read is settled: insertions at one offset keep the order of the calls.
            self.flush(stream)
            self._passes(stream, request)
            self._up.insert(frames)
        else:
            try:
                self._up.reserved.take(len(frames))
            except NoRoomError:
                self._no_room(stream)
            else:
                self._new(stream, request, Head(self._up.read.at, frames=frames))

    def _passes(self, stream: int, request: Request) -> None:
        """Forward a request whose messages are not read."""
        self.highest = stream
        if request.method is None:
            self._connection.shared.unknown(request.path)
        self._watch_response(stream, request)

    def _watch_response(self, stream: int, request: Request) -> None:
        """Watch a response that may have to be rewritten."""
        rewrite = self._connection.shared.rules.rewrites.get(request.path)
        if rewrite is not None:
            self._responses.rewrite(stream, request, rewrite)

    def _new(self, stream: int, request: Request, head: Head) -> Call:
        self._watch_response(stream, request)
        callers = self._connection.callers
        caller = callers.of(request.claim) if request.claim else callers.anonymous
        body = Body(Step.READING if request.is_publish else Step.FREE)
        call = Call(stream, request, caller, self._up.flow.open(stream), head, body)
        if not head.is_up:
            insort(self._unsent, stream)
        self.calls[stream] = call
        self._up.watched.add(stream)
        self._fresh.append(call)
        return call

    def _no_room(self, stream: int) -> None:
        """Refuse a request for whose headers there is no memory."""
        self._connection.shared.count(GrpcEvent.STREAM_REFUSED)
        self._up.over(stream)
        self._refusals.reset(stream, ErrorCode.REFUSED_STREAM)

    def call(self, stream: int, data: bytes, now_ns: int) -> Call | None:
        """The call of a stream; one whose headers are in the bytes read now is taken out of them.

        :return: None if it is not read, or if it was refused for lack of memory.
        """
        mark = self.marks.pop(stream, None)
        if mark is None:
            return self.calls.get(stream)
        at, stop, request = mark
        try:
            self._up.withhold(at, stop)
        except NoRoomError:
            self._no_room(stream)
            call = None
        else:
            call = self._new(stream, request, Head(at, frames=data[at:stop]))
        for begin, end in self._extras.pop(stream, ()):
            self._opens(call, data, begin, end, now_ns)
        return self.calls.get(stream)

    def keep(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> Call | None:
        """Buffer a frame of a call; None if the call ends: no room for it, or not the size it announced."""
        begin, end = unpadded(data, at, stop, flags) if flags & PADDED else (at + HEAD, stop)
        call = self.call(stream, data, now_ns)
        size = stop - at - HEAD
        if call is not None:
            call.has_ended = bool(flags & END_STREAM)
            call.body.received += end - begin
            length, received = call.request.length, call.body.received
            is_wrong = length is not None and (received > length or (call.has_ended and received < length))
            if is_wrong and not call.head.is_up:  # RFC 9113 section 8.1.1; a broker that knows it judges it
                self.broken(call, ErrorCode.PROTOCOL_ERROR, now_ns)
                call = None
        if call is None:
            self._up.cut(at, stop)
            self._up.grant(0, size)
            return None
        is_read = call.body.step is Step.READING and not call.has_ended
        ahead = self._connection.shared.limits.message_bytes if is_read else 0
        chunk = self._up.flow.keep(call.outlet, data[begin:end], size - (end - begin), ahead)
        self._up.cut(at, stop)
        call.body.add(chunk)
        return call

    def belongs(self, data: bytes, at: int, stop: int, stream: int, now_ns: int) -> bool:
        """Whether a window update of a stream has to wait with the headers of its call."""
        if stream in self.marks:
            self._extras.setdefault(stream, []).append((at, stop))
            return True
        call = self.calls.get(stream)
        if call is None or call.head.is_up:
            return False
        self._opens(call, data, at, stop, now_ns)
        return True

    def _opens(self, call: Call | None, data: bytes, at: int, stop: int, now_ns: int) -> None:
        """Add up the window updates of a call whose headers wait, which are forwarded as one."""
        self._up.cut(at, stop)
        if call is None or self.calls.get(call.stream) is not call:
            return  # an earlier frame has ended it
        amount = window_amount(data, at, stop)
        call.head.credit += amount
        # Its receiver would see one update of the sum, so what it would find in each is checked here.
        if not amount:
            self.broken(call, ErrorCode.PROTOCOL_ERROR, now_ns)
        elif call.head.credit + self._connection.down.flow.initial > MAX_WINDOW:
            self.broken(call, ErrorCode.FLOW_CONTROL_ERROR, now_ns)
        else:
            self._connection.down.flow.updated(call.stream, amount)  # for a response that is rewritten

    def settle(self, data: bytes, now_ns: int) -> None:
        """Finish a read: withhold the undecided calls, and forward the headers that must not be overtaken.

        :param data: the bytes read.
        """
        if self.marks:
            for stream in tuple(self.marks):
                if stream > self.highest:
                    self.call(stream, data, now_ns)
                else:  # a later stream passes, so these headers have to pass where they stand
                    at, _, request = self.marks[stream]
                    self._new(stream, request, Head(at, is_up=True))
                    for begin, end in self._extras.get(stream, ()):
                        self._connection.down.flow.updated(stream, window_amount(data, begin, end))
            self.marks.clear()
        self._extras.clear()
        if self.calls:
            self.flush(self.highest)
            for call in self._fresh:  # the offset was one of bytes that are gone
                call.head.at = 0
        self._fresh.clear()

    def flush(self, upto: int) -> None:
        """Send the headers of all streams up to one, in their order, each where it stood."""
        self.highest = max(self.highest, upto)
        count = bisect_right(self._unsent, upto)
        for stream in self._unsent[:count]:
            head = self.calls[stream].head
            head.is_up = True
            # Behind the headers: a receiver takes an update of a stream that it does not know for an error.
            update = window_update(stream, head.credit) if head.credit else b""
            self._up.insert_at(head.at, head.frames + update)
            self._up.reserved.give(len(head.frames))
            head.frames = b""
        del self._unsent[:count]

    def finish(self, call: Call, now_ns: int) -> bool:
        """Forget a call that is completely forwarded, or needs no more handling.

        :return: False if its client has ended it within a message.
        """
        if call.body.step is Step.WAITING:
            return True
        if not call.has_ended:
            if call.body.step is Step.FREE and not call.outlet.items and not call.outlet.debt:
                self.forget(call, now_ns)
            return True
        if call.body.chunks:
            return False
        self.flush(call.stream)
        self.leave(call, now_ns)
        self._up.ends(call.outlet, call.end or frame(DATA, END_STREAM, call.stream))
        return True

    def leave(self, call: Call, now_ns: int) -> None:
        """Stop reading a call; bytes already released may still wait for a window."""
        if self.calls.pop(call.stream, None) is None:
            return
        if not call.head.is_up:
            del self._unsent[bisect_left(self._unsent, call.stream)]
        call.close(now_ns)
        if call.head.frames:
            self._up.reserved.give(len(call.head.frames))
            call.head.frames = b""
        if call.body.chunks:
            self._up.flow.discard(call.outlet, call.body.chunks)
            call.body.chunks.clear()

    def forget(self, call: Call, now_ns: int) -> None:
        """Stop reading a call, and discard its waiting bytes."""
        self.leave(call, now_ns)
        self._up.over(call.stream)

    def end(self, call: Call, now_ns: int) -> None:
        """Stop reading a call that the gateway ends, and watching its response."""
        self.forget(call, now_ns)
        self._responses.reset(call.stream, now_ns, by_client=True)

    def broken(self, call: Call, code: ErrorCode, now_ns: int) -> None:
        """Reset a call whose client breaks the protocol (RFC 9113 section 5.4.2)."""
        self._refusals.resets.count(now_ns)
        self._connection.shared.count(GrpcEvent.MALFORMED_CALL)
        self.end(call, now_ns)
        self._refusals.broken(call.stream, code, has_ended=call.has_ended, is_up=call.head.is_up)

    def closed(self, now_ns: int) -> None:
        """The connection is closed."""
        for call in tuple(self.calls.values()):
            self.forget(call, now_ns)
        self.marks.clear()
