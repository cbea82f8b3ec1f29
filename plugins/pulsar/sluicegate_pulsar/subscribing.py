"""SUBSCRIBE: who may consume, and what the gate takes him for.

A request waits in the gate while the list of subscriptions is fetched, or until the rate of new attachments
lets it through; whatever else its client sends goes on meanwhile.
"""

from collections.abc import Callable
from dataclasses import dataclass

from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ServerError
from sluicegate_pulsar.connection import Connection, Timer
from sluicegate_pulsar.refusals import consumer_refusal, error
from sluicegate_pulsar.shared import Shared
from sluicegate_pulsar.subscriptions import ListSubscriptions

_LEAST_RETRY_NS = 1_000_000
_CREATE = OperationKind.CREATE_SUBSCRIPTION
_ATTACH = OperationKind.ATTACH_CONSUMER


@dataclass(slots=True)
class Request:
    """One SUBSCRIBE on its way through the gate."""

    subscribe: pb.Subscribe
    frame: bytes
    create: Operation
    """Creates the subscription, if it does not exist."""
    attach: Operation
    """Adds the consumer; the same operation each time it is asked, or it would be counted as another."""
    is_held: bool = False
    """True while its frame is kept."""
    is_gone: bool = False
    """True once its client has taken it back."""
    asked: bool = False
    """True once the list of subscriptions was asked for."""
    created: bool = False
    """True once the subscription was let in."""
    existed: bool = False
    """True if the subscription existed before."""
    deadline_ns: int = 0
    """Until when it may be held for a rate; 0 if it is not."""
    timer: Timer | None = None


class Subscribing:
    """The SUBSCRIBE requests of one connection that are not decided yet.

    :param admit: called with a request that may go on, its gate and the time, right before it does.
    """

    __slots__ = ("_admit", "_connection", "_shared", "waiting")

    def __init__(
        self, shared: Shared, connection: Connection, admit: Callable[[Request, Gate, int], None]
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._admit = admit
        self.waiting: dict[int, Request] = {}
        """Those held, by consumer id."""

    def request(self, subscribe: pb.Subscribe, topic: str, frame: bytes, now_ns: int) -> bool:
        """A client wants to consume.

        :param topic: full name.
        :param frame: the whole frame.
        :return: True if it passes as it came, False if it was answered or is held.
        """
        connection = self._connection
        consumer = f"{connection.peer}/{subscribe.consumer_id}"
        names = (topic, connection.principal, connection.client)
        request = Request(
            subscribe,
            frame,
            Operation(_CREATE, *names, subscription=subscribe.subscription),
            Operation(_ATTACH, *names, subscription=subscribe.subscription, consumer=consumer),
        )
        return self._decide(request, now_ns)

    def _decide(self, request: Request, now_ns: int) -> bool:
        gate = self._shared.gate(request.attach.topic, self._connection.exempt, now_ns)
        if self._must_ask(request, gate, now_ns):
            if self._hold(request, gate, now_ns):
                request.asked = True
                question = ListSubscriptions(request.attach.topic)
                self._connection.ask(question, lambda _, now_ns: self._again(request, now_ns))
            return False
        decision = self._attach(request, gate, now_ns)
        if decision is None:
            self._admit(request, gate, now_ns)
            return True
        wait_ns = self._wait_ns(request, decision, now_ns)
        if wait_ns == 0:
            self._refuse(request, gate, decision, now_ns)
        elif self._hold(request, gate, now_ns):
            request.timer = self._connection.at(now_ns + wait_ns, lambda now_ns: self._again(request, now_ns))
        return False

    def _must_ask(self, request: Request, gate: Gate, now_ns: int) -> bool:
        """Whether it must be known which subscriptions exist before this one can be refused."""
        if request.asked or request.created or not gate.asks(_CREATE):
            return False
        known = gate.state.subscriptions.get(request.create.subscription)
        if known is not None and known.exists:
            return False
        return not self._shared.subscriptions.fresh(request.create.topic, now_ns)

    def _attach(self, request: Request, gate: Gate, now_ns: int) -> Decision | None:
        if not request.created:
            known = gate.state.subscriptions.get(request.create.subscription)
            request.existed = known is not None and known.exists
            decision = gate.decide(request.create, now_ns)
            if decision is not None and decision.action is not Action.REWRITE:
                return decision
            request.created = True
        decision = gate.decide(request.attach, now_ns)
        return None if decision is None or decision.action is Action.REWRITE else decision

    def _wait_ns(self, request: Request, decision: Decision, now_ns: int) -> int:
        """How long to hold a request before asking again; 0 if it is refused, or was held long enough."""
        if decision.action is not Action.DELAY:
            return 0
        if not request.deadline_ns:
            request.deadline_ns = now_ns + self._shared.max_hold_ns
        left_ns = request.deadline_ns - now_ns
        if left_ns <= 0:
            self._shared.count("subscribe_hold_timed_out")
            return 0
        return min(max(decision.delay_ns, _LEAST_RETRY_NS), left_ns)

    def _hold(self, request: Request, gate: Gate, now_ns: int) -> bool:
        """Keep a request; False if there is no room, and it was refused."""
        if request.is_held:
            return True
        size = len(request.frame)
        if not self._shared.budget.take(size):
            self._take_back(request, gate, now_ns)
            text = "too many bytes are held by the gateway"
            self._answer(request, ServerError.SERVICE_NOT_READY, text)
            return False
        self._connection.held_bytes += size
        request.is_held = True
        self.waiting[request.subscribe.consumer_id] = request
        return True

    def _let_go(self, request: Request) -> None:
        if request.is_held:
            request.is_held = False
            self._connection.held_bytes -= len(request.frame)
            self._shared.budget.give(len(request.frame))
            self.waiting.pop(request.subscribe.consumer_id, None)

    def _again(self, request: Request, now_ns: int) -> None:
        """What a held request waited for has come."""
        if not request.is_gone and self._decide(request, now_ns):
            self._connection.forward(request.frame)

    def admitted(self, request: Request) -> None:
        """A request goes on: nothing is kept of it."""
        self._let_go(request)

    def _refuse(self, request: Request, gate: Gate, decision: Decision, now_ns: int) -> None:
        self._take_back(request, gate, now_ns)
        self._answer(request, *consumer_refusal(decision, request.attach.topic))

    def _take_back(self, request: Request, gate: Gate, now_ns: int) -> None:
        gate.abandon(request.create, now_ns)
        gate.abandon(request.attach, now_ns)
        if request.created and not request.existed:
            gate.detach(request.create)
        self._let_go(request)

    def _answer(self, request: Request, code: ServerError, text: str) -> None:
        self._connection.answer(error(request.subscribe.request_id, code, text))

    def cancel(self, consumer_id: int, now_ns: int) -> None:
        """The client has taken a request back, or is gone; does nothing if none is held."""
        request = self.waiting.get(consumer_id)
        if request is None:
            return
        request.is_gone = True
        if request.timer is not None:
            request.timer.cancel()
        gate = self._shared.gate(request.attach.topic, self._connection.exempt, now_ns)
        self._take_back(request, gate, now_ns)

    def closed(self, now_ns: int) -> None:
        """The connection is gone."""
        for consumer_id in list(self.waiting):
            self.cancel(consumer_id, now_ns)
