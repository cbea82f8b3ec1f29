"""Has the engine decide a client's calls."""

from collections.abc import Callable
from functools import partial

from sluicegate.model import Action, Decision, Method, Role
from sluicegate_grpc.proxy.splice.answers import Answers
from sluicegate_grpc.proxy.splice.call import Call, Pending
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.semantics import status
from sluicegate_grpc.semantics.calls import Attaching, Caller, Id
from sluicegate_grpc.semantics.calls.publishing import unknown_id
from sluicegate_grpc.semantics.fields import Values
from sluicegate_grpc.semantics.status import RefusedError

NEW_TOPIC_WORK = 100
"""Further work of a call whose topic is new to the gate, some 200 us; see `frame_stream.WORK_PER_TURN`."""
LISTS_FIRST = Decision(Action.DELAY, ())
"""The front lists the topic's subscriptions, and the call is decided again then."""
_ATTACHING = frozenset({Role.ATTACH_PRODUCER, Role.SUBSCRIBE})


class Deciding:
    """The decisions of one connection's calls.

    The methods return None if a call may proceed. They raise `RefusedError`.

    :param again: called with a call and the time after `LISTS_FIRST`.
    """

    __slots__ = ("_again", "_answers", "_attachments", "_calls", "_connection", "_shared")

    def __init__(self, connection: Connection, answers: Answers, again: Callable[[Call, int], None]) -> None:
        self._connection = connection
        self._shared = connection.shared
        self._attachments = connection.shared.calls.attachments
        self._calls = connection.shared.calls
        self._answers = answers
        self._again = again

    def first(self, call: Call, method: Method, values: Values, now_ns: int) -> Decision | None:
        """Decide a message of a call."""
        gates = self._shared.services.gates
        known = gates.compiled
        decision = self._first(call, method, values, now_ns)
        if gates.compiled != known:
            self._connection.up.charge(NEW_TOPIC_WORK)
        return decision

    def _first(self, call: Call, method: Method, values: Values, now_ns: int) -> Decision | None:
        role, calls = method.role, self._calls
        if role is Role.PUBLISH:
            op, decision = calls.publish(method, values, call.caller, now_ns)
            waits = decision is not None and decision.action is Action.DELAY
            producer = self.to_prove(method, values, call.caller)
            call.pending = Pending(op.topic, op if waits else None, producer)
            return decision
        if role in _ATTACHING:
            call.pending.attaching = calls.attach(method, values, call.caller, now_ns)
            return self._attached(call, call.pending.attaching, now_ns)
        if role is Role.DISPATCH:
            call.pending.delivery = stream = calls.dispatching(method, values, call.caller, now_ns)
            if stream is None:
                raise RefusedError(status.refusal(unknown_id("consumer", values.consumer), ""))
            call.pending.attaching = stream.attaching
            return self._attached(call, stream.attaching, now_ns) if stream.attaching is not None else None
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
        return None

    def to_prove(self, method: Method, values: Values, caller: Caller) -> Id | None:
        """The producer of a publish, if the broker's response is to confirm it."""
        if self._shared.aliases is not None and method.producer and not method.by_connection:
            return values.producer
        return self._calls.unconfirmed_by(method, values, caller)

    def _attached(self, call: Call, attaching: Attaching, now_ns: int) -> Decision | None:
        call.pending.topic = attaching.topic
        if attaching.must_list and self._shared.question is not None:
            question = self._shared.question(attaching.topic)
            self._connection.questions.ask(question, partial(self._again, call))
            return LISTS_FIRST
        if attaching.must_list:
            self._attachments.again(attaching, now_ns)
        return attaching.decision

    def again(self, call: Call, now_ns: int) -> Decision | None:
        """Decide a held call again."""
        pending = call.pending
        pending.timer = None
        if pending.op is not None:
            decision = self._calls.publish_again(pending.op, call.caller, now_ns)
            if decision is None:
                pending.op = None
            return decision
        if pending.attaching is not None:
            self._attachments.again(pending.attaching, now_ns)
            return self._attached(call, pending.attaching, now_ns)
        return None

    def let_go(self, call: Call, now_ns: int) -> None:
        """A call is forwarded: watch the broker's response."""
        stream, request, pending = call.stream, call.request, call.pending
        call.pending = Pending()
        if pending.delivery is not None:
            pending.delivery.opened(now_ns)
            self._answers.deliver(stream, request, pending.delivery)
        elif pending.attaching is not None:
            self._answers.attach(stream, request, pending.attaching)
        elif pending.producer is not None:
            self._answers.prove(stream, request, pending.producer)
        elif request.credentials and call.caller.principal != request.principal:
            self._answers.accept(stream, request)

    def give_up(self, call: Call, now_ns: int) -> None:
        """A call ends before it was forwarded."""
        pending = call.pending
        call.pending = Pending()
        if pending.timer is not None:
            pending.timer.cancel()
        if pending.op is not None:
            self._calls.abandon(pending.op, call.caller, now_ns)
        if pending.attaching is not None:
            self._attachments.failed(pending.attaching, now_ns)
        if pending.delivery is not None:
            pending.delivery.close(now_ns)
