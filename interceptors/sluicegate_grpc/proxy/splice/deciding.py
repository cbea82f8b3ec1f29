"""Has the engine decide a client's calls, and carries the decisions out."""

from collections.abc import Callable
from functools import partial

from sluicegate.model import Action, Decision, Method, Operation, Role
from sluicegate.sessions.admission import Hold
from sluicegate_grpc.proxy.splice.answers import Answers
from sluicegate_grpc.proxy.splice.call import Call
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.semantics import status
from sluicegate_grpc.semantics.calls import Attaching, Caller, Id
from sluicegate_grpc.semantics.calls.publishing import unknown_id
from sluicegate_grpc.semantics.fields import Values
from sluicegate_grpc.semantics.status import RefusedError

ASKED = -1
"""It is not known yet how long to wait: the front was asked."""
NEW_TOPIC_WORK = 100
"""Further work of a call whose topic is new to the gate, some 200 us; see `frame_stream.WORK_PER_TURN`."""
_ATTACHING = frozenset({Role.ATTACH_PRODUCER, Role.SUBSCRIBE})


class Deciding:
    """The decisions of one connection's calls.

    The methods return how long a call has to wait, in ns: 0 if it may proceed, `ASKED` if `again` is called
    later; they raise `RefusedError`.

    :param again: called with a call and the time once the front has answered.
    """

    __slots__ = ("_again", "_answers", "_calls", "_connection", "_shared")

    def __init__(self, connection: Connection, answers: Answers, again: Callable[[Call, int], None]) -> None:
        self._connection = connection
        self._shared = connection.shared
        self._calls = connection.shared.calls
        self._answers = answers
        self._again = again

    def first(self, call: Call, method: Method, values: Values, now_ns: int) -> int:
        """Decide a message of a call."""
        gates = self._shared.services.gates
        known = gates.compiled
        wait_ns = self._first(call, method, values, now_ns)
        if gates.compiled != known:
            self._connection.up.charge(NEW_TOPIC_WORK)
        return wait_ns

    def _first(self, call: Call, method: Method, values: Values, now_ns: int) -> int:
        role, calls = method.role, self._calls
        call.hold = None
        if role is Role.PUBLISH:
            op, decision = calls.publish(method, values, call.caller, now_ns)
            call.producer = self.to_prove(method, values, call.caller)
            return self.published(call, op, decision, now_ns)
        if role in _ATTACHING:
            call.attaching = calls.attach(method, values, call.caller, now_ns)
            return self._attaching(call, call.attaching, now_ns)
        if role is Role.DISPATCH:
            call.delivery = stream = calls.dispatching(method, values, call.caller, now_ns)
            if stream is None:
                raise RefusedError(status.refusal(unknown_id("consumer", values.consumer), ""))
            call.attaching = stream.attaching
            return 0 if call.attaching is None else self._attaching(call, call.attaching, now_ns)
        if role is Role.ACKNOWLEDGE:
            calls.acknowledge(method, values, call.caller, now_ns)
        elif role is Role.LOOKUP:
            self._answers.note_topic(call.stream, values.topic)
        elif role is Role.KEEP_ALIVE:
            calls.touch(values.attachment, call.caller, now_ns)
        else:
            self._answers.detach(
                call.stream, call.request, partial(calls.detach, method, values, call.caller)
            )
        return 0

    def to_prove(self, method: Method, values: Values, caller: Caller) -> Id | None:
        """The producer of a publish, if the broker's response is to confirm it."""
        if self._shared.aliases is not None and method.producer and not method.by_connection:
            return values.producer
        return self._calls.unconfirmed_by(method, values, caller)

    def published(self, call: Call, op: Operation, decision: Decision | None, now_ns: int) -> int:
        """Follow up the decision on a publish."""
        if decision is None:
            call.op = None
            return 0
        if decision.action is Action.DELAY:
            call.op = op
        return self._wait(call, decision, op.topic, now_ns)

    def _attaching(self, call: Call, attaching: Attaching, now_ns: int) -> int:
        if attaching.must_list and self._shared.question is not None:
            question = self._shared.question(attaching.topic)
            self._connection.ask(question, partial(self._again, call))
            return ASKED
        if attaching.must_list:
            self._calls.again(attaching, now_ns)
        if attaching.decision is None:
            return 0
        return self._wait(call, attaching.decision, attaching.topic, now_ns)

    def again(self, call: Call, now_ns: int) -> int:
        """Decide a held call again."""
        if call.op is not None:
            decision = self._calls.publish_again(call.op, call.caller, now_ns)
            return self.published(call, call.op, decision, now_ns)
        if call.attaching is not None:
            self._calls.again(call.attaching, now_ns)
            return self._attaching(call, call.attaching, now_ns)
        return 0

    def _wait(self, call: Call, decision: Decision, topic: str, now_ns: int) -> int:
        hold = call.hold = call.hold or Hold(self._shared.max_hold_ns)
        wait_ns = hold.wait_ns(decision, now_ns)
        if wait_ns == 0:
            if decision.action is Action.DELAY:
                self._shared.count("hold_timed_out")
            raise RefusedError(status.refusal(decision, topic))
        return wait_ns

    def let_go(self, call: Call, now_ns: int) -> None:
        """A call is forwarded: watch the broker's response."""
        stream, request = call.stream, call.request
        if call.delivery is not None:
            self._calls.opened(call.delivery, now_ns)
            self._answers.deliver(stream, request, call.delivery)
        elif call.attaching is not None:
            self._answers.attach(stream, request, call.attaching)
        elif call.producer is not None:
            self._answers.prove(stream, request, call.producer)
        elif request.credentials and call.caller.principal != request.principal:
            self._answers.accept(stream, request)
        call.delivery = call.attaching = call.producer = None

    def give_up(self, call: Call, now_ns: int) -> None:
        """A call ends before it was forwarded."""
        if call.op is not None:
            self._calls.abandon(call.op, call.caller, now_ns)
        if call.attaching is not None:
            self._calls.failed(call.attaching, now_ns)
        if call.delivery is not None:
            call.delivery.close(now_ns)
        call.op = call.attaching = call.delivery = None
