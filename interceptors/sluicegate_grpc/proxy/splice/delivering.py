"""Paces the messages that the broker streams to one consumer, by rates and delivery times.

The stream is never ended to slow it down: waiting messages are buffered in order, the consumer's own window
bounds how much the broker sends, and the connection's window is given back, so that other streams go on.
"""

from collections import deque
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import partial

from sluicegate.engine.gate import Gate
from sluicegate.engine.wait_queue import LONGEST_WAIT_NS
from sluicegate.model import Action, Breakage, Decision
from sluicegate.sessions.work import Running, Task, Turn, Until, Wait, Work
from sluicegate_grpc.events import GrpcEvent
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.flow import Chunk, joined
from sluicegate_grpc.proxy.splice.frames import END_STREAM, HEAD, unpadded
from sluicegate_grpc.proxy.splice.messages import PREFIX, UnreadableError, read_prefix
from sluicegate_grpc.proxy.splice.requests import Request
from sluicegate_grpc.proxy.splice.watcher import Watchers, Withholding
from sluicegate_grpc.semantics import status
from sluicegate_grpc.semantics.calls import Stream
from sluicegate_grpc.semantics.calls.attach_call import lost_place
from sluicegate_grpc.semantics.calls.publishing import unknown_id
from sluicegate_grpc.semantics.fields import Missing, Plan, Values
from sluicegate_grpc.semantics.status import Refusal

_UNACKED = "max_unacked_messages_per_consumer"
_UNACKED_WAIT_NS = 20_000_000
"""An acknowledgement on another connection does not wake this one; the wait doubles while none come."""
_MAX_UNACKED_WAIT_NS = 320_000_000
_GIVEN_UP = frozenset({"1", "4"})
"""CANCELLED and DEADLINE_EXCEEDED: the client has ended the stream, and the broker reports it first."""
_LEAST_WAIT_NS = 1_000_000
_NS_PER_MS = 1_000_000
_FIRST_BYTES = 128
_EAGER_BYTES = 65_536
_DROP = -1
_UNTIL_ACKNOWLEDGED = -2
_PASSES = (0, _DROP)
MESSAGE_BYTES = 300
"""What a buffered message takes besides its bytes."""


@dataclass(slots=True, eq=False)
class Message:
    """One message that is buffered, at least in part."""

    chunks: list[Chunk] = field(default_factory=list)  # a tenth of a deque, as nearly always there is one
    there: int = 0
    """Bytes that have come, with the prefix."""
    size: int = 0
    """Bytes that it has, with the prefix; 0 until that has come."""
    is_known: bool = False
    """True once it was read, or cannot be."""
    values: Values | None = None
    seen_ms: int = -1

    @property
    def lacks(self) -> int:
        """How many of the next bytes certainly belong to it."""
        return (self.size or PREFIX) - self.there


@dataclass(slots=True, eq=False)
class _Rest:
    """Bytes that are still to come of a message that is decided."""

    passes: int = 0
    drops: int = 0


class _Pacing(Task[Refusal | None]):
    """The work on the queue of a stream, while its first message has to wait."""

    __slots__ = ("wants_acknowledgement",)

    def __init__(self, wait: Wait, done: Callable[[Refusal | None, int], None], now_ns: int) -> None:
        super().__init__(wait, done, now_ns)
        self.wants_acknowledgement = False


@dataclass(frozen=True, slots=True)
class _End:
    """The broker's end of a stream, while messages wait."""

    trailers: bytes
    is_given_up: bool
    """True if the client had ended it before."""


