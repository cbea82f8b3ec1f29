"""The client's DATA frames, and the ends of its calls: what passes at once, and what is kept to be read."""

from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.deciding import Deciding
from sluicegate_grpc.proxy.splice.ended_calls import Refusals
from sluicegate_grpc.proxy.splice.floods import Flood
from sluicegate_grpc.proxy.splice.frames import (
    END_STREAM,
    HEAD,
    PADDED,
    ErrorCode,
    idle,
    rst_stream,
    unpadded,
)
from sluicegate_grpc.proxy.splice.messages import PREFIX, read_prefix
from sluicegate_grpc.proxy.splice.policed_calls import PolicedCalls, Step
from sluicegate_grpc.proxy.splice.requests import Request
from sluicegate_grpc.proxy.splice.responses import Responses
from sluicegate_grpc.semantics import status
from sluicegate_grpc.semantics.calls import UNNAMED, UNREAD
from sluicegate_grpc.semantics.fields import Values

_WHOLE = END_STREAM | PADDED


class Calling:
    """The client's DATA frames.

    :param connection: the client's.
    :param responses: the responses that have to be read.
    :param refusals: ends calls.
    :param empty: counts empty frames.
    """

    def __init__(
        self, connection: Connection, responses: Responses, refusals: Refusals, empty: Flood
    ) -> None:
        self._connection = connection
        self._callers = connection.callers
        self._aliases = connection.shared.aliases
        self._calls = connection.shared.calls
        self._responses = responses
        self._refusals = refusals
        self._empty = empty
        self._up = connection.up
        self._flow = connection.up.flow
        self.policed = PolicedCalls(connection, responses, refusals)
        self._deciding = Deciding(connection, responses, refusals, self.policed)
        self._marks = self.policed.marks

    # -- frames ---------------------------------------------------------------------------------------

    def data(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """A DATA frame of a stream that is read, or that has no window."""
        # <hot> Runs for every publish: nearly all are one frame, which holds the message and the end.
        mark = self._marks.get(stream)
        if mark is not None and mark[2].is_publish and flags & _WHOLE == END_STREAM:
            begin = at + HEAD + PREFIX
            # What the broker's window does not take has to wait, so it is not passed from here.
            has_room = begin <= stop <= at + HEAD + self._flow.window
            if (
                has_room
                and read_prefix(data, at + HEAD) == (0, stop - begin)
                and self._publish(data, at, stop, stream, mark[2], now_ns)
            ):
                return
        self._piece(data, at, stop, flags, stream, now_ns)

    def _publish(self, data: bytes, at: int, stop: int, stream: int, request: Request, now_ns: int) -> bool:
        """Decide a complete call whose unchanged headers directly precede it; False if it needs more work."""
        values = request.plans.request.read(data, at + HEAD + PREFIX, stop)
        if not isinstance(values, Values) or (self._aliases and values.producer in self._aliases):
            return False
        policed, calls = self.policed, self._calls
        method = request.method or request.known_method  # the property would cost a call
        callers = self._callers
        caller = callers.of(request.claim) if request.claim else callers.anonymous
        op, decision = calls.publish(method, values, caller, now_ns)
        if decision is UNNAMED:
            self._deciding.name(request, values, data[at + HEAD + PREFIX : stop])
            op, decision = calls.publish(method, values, caller, now_ns)
        if decision is None:
            policed.passes(stream)
            self._flow.window -= stop - at - HEAD
            watches = calls.attachments.unconfirmed or self._aliases is not None
            if watches and (producer := self._deciding.to_prove(method, values, caller)):
                self._responses.prove(stream, request, producer)
            elif request.claim and caller.principal != request.claim.principal:
                self._responses.accept(stream, request)
            return True
        if decision is UNREAD:
            return False
        call = None
        try:
            call = policed.keep(data, at, stop, END_STREAM, stream, now_ns)
        finally:
            if call is None:  # refused for memory or size: its position in the queue must not stay taken
                calls.abandon(op, caller, now_ns)
        if call is not None:
            call.body.announce(call.body.size)
            self._deciding.follow(
                call, self._deciding.published(call, method, values, op, decision, now_ns), now_ns
            )
        return True

    def _piece(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """A DATA frame that does not simply pass."""
        if stop - at == HEAD and not flags & END_STREAM:
            self._empty.count(now_ns)
        policed = self.policed
        if stream not in policed.marks and stream not in policed.calls:
            if stream > policed.last:
                raise idle(stream)
            if stream > policed.highest or stream in self._refusals.discarded:
                self._refusals.discard_data(at, stop, flags, stream, now_ns)
            elif stop - at > HEAD or stream in self._up.watched:
                self._up.waits(data, at, stop, flags, stream)
            return
        if self._simply_passes(data, at, stop, flags, stream, now_ns):
            return
        call = self.policed.keep(data, at, stop, flags, stream, now_ns)
        if call is not None:
            self._deciding.advance(call, now_ns)

    def _simply_passes(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> bool:
        """Whether a frame belongs to an admitted message and passes unchanged."""
        call = self.policed.calls.get(stream)
        if call is None or call.body.chunks or not call.head.is_up:
            return False
        begin, end = unpadded(data, at, stop, flags)
        most = {Step.PASSING: call.body.left, Step.FREE: end - begin}.get(call.body.step, 0)
        if end - begin > most or not self._flow.fits(call.outlet, stop - at - HEAD):
            return False
        if call.body.tail is not None and not call.body.tail.agrees(data[begin:end]):
            self._up.cut(at, stop)
            self._up.grant(0, stop - at - HEAD)
            call.has_ended = bool(flags & END_STREAM)
            self._deciding.refuse(call, status.malformed(call.request.path), now_ns)
            return True
        self._flow.passed(call.outlet, stop - at - HEAD)
        call.body.passed(end - begin)
        if flags & END_STREAM:
            self.policed.forget(call, now_ns)
        return True

    def trailers(self, data: bytes, frames: bytes, stream: int, now_ns: int, *, are_wellformed: bool) -> bool:
        """A header block that ends a client's call; True if it passes at once."""
        call = self.policed.call(stream, data, now_ns)
        if call is None:
            return False
        if not are_wellformed:
            self.policed.broken(call, ErrorCode.PROTOCOL_ERROR, now_ns)
            return False
        if call.head.is_up and not call.body.chunks and not call.outlet.items:
            self.policed.forget(call, now_ns)
            return True
        call.has_ended, call.end = True, frames
        self._deciding.advance(call, now_ns)
        return False

    def over(self, stream: int, now_ns: int, *, reset: bool) -> None:
        """The broker has ended a stream: later frames of the client have no effect.

        :param reset: False if it has only ended its own side, so that it waits for the client's end.
        """
        self._connection.streams.ended(stream)
        call = self.policed.calls.get(stream)
        if call is None:
            if reset:
                self._up.over(stream)
            return
        self.policed.forget(call, now_ns)
        if not reset:  # it would wait for the rest of the request, of which bytes were discarded here
            self._up.insert(rst_stream(stream, ErrorCode.CANCEL))
        if not call.has_ended:
            self._refusals.discard_rest(stream, is_open=not reset)

    def break_off(
        self, stream: int, refusal: status.Refusal, now_ns: int, *, alone: bool, is_over: bool
    ) -> None:
        """End a call whose response is under way. Parameters as for `Refusals.break_off`."""
        self._connection.shared.count(GrpcEvent.CALL_REFUSED)
        self.over(stream, now_ns, reset=True)
        self._refusals.break_off(stream, refusal, alone=alone, is_over=is_over)

    def reset(self, data: bytes, at: int, stop: int, stream: int, now_ns: int) -> None:
        """The client has reset a stream; the reset is forwarded if the stream was."""
        self._connection.streams.ended(stream)
        policed = self.policed
        # This takes headers out that were read just now: no broker hears of a stream that is reset at once.
        call = policed.call(stream, data, now_ns)
        if call is not None:
            policed.forget(call, now_ns)
        unknown = (call is not None and not call.head.is_up) or (call is None and stream > policed.highest)
        if self._refusals.forget(stream) or unknown:
            self._up.cut(at, stop)
        self._up.over(stream)
        self._responses.reset(stream, now_ns, by_client=True)
