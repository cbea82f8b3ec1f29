"""PRODUCER: who may publish to a topic.

A request waits in the gate until the rate of new attachments lets it through or, where it makes a
subscription, while the list of those that exist is fetched.
"""

from collections.abc import Callable
from typing import TypeGuard

from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError, ServerError
from sluicegate_pulsar.codec.frames import command_frame
from sluicegate_pulsar.connection import Connection, Timer
from sluicegate_pulsar.producer import Producer
from sluicegate_pulsar.producers import Producers
from sluicegate_pulsar.refusals import consumer_refusal, error, producer_refusal
from sluicegate_pulsar.shared import Shared
from sluicegate_pulsar.subscriptions import ListSubscriptions

_TYPES = pb.BaseCommand.Type
_LEAST_RETRY_NS = 1_000_000
_ATTACH = OperationKind.ATTACH_PRODUCER
_CREATE = OperationKind.CREATE_SUBSCRIPTION
_MAX_PRODUCERS = 10_000
"""Producers of one connection, those that wait to attach included."""


class _Request:
    """One PRODUCER on its way through the gate."""

    __slots__ = (
        "asked",
        "attach",
        "create",
        "created",
        "deadline_ns",
        "existed",
        "frame",
        "is_held",
        "producer_id",
        "request_id",
        "timer",
    )

    def __init__(
        self,
        request: "pb.Producer",
        frame: bytes,
        attach: Operation,
        create: Operation | None,
        deadline_ns: int,
    ) -> None:
        self.producer_id = request.producer_id
        self.request_id = request.request_id
        self.frame = frame
        self.attach = attach
        self.create = create
        """Creates the subscription that the client wants to be there from the start, if it wants any."""
        self.deadline_ns = deadline_ns
        self.asked = False
        """True once the list of subscriptions was asked for."""
        self.created = False
        """True once the subscription was let in."""
        self.existed = False
        """True if the subscription existed before."""
        self.is_held = False
        """True while its frame is kept."""
        self.timer: Timer | None = None


