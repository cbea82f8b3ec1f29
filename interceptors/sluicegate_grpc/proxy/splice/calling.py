"""Decides the client's messages: when each is forwarded, and which calls are refused."""

from collections.abc import Callable
from functools import partial

from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Decision
from sluicegate.model.methods import Path
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.splice.answers import Answers
from sluicegate_grpc.proxy.splice.body import Step
from sluicegate_grpc.proxy.splice.call import Call, Pending
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.deciding import LISTS_FIRST, Deciding
from sluicegate_grpc.proxy.splice.ended_calls import Refusals
from sluicegate_grpc.proxy.splice.floods import Flood
from sluicegate_grpc.proxy.splice.flow import append, joined
from sluicegate_grpc.proxy.splice.frame_stream import BYTES_SHIFT
from sluicegate_grpc.proxy.splice.frames import (
    DATA,
    END_STREAM,
    HEAD,
    PADDED,
    ErrorCode,
    frame,
    idle,
    rst_stream,
    unpadded,
)
from sluicegate_grpc.proxy.splice.holding import Holding
from sluicegate_grpc.proxy.splice.messages import (
    PREFIX,
    UnknownEncodingError,
    UnreadableError,
    inflated,
    read_prefix,
    with_prefix,
)
from sluicegate_grpc.proxy.splice.request import Request
from sluicegate_grpc.semantics import status
from sluicegate_grpc.semantics.calls import UNNAMED
from sluicegate_grpc.semantics.fields import MAX_FIELDS, Missing, Values

_WHOLE = END_STREAM | PADDED
_FIELDS_SHIFT = 2
"""Each 4 fields (2**2) that are read take one unit of `frame_stream.WORK_PER_TURN`."""