class Delivering(Withholding):
    """The messages of one stream.

    :param request: the call's.
    :param delivery: the consumer.
    :param watchers: of the connection: it stays among them while messages wait after the broker's end of the
        stream.
    """

    __slots__ = (
        "_delivery",
        "_end",
        "_outlet",
        "_pacing",
        "_queue",
        "_request",
        "_rest",
        "_watchers",
    )

    def __init__(
        self,
        connection: Connection,
        stream: int,
        request: Request,
        delivery: Stream,
        watchers: Watchers,
    ) -> None:
        super().__init__(connection, stream)
        self._outlet = connection.down.flow.open(stream)
        self._request = request
        self._delivery = delivery
        self._queue: deque[Message] = deque()
        self._rest = _Rest()
        self._end: _End | None = None
        self._pacing: _Pacing | None = None
        self._watchers = watchers
        delivery.on_acknowledged(self._acknowledged)

    # -- what the broker sends ------------------------------------------------------------------------

    def data(self, data: bytes, at: int, stop: int, flags: int, now_ns: int) -> None:
        """A DATA frame."""
        # <hot> Runs for every frame: nearly always all messages in it pass.
        begin, end = unpadded(data, at, stop, flags)
        passed = begin
        if not self._queue and not self._rest.drops and self._delivery.unknown is None:
            passed = self._let_pass(data, begin, end, now_ns)
            size = stop - at - HEAD
            if passed == end and not flags & END_STREAM and self._down.flow.fits(self._outlet, size):
                self._down.flow.passed(self._outlet, size)
                return
        self._down.cut(at, stop)
        padding = stop - at - HEAD - (end - begin)
        if padding:
            self._down.refund(self._stream, padding)
        if passed > begin:
            self._down.flow.send(self._outlet, self._down.flow.wait(data[begin:passed]))
        if passed < end:
            self._arrive(data, passed, end, now_ns)
            if self._pacing is None:
                self.pump(now_ns)

    def _let_pass(self, data: bytes, at: int, end: int, now_ns: int) -> int:
        """Decide unbuffered messages, as long as they pass; returns the offset of the first that does not."""
        # <hot> One round for each message.
        rest = self._rest
        if rest.passes:
            taken = min(rest.passes, end - at)
            rest.passes -= taken
            at += taken
        gate = self._delivery.gate(now_ns)
        plan = self._plan(gate)
        while end - at >= PREFIX:
            packed, size = read_prefix(data, at)
            stop = at + PREFIX + size
            if packed:
                break
            begin = at + PREFIX
            # The fields that policies need mostly come first, and the broker is trusted not to repeat them.
            values = plan.read(data, begin, min(stop, end, begin + _FIRST_BYTES), stop)
            if values is Missing.MORE:
                values = plan.read(data, begin, min(stop, end), stop)
                if values is Missing.MORE:
                    break
            wait_ns = self._ask(gate, None if isinstance(values, Missing) else values, size, -1, now_ns)
            if wait_ns == _DROP:
                rest.drops = stop - at
                break
            if wait_ns:
                break  # it is decided again once it is buffered
            if stop > end:
                rest.passes = stop - end
                return end
            at = stop
        return at

    def _plan(self, gate: Gate) -> Plan:
        """How to read the fields that the current policies need."""
        plans = self._request.plans
        if gate.delay is not None:
            return plans.response
        return plans.timeless if self._delivery.counts_unacked(gate) else plans.sizes

    def _arrive(self, data: bytes, at: int, end: int, now_ns: int) -> None:
        """Buffer bytes, assigned to their messages."""
        delivery = self._delivery
        is_read = delivery.unknown is not None or delivery.gate(now_ns).delay is not None
        ahead = self._connection.shared.limits.stream_bytes if is_read else 0
        if self._rest.drops:
            dropped = min(self._rest.drops, end - at)
            self._rest.drops -= dropped
            self._down.refund(self._stream, dropped)
            at += dropped
        while at < end:
            if not self._queue or not self._queue[-1].lacks:
                self._queue.append(Message())
                self._down.reserved.charge(MESSAGE_BYTES)
            message = self._queue[-1]
            stop = min(end, at + message.lacks)
            if not message.size and end - at >= PREFIX and not message.there:
                stop = min(end, at + PREFIX + read_prefix(data, at)[1])
            message.chunks.append(self._down.flow.keep(self._outlet, data[at:stop], 0, ahead))
            message.there += stop - at
            at = stop
            if not message.size and message.there >= PREFIX:
                message.size = PREFIX + read_prefix(joined(message.chunks))[1]
                message.seen_ms = self._connection.shared.services.wall_ms(now_ns)

    @property
    def is_ending(self) -> bool:
        """True if the broker has ended the stream and messages still wait."""
        return self._end is not None

    def trailers(self, block: bytes, frames: bytes, now_ns: int) -> bool:
        """The broker ends the stream; the trailers follow the waiting messages."""
        status = self._header(block, "grpc-status")
        is_given_up = status in _GIVEN_UP
        if not self._queue and not self._outlet.items:
            self._finished(now_ns, has_left=is_given_up)
            self._down.over(self._stream)
            return True
        self._end = _End(frames, is_given_up)
        self._watchers[self._stream] = self
        if self._queue:
            last = self._queue[-1]
            last.size = last.there  # no more of it will come
        if self._pacing is None:
            self.pump(now_ns)
        return False

    def ended(self, now_ns: int, *, by_client: bool) -> None:
        """The stream was reset: the broker redelivers what is not acknowledged."""
        end, self._end = self._end, None
        self._discard()
        self._finished(now_ns, has_left=by_client or (end is not None and end.is_given_up))

    def _discard(self) -> None:
        for message in self._queue:
            self._down.flow.discard(self._outlet, message.chunks)
        self._down.reserved.give(MESSAGE_BYTES * len(self._queue))
        self._queue.clear()

    def _finished(self, now_ns: int, *, has_left: bool) -> None:
        if self._pacing is not None:
            self._pacing.close(now_ns)
            self._pacing = None
        self._delivery.close(now_ns, has_left=has_left)

    # -- deciding -------------------------------------------------------------------------------------

    def pump(self, now_ns: int) -> None:
        """Send the messages that may pass; the first that may not is decided anew if it waits already."""
        if self._pacing is not None:
            self._pacing.close(now_ns)
        self._pacing = pacing = _Pacing(self._connection.wait, self._paced, now_ns)
        ended = pacing.begin(self._pace(pacing))
        if not isinstance(ended, Running):
            self._paced(ended, now_ns)

    def _acknowledged(self) -> None:
        """The consumer has acknowledged something: messages that wait for that may pass.

        They do so when the session is woken, at once: this may be called by another connection, or while this
        queue is sent, as a message that is delivered again no longer counts from before.
        """
        pacing = self._pacing
        if pacing is not None and pacing.wants_acknowledgement:
            pacing.wants_acknowledgement = False
            self._connection.wait(Until(pacing.now_ns), partial(self._pump_anew, pacing))

    def _pump_anew(self, pacing: _Pacing, now_ns: int, answer: object) -> None:
        if self._pacing is pacing:
            self.pump(now_ns)

    def _paced(self, refusal: Refusal | None, now_ns: int) -> None:
        """No message waits for its time: they were sent, or more of one has to come, or the stream ends."""
        self._pacing = None
        if refusal is not None:
            self.break_off(refusal, now_ns)
        elif self._end is not None and not self._queue:
            end, self._end = self._end, None
            self._watchers.pop(self._stream, None)
            self._finished(now_ns, has_left=end.is_given_up)
            self._down.ends(self._outlet, end.trailers)

    def _pace(self, turn: _Pacing) -> Work[Refusal | None]:
        """Send the messages of the queue, each in its time; returns why the stream must end, if it must."""
        if self._delivery.unknown is not None and self._queue:
            refusal = yield from self._identify(turn)
            if refusal is not None:
                return refusal
        patience_ns = _UNACKED_WAIT_NS
        gate = self._delivery.gate(turn.now_ns)
        while self._queue and self._delivery.unknown is None:
            message = self._queue[0]
            if not message.is_known and not self._know(message, gate):
                break
            size = max(0, message.size - PREFIX)
            wait_ns = self._ask(gate, message.values, size, message.seen_ms, turn.now_ns)
            if wait_ns in _PASSES:
                self._send(self._queue.popleft(), drop=wait_ns == _DROP)
                continue
            turn.wants_acknowledgement = wait_ns == _UNTIL_ACKNOWLEDGED
            if turn.wants_acknowledgement:
                wait_ns, patience_ns = patience_ns, min(2 * patience_ns, _MAX_UNACKED_WAIT_NS)
            yield Until(turn.now_ns + min(wait_ns, LONGEST_WAIT_NS))
            gate = self._delivery.gate(turn.now_ns)  # policies may have changed meanwhile
        return None

    def _send(self, message: Message, *, drop: bool) -> None:
        self._down.reserved.give(MESSAGE_BYTES)
        if drop:
            self._rest.drops = message.size - message.there
            for chunk in message.chunks:
                self._down.flow.drop(self._outlet, chunk)
        else:
            self._rest.passes = message.size - message.there
            self._down.flow.send(self._outlet, *message.chunks)

    def _identify(self, turn: Turn) -> Work[Refusal | None]:
        """Attach a consumer with an unknown id by its first message, once that has come."""
        delivery = self._delivery
        values = self._read(self._queue[0], self._request.plans.identity)
        if values is Missing.MORE:
            return None
        decision: Decision | None = unknown_id("consumer", delivery.unknown or 0)
        topic = values.topic if isinstance(values, Values) else ""
        if isinstance(values, Values) and topic and values.subscription:
            decision = yield from delivery.identify(values, turn, self._connection.shared.max_hold_ns)
        return status.refusal(lost_place(decision), topic) if decision is not None else None

    def break_off(self, refusal: status.Refusal, now_ns: int) -> None:
        """End the stream; the broker redelivers what is not acknowledged."""
        is_over = self.is_ending
        self._watchers.pop(self._stream, None)
        self.ended(now_ns, by_client=False)
        self._watchers.break_off(self._stream, refusal, now_ns, alone=not self._block, is_over=is_over)

    def _know(self, message: Message, gate: Gate) -> bool:
        """Read what policies need of a message; False if it is incomplete."""
        values = self._read(message, self._plan(gate))
        if values is Missing.MORE:
            return False
        message.values = values if isinstance(values, Values) else None
        message.is_known = True
        return True

    def _read(self, message: Message, plan: Plan) -> Values | Missing:
        """Read a message; MORE if it is incomplete, and its sender has been granted the missing bytes."""
        most = self._connection.shared.limits.stream_bytes
        whole = message.there == message.size
        if message.size and (whole or message.there <= _EAGER_BYTES or message.there >= most):
            values = self._values(message, plan=plan, whole=whole)
            if values is not Missing.MORE:
                return values
            if message.there >= most:
                return Missing.MALFORMED
        for chunk in message.chunks:
            self._down.flow.advance(self._outlet, chunk)
        return Missing.MORE

    def _values(self, message: Message, *, plan: Plan, whole: bool) -> Values | Missing:
        content = joined(message.chunks)
        if len(content) < PREFIX:
            return Missing.MALFORMED
        if not content[0]:
            return plan.read(content, PREFIX, len(content), message.size)
        if not whole:
            return Missing.MORE
        try:
            plain = self._plain(content[PREFIX:], content[0], self._connection.shared.limits.message_bytes)
        except UnreadableError:
            # It counts as what it is on the wire; whether its consumer can read it is not known here.
            return Missing.MALFORMED
        return plan.read(plain, 0, len(plain))

    def _ask(self, gate: Gate, values: Values | None, size: int, seen_ms: int, now_ns: int) -> int:
        """How long a message has to wait: 0 if it passes now, and is charged; _DROP or _UNTIL_ACKNOWLEDGED.

        :param values: None if it cannot be read.
        :param size: its bytes, which count as its payload then.
        :param seen_ms: when it arrived; -1 for now.
        """
        # <hot> Runs for every message.
        stream = self._delivery
        rule = gate.delay
        if rule is not None:
            wall_ms = self._connection.shared.services.wall_ms(now_ns)
            early_ms = stream.early_ms(rule, values, wall_ms if seen_ms < 0 else seen_ms, wall_ms)
            if early_ms > 0:
                return early_ms * _NS_PER_MS
        decision = stream.decide(gate, values, size, now_ns)
        if decision is None:
            return 0
        if decision.action is Action.DROP and not stream.op.reliable:
            self._connection.shared.count(GrpcEvent.DISPATCH_DROPPED)
            return _DROP
        if decision.breaks is Breakage.CONNECTION:
            self._connection.life.break_off(decision)
        if decision.reasons[0].policy == _UNACKED:
            return _UNTIL_ACKNOWLEDGED
        return max(decision.delay_ns, _LEAST_WAIT_NS) if decision.delay_ns else LONGEST_WAIT_NS