class Attaching:
    """The PRODUCER requests of one connection.

    :param shared: the front's state.
    :param connection: where they come from.
    :param producers: where those go that are let in.
    :param on_refused: called with a producer that the broker refused, once it is not counted, and the time.
    """

    __slots__ = ("_connection", "_on_refused", "_producers", "_shared", "_waiting")

    def __init__(
        self,
        shared: Shared,
        connection: Connection,
        producers: Producers,
        on_refused: Callable[[Producer, int], None],
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._producers = producers
        self._on_refused = on_refused
        self._waiting: dict[int, _Request] = {}

    def attach(self, request: "pb.Producer", frame: bytes, now_ns: int) -> bool:
        """Decide a PRODUCER.

        :param request: the command.
        :param frame: all of it, to be kept if it has to wait.
        :return: True if it passes as it came.
        """
        request_id = request.request_id
        if request.producer_id in self._producers.live:
            # The broker answers as it sees fit, and whatever it answers: the one that is open stays.
            return True
        if request.producer_id in self._waiting:
            self._refuse(request_id, ServerError.SERVICE_NOT_READY, "Producer is already waiting to attach")
            return False
        if len(self._producers.live) + len(self._waiting) >= _MAX_PRODUCERS:
            text = f"Over {_MAX_PRODUCERS} producers on one connection"
            self._refuse(request_id, ServerError.NOT_ALLOWED_ERROR, text)
            return False
        try:
            topic = self._shared.full_name(request.topic)
        except ProtocolError as problem:
            text = f"Invalid topic name: {problem.reason}"
            self._refuse(request_id, ServerError.INVALID_TOPIC_NAME, text)
            return False
        return self._decide(self._request(request, topic, frame, now_ns), now_ns)

    def _request(self, request: "pb.Producer", topic: str, frame: bytes, now_ns: int) -> _Request:
        connection = self._connection
        name, subscription = request.producer_name, request.initial_subscription_name
        own = f"id {request.producer_id} of {connection.client}"
        names = (topic, connection.principal, connection.client)
        attach = Operation(_ATTACH, *names, producer=f"name {name}" if name else own)
        create = None
        if subscription and topic.startswith("persistent:"):  # the others have no subscriptions to keep
            create = Operation(_CREATE, *names, subscription=subscription)
        return _Request(request, frame, attach, create, now_ns + self._shared.max_hold_ns)

    def _decide(self, request: _Request, now_ns: int) -> bool:
        """Decide a request, for the first time or anew; True if its frame is to go on."""
        gate = self._shared.gate(request.attach.topic, self._connection.exempt, now_ns)
        if self._must_ask(request, gate, now_ns):
            if self._hold(request, gate, now_ns):
                request.asked = True
                question = ListSubscriptions(request.attach.topic)
                self._connection.ask(question, lambda _, now_ns: self._again(request, now_ns))
            return False
        decision = self._ask(request, gate, now_ns)
        if not _stops(decision):
            self._let_go(request)
            self._attached(request, now_ns)
            return True
        if decision.action is Action.DELAY and now_ns < request.deadline_ns:
            if self._hold(request, gate, now_ns):
                at_ns = max(min(now_ns + decision.delay_ns, request.deadline_ns), now_ns + _LEAST_RETRY_NS)
                request.timer = self._connection.at(at_ns, lambda now_ns: self._again(request, now_ns))
            return False
        self._take_back(request, gate, now_ns)
        is_subscription = request.create is not None and not request.created
        told = consumer_refusal if is_subscription else producer_refusal
        self._refuse(request.request_id, *told(decision, request.attach.topic))
        return False

    def _must_ask(self, request: _Request, gate: Gate, now_ns: int) -> bool:
        """Whether it must be known which subscriptions exist before a new one can be refused."""
        create = request.create
        if create is None or request.asked or request.created or not gate.asks(_CREATE):
            return False
        known = gate.state.subscriptions.get(create.subscription)
        if known is not None and known.exists:
            return False
        return not self._shared.subscriptions.fresh(create.topic, now_ns)

    def _ask(self, request: _Request, gate: Gate, now_ns: int) -> Decision | None:
        create = request.create
        if create is not None and not request.created:
            known = gate.state.subscriptions.get(create.subscription)
            request.existed = known is not None and known.exists
            decision = gate.decide(create, now_ns)
            if _stops(decision):
                return decision
            request.created = True
        return gate.decide(request.attach, now_ns)

    def _take_back(self, request: _Request, gate: Gate, now_ns: int) -> None:
        """A request will not reach the broker."""
        self._let_go(request)
        gate.abandon(request.attach, now_ns)
        if request.create is not None:
            gate.abandon(request.create, now_ns)
            self._uncreate(request, gate)

    @staticmethod
    def _uncreate(request: _Request, gate: Gate) -> None:
        """The subscription that a refused request asked for does not exist by it."""
        if request.create is not None and request.created and not request.existed:
            gate.detach(request.create)

    def _attached(self, request: _Request, now_ns: int) -> None:
        """A request goes on to the broker, whose answer may undo it."""
        producer = self._producers.attach(request.producer_id, request.attach, now_ns)

        def on_response(response: pb.BaseCommand, now_ns: int) -> bool:
            is_success = response.type == _TYPES.PRODUCER_SUCCESS
            if self._producers.live.get(producer.id) is producer:
                if is_success:
                    self._producers.named(producer, response.producer_success.producer_name, now_ns)
                else:
                    self._producers.detach(producer, now_ns)
                    self._on_refused(producer, now_ns)
                    self._make_sure(producer.id)
            if not is_success:
                self._uncreate(request, self._shared.gate(producer.topic, self._connection.exempt, now_ns))
            return True

        self._connection.expect(request.request_id, on_response)

    def _make_sure(self, producer_id: int) -> None:
        """Have the broker forget a producer that it has refused by what it says.

        Responses are told by ids that clients choose: by using one twice they can make the answer to another
        request look like this one. The producer that the broker has after all would be taken, when its id is
        opened again, for one of another topic, and publish by that one's policies.
        """
        request_id = next(self._connection.own_ids)
        self._connection.expect(request_id, lambda response, now_ns: False)
        close = pb.CloseProducer(producer_id=producer_id, request_id=request_id)
        self._connection.forward(
            command_frame(pb.BaseCommand(type=_TYPES.CLOSE_PRODUCER, close_producer=close))
        )

    def _refuse(self, request_id: int, code: ServerError, text: str) -> None:
        self._connection.answer(error(request_id, code, text))

    # -- held ones ------------------------------------------------------------------------------------

    def _hold(self, request: _Request, gate: Gate, now_ns: int) -> bool:
        """Keep a request; False if there is no room, and it was refused."""
        if request.is_held:
            return True
        if not self._shared.budget.take(len(request.frame)):
            self._take_back(request, gate, now_ns)
            text = "Too many bytes are held by the gateway"
            self._refuse(request.request_id, ServerError.SERVICE_NOT_READY, text)
            return False
        self._connection.held_bytes += len(request.frame)
        request.is_held = True
        self._waiting[request.producer_id] = request
        return True

    def _let_go(self, request: _Request) -> None:
        if request.is_held:
            request.is_held = False
            self._shared.budget.give(len(request.frame))
            self._connection.held_bytes -= len(request.frame)
            del self._waiting[request.producer_id]

    def _again(self, request: _Request, now_ns: int) -> None:
        """What a held request waited for has come."""
        if request.is_held and self._decide(request, now_ns):
            self._connection.forward(request.frame)

    def give_up(self, producer_id: int, now_ns: int) -> bool:
        """The client no longer wants a producer; True if it was held: the broker never hears of it."""
        request = self._waiting.get(producer_id)
        if request is None:
            return False
        if request.timer is not None:
            request.timer.cancel()
        gate = self._shared.gate(request.attach.topic, self._connection.exempt, now_ns)
        self._take_back(request, gate, now_ns)
        return True

    def closed(self, now_ns: int) -> None:
        """The connection is gone."""
        for producer_id in list(self._waiting):
            self.give_up(producer_id, now_ns)


def _stops(decision: Decision | None) -> TypeGuard[Decision]:
    return decision is not None and decision.action not in (Action.ALLOW, Action.REWRITE)