class Calling:
    """The client's messages.

    :param connection: the client's.
    :param answers: the responses that have to be read.
    :param refusals: ends calls.
    :param empty: counts empty frames.
    """

    __slots__ = (
        "_aliases",
        "_answers",
        "_calls",
        "_connection",
        "_deciding",
        "_empty",
        "_flow",
        "_marks",
        "_refusals",
        "_shared",
        "_up",
        "holding",
    )

    def __init__(self, connection: Connection, answers: Answers, refusals: Refusals, empty: Flood) -> None:
        self._connection = connection
        self._shared = connection.shared
        self._aliases = connection.shared.aliases
        self._calls = connection.shared.calls
        self._answers = answers
        self._refusals = refusals
        self._empty = empty
        self._up = connection.up
        self._flow = connection.up.flow
        self._deciding = Deciding(connection, answers, self._again)
        self.holding = Holding(connection, answers, refusals, self._deciding)
        self._marks = self.holding.marks

    # -- frames ---------------------------------------------------------------------------------------

    def data(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """A DATA frame of a stream that is read, or that has no window."""
        # <hot> Runs for every publish: nearly all are one frame, which holds the message and the end.
        mark = self._marks.get(stream)
        if mark is not None and mark[2].is_publish and flags & _WHOLE == END_STREAM:
            begin = at + HEAD + PREFIX
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
        holding, calls = self.holding, self._calls
        method = request.method or request.known_method  # the property would cost a call
        connection = self._connection
        caller = connection.caller(request) if request.credentials else connection.anonymous
        op, decision = calls.publish(method, values, caller, now_ns)
        if decision is UNNAMED:
            self._name(request, values, data[at + HEAD + PREFIX : stop])
            op, decision = calls.publish(method, values, caller, now_ns)
        watches = calls.attachments.unconfirmed or self._aliases is not None
        if decision is None:
            del self._marks[stream]
            self._up.watched.discard(stream)
            self._flow.window -= stop - at - HEAD
            if stream > holding.highest:
                holding.highest = stream
            if watches and (producer := self._deciding.to_prove(method, values, caller)):
                self._answers.prove(stream, request, producer)
            elif request.credentials and caller.principal != request.principal:
                self._answers.accept(stream, request)
            return True
        call = None
        try:
            call = self._keep(data, at, stop, END_STREAM, stream, now_ns)
        finally:
            if call is None:
                calls.abandon(op, caller, now_ns)
        if call is not None:
            call.body.left = call.body.size
            producer = self._deciding.to_prove(method, values, caller) if watches else None
            call.pending = Pending(op.topic, op if decision.action is Action.DELAY else None, producer)
            self._follow(call, decision, now_ns)
        return True

    def _piece(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> None:
        """A DATA frame that does not simply pass."""
        if stop - at == HEAD and not flags & END_STREAM:
            self._empty.count(now_ns)
        holding = self.holding
        if stream not in holding.marks and stream not in holding.calls:
            if stream > holding.last:
                raise idle(stream)
            if stream > holding.highest or stream in self._refusals.discarded:
                self._refusals.discard_data(at, stop, flags, stream, now_ns)
            elif stop - at > HEAD or stream in self._up.watched:
                self._up.waits(data, at, stop, flags, stream)
            return
        if self._simply_passes(data, at, stop, flags, stream, now_ns):
            return
        call = self._keep(data, at, stop, flags, stream, now_ns)
        if call is not None:
            self._advance(call, now_ns)

    def _simply_passes(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> bool:
        """Whether a frame belongs to an admitted message and passes unchanged."""
        call = self.holding.calls.get(stream)
        if call is None or call.body.chunks or not call.opening.is_up:
            return False
        begin, end = unpadded(data, at, stop, flags)
        most = {Step.PASSING: call.body.left, Step.FREE: end - begin}.get(call.body.step, 0)
        if end - begin > most or not self._flow.fits(call.outlet, stop - at - HEAD):
            return False
        if call.body.tail is not None and not call.body.tail.agrees(data[begin:end]):
            self._up.cut(at, stop)
            self._up.grant(0, stop - at - HEAD)
            call.has_ended = bool(flags & END_STREAM)
            self._refuse(call, status.malformed(call.request.path), now_ns)
            return True
        self._flow.passed(call.outlet, stop - at - HEAD)
        call.body.passed(end - begin)
        if flags & END_STREAM:
            self.holding.forget(call, now_ns)
        return True

    def _keep(self, data: bytes, at: int, stop: int, flags: int, stream: int, now_ns: int) -> Call | None:
        """Buffer a frame of a call; None if the call ends: no room for it, or not the size it announced."""
        begin, end = unpadded(data, at, stop, flags) if flags & PADDED else (at + HEAD, stop)
        call = self.holding.call(stream, data, now_ns)
        size = stop - at - HEAD
        if call is not None:
            call.has_ended = bool(flags & END_STREAM)
            call.body.received += end - begin
            length = call.request.length if not call.opening.is_up else None
            if length is not None and call.body.contradicts(length, has_ended=call.has_ended):
                self.holding.broken(call, ErrorCode.PROTOCOL_ERROR, now_ns)
                call = None
        if call is None:
            self._up.cut(at, stop)
            self._up.grant(0, size)
            return None
        ahead = self._most if call.body.step is Step.READING and not call.has_ended else 0
        chunk = self._flow.keep(call.outlet, data[begin:end], size - (end - begin), ahead)
        self._up.cut(at, stop)
        if end > begin:
            append(call.body.chunks, chunk)
            call.body.size += end - begin
        return call

    def trailers(self, data: bytes, frames: bytes, stream: int, now_ns: int, *, are_wellformed: bool) -> bool:
        """A header block that ends a client's call; True if it passes at once."""
        call = self.holding.call(stream, data, now_ns)
        if call is None:
            return False
        if not are_wellformed:
            self.holding.broken(call, ErrorCode.PROTOCOL_ERROR, now_ns)
            return False
        if call.opening.is_up and not call.body.chunks and not call.outlet.items:
            self.holding.forget(call, now_ns)
            return True
        call.has_ended, call.end = True, frames
        self._finish(call, now_ns)
        return False

    def over(self, stream: int, now_ns: int, *, reset: bool) -> None:
        """The broker has ended a stream: later frames of the client have no effect.

        :param reset: False if it has only ended its own side, so that it waits for the client's end.
        """
        self._connection.streams.ended(stream)
        call = self.holding.calls.get(stream)
        if call is None:
            if reset:
                self._up.over(stream)
            return
        self.holding.forget(call, now_ns)
        if not reset:
            self._up.insert(rst_stream(stream, ErrorCode.CANCEL))
        if not call.has_ended:
            self._refusals.discard_rest(stream, is_open=not reset)

    def break_off(
        self, stream: int, refusal: status.Refusal, now_ns: int, *, alone: bool, is_over: bool
    ) -> None:
        """End a call whose response is under way. Parameters as for `Refusals.break_off`."""
        self._shared.count(GrpcEvent.CALL_REFUSED)
        self.over(stream, now_ns, reset=True)
        self._refusals.break_off(stream, refusal, alone=alone, is_over=is_over)

    def reset(self, data: bytes, at: int, stop: int, stream: int, now_ns: int) -> None:
        """The client has reset a stream; the reset is forwarded if the stream was."""
        self._connection.streams.ended(stream)
        holding = self.holding
        call = holding.call(stream, data, now_ns)
        if call is not None:
            holding.forget(call, now_ns)
        unknown = (call is not None and not call.opening.is_up) or (call is None and stream > holding.highest)
        if self._refusals.forget(stream) or unknown:
            self._up.cut(at, stop)
        self._up.over(stream)
        self._answers.reset(stream, now_ns, by_client=True)

    # -- messages -------------------------------------------------------------------------------------

    def _advance(self, call: Call, now_ns: int) -> None:
        """Process the buffered bytes of a call as far as possible."""
        while call.body.chunks and call.body.step is not Step.WAITING:
            if call.body.step is Step.READING:
                if not self._read(call, now_ns):
                    break
            elif not self._pass_on(call, now_ns):
                return
        if self.holding.calls.get(call.stream) is call:
            self._finish(call, now_ns)

    def _pass_on(self, call: Call, now_ns: int) -> bool:
        """Forward an admitted message; False if its rest contradicts what was decided."""
        body = call.body
        tail, size = body.tail, min(body.left, body.size) if body.step is Step.PASSING else body.size
        taken = body.take(size)
        if tail is not None and not all(tail.agrees(chunk.payload) for chunk in taken):
            body.put_back(taken)
            self._refuse(call, status.malformed(call.request.path), now_ns)
            return False
        self._flow.send(call.outlet, *taken)
        body.passed(size)
        return True

    def _read(self, call: Call, now_ns: int) -> bool:
        """Decide the next message; False if it is incomplete, held or refused."""
        if call.body.size < PREFIX:
            return False
        packed, size = read_prefix(call.body.peek_prefix())
        there = min(call.body.size - PREFIX, size)
        if there < size and (packed or there < call.body.worth_reading):
            return self._may_come(call, size, now_ns)
        call.body.worth_reading = 2 * there
        data = joined(call.body.chunks)
        try:
            if packed:
                data = inflated(data[PREFIX : PREFIX + size], call.request.encoding, self._most)
                values = call.request.plans.request.read(data, 0, len(data))
            else:
                values = call.request.plans.request.read(data, PREFIX, PREFIX + there, PREFIX + size)
        except UnknownEncodingError:
            text = f"Compression {call.request.encoding!r} is not known to the gateway. Use gzip or deflate."
            return self._refuse(call, status.Refusal(status.UNIMPLEMENTED, text), now_ns)
        except UnreadableError:
            values = Missing.MALFORMED
        if packed:
            self._charge(values, len(data))
        if values is Missing.MORE:
            return self._may_come(call, size, now_ns)
        if isinstance(values, Missing):
            return self._refuse(call, status.malformed(call.request.path), now_ns)
        begin, end = (0, len(data)) if packed else (PREFIX, PREFIX + size)
        return self._decide(call, values, data, begin, end, is_whole=there == size, now_ns=now_ns)

    def _charge(self, values: Values | Missing, size: int) -> None:
        """Charge what it took to inflate and read a compressed message, of which its frames tell nothing."""
        left = 0
        if isinstance(values, Values):
            left = values.left
        else:  # how much of it was inflated and read is not known
            size = self._most
        self._up.charge((size >> BYTES_SHIFT) + (MAX_FIELDS - left >> _FIELDS_SHIFT))

    def _decide(
        self, call: Call, values: Values, data: bytes, begin: int, end: int, *, is_whole: bool, now_ns: int
    ) -> bool:
        """Decide a message whose relevant fields are read; `data` holds it, or its beginning."""
        size = read_prefix(call.body.peek_prefix())[1]
        wants_name = values.name is None and self._shared.calls.wants_name(call.request.known_method, values)
        new_id = self._new_id(call, values)
        if not is_whole and (wants_name or new_id is not None):
            return self._may_come(call, size, now_ns)
        if wants_name:
            self._name(call.request, values, data[begin:end])
        if self._aliases is not None and new_id is not None:
            try:
                told = self._aliases.resumer.renamed(data[begin:end], *new_id)
            except ValueError:
                return self._refuse(call, status.malformed(call.request.path), now_ns)
            self._instead(call, PREFIX + size, with_prefix(told))
            size = len(told)
        call.body.left = PREFIX + size
        call.body.tail = None if is_whole else call.request.plans.request.tail(values, -PREFIX)
        decide = partial(self._deciding.first, call, call.request.known_method, values, now_ns)
        return self._judge(call, decide, now_ns)

    def _new_id(self, call: Call, values: Values) -> tuple[Path, int] | None:
        """The path of an id that the broker does not know, and the id that replaces it."""
        if not self._aliases or call.request.length is not None:  # its length is in its headers
            return None
        return self._aliases.path(call.request.known_method, values.producer, values.attachment)

    def _instead(self, call: Call, size: int, message: bytes) -> None:
        """Replace the first message of a call."""
        for chunk in call.body.take(size):
            self._flow.drop(call.outlet, chunk)
        call.body.put_back([self._flow.own(call.outlet, message)])

    @staticmethod
    def _name(request: Request, values: Values, message: bytes) -> None:
        """Read the name of a producer with an unknown id."""
        named = request.plans.named.read(message, 0, len(message))
        values.name = (named.name if isinstance(named, Values) else None) or ""

    @property
    def _most(self) -> int:
        return self._shared.limits.message_bytes

    def _may_come(self, call: Call, size: int, now_ns: int) -> bool:
        """Wait for more of a message, or refuse it if it is too large to buffer; always False."""
        if size > self._most:
            self._shared.count(GrpcEvent.MESSAGE_TOO_LARGE)
            text = f"Message of {size} bytes cannot be read by the gateway, which keeps up to {self._most}"
            self._refuse(call, status.Refusal(status.RESOURCE_EXHAUSTED, text), now_ns)
        return False

    def _judge(self, call: Call, decide: Callable[[], Decision | None], now_ns: int) -> bool:
        """Forward a message if it is allowed; False if it is held or refused."""
        try:
            return self._follow(call, decide(), now_ns)
        except status.RefusedError as error:
            return self._refuse(call, error.refusal, now_ns)

    def _follow(self, call: Call, decision: Decision | None, now_ns: int) -> bool:
        """Carry a decision out; False if the message is held or refused."""
        if decision is None:
            self._deciding.let_go(call, now_ns)
            call.body.step = Step.PASSING
            self.holding.flush(call.stream)
            return True
        pending = call.pending
        call.body.step = Step.WAITING
        if decision is LISTS_FIRST:
            return False
        pending.hold = pending.hold or Hold(self._shared.max_hold_ns)
        wait_ns = pending.hold.wait_ns(decision, now_ns)
        if wait_ns:
            pending.timer = self._connection.timers.at(now_ns + wait_ns, partial(self._again, call))
            return False
        if decision.action is Action.DELAY:
            self._shared.count(GrpcEvent.HOLD_TIMED_OUT)
        return self._refuse(call, status.refusal(decision, pending.topic), now_ns)

    def _again(self, call: Call, now_ns: int) -> None:
        """Decide a held call again."""
        if self.holding.calls.get(call.stream) is call and self._judge(
            call, partial(self._deciding.again, call, now_ns), now_ns
        ):
            self._advance(call, now_ns)

    def _finish(self, call: Call, now_ns: int) -> None:
        """Forget a call that is completely forwarded, or needs no more handling."""
        if call.body.step is Step.WAITING:
            return
        if not call.has_ended:
            if call.body.step is Step.FREE and not call.outlet.items and not call.outlet.debt:
                self.holding.forget(call, now_ns)
            return
        if call.body.chunks:
            self._refuse(call, status.malformed(call.request.path), now_ns)
            return
        self.holding.flush(call.stream)
        self.holding.leave(call, now_ns)
        self._up.ends(call.outlet, call.end or frame(DATA, END_STREAM, call.stream))

    def _refuse(self, call: Call, refusal: status.Refusal, now_ns: int) -> bool:
        """Refuse a call; always False."""
        self._shared.count(GrpcEvent.CALL_REFUSED)
        owed = call.body.owed
        if owed is not None:
            owed += self._up.pending(call.stream)
        self.holding.end(call, now_ns)
        self._refusals.refuse(call, refusal, owed)
        return False
