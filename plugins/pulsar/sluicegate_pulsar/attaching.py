"""Producers that come and go: whether they may, and how they are counted."""

from collections import Counter
from collections.abc import Callable
from typing import TypeGuard

from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.errors import ProtocolError, ServerError
from sluicegate_pulsar.connection import Connection, Timer
from sluicegate_pulsar.producer import Producer
from sluicegate_pulsar.refusals import error, producer_refusal
from sluicegate_pulsar.shared import Shared
from sluicegate_pulsar.stream import NoRoomError

_TYPES = pb.BaseCommand.Type
_MAX_PRODUCERS = 10_000
"""Producers of one connection, those that wait to attach included."""


class _Waiting:
    """A PRODUCER that is held."""

    __slots__ = ("deadline_ns", "frame", "operation", "request_id", "timer")

    def __init__(self, frame: bytes, request_id: int, operation: Operation, deadline_ns: int) -> None:
        self.frame = frame
        self.request_id = request_id
        self.operation = operation
        self.deadline_ns = deadline_ns
        self.timer: Timer | None = None


class Attaching:
    """The producers of one connection.

    A producer counts under its name, which it keeps when it connects anew, so that it is not counted twice
    while its old connection has yet to end. Before it has a name it is this connection's.

    :param on_refused: called with a producer that the broker refused, once it is not counted, and the time.
    """

    __slots__ = ("_connection", "_on_refused", "_refs", "_shared", "_waiting", "live")

    def __init__(
        self, shared: Shared, connection: Connection, on_refused: Callable[[Producer, int], None]
    ) -> None:
        self._shared = shared
        self._connection = connection
        self._on_refused = on_refused
        self.live: dict[int, Producer] = {}
        """Those that the broker knows, or is about to."""
        self._waiting: dict[int, _Waiting] = {}
        self._refs: Counter[tuple[str, str]] = Counter()

    def attach(self, request: "pb.Producer", frame: bytes, now_ns: int) -> bool:
        """Decide a PRODUCER.

        :param request: the command.
        :param frame: all of it, to be kept if it has to wait.
        :return: True if it passes as it came.
        """
        request_id = request.request_id
        if request.producer_id in self.live:
            # The broker answers as it sees fit, and whatever it answers: the one that is open stays.
            return True
        if request.producer_id in self._waiting:
            self._refuse(request_id, ServerError.SERVICE_NOT_READY, "Producer is already waiting to attach")
            return False
        if len(self.live) + len(self._waiting) >= _MAX_PRODUCERS:
            text = f"Over {_MAX_PRODUCERS} producers on one connection"
            self._refuse(request_id, ServerError.NOT_ALLOWED_ERROR, text)
            return False
        try:
            topic = self._shared.full_name(request.topic)
        except ProtocolError as problem:
            text = f"Invalid topic name: {problem.reason}"
            self._refuse(request_id, ServerError.INVALID_TOPIC_NAME, text)
            return False
        operation = self._operation(request, topic)
        decision = self._shared.gate(topic, self._connection.exempt, now_ns).decide(operation, now_ns)
        if not _stops(decision):
            self._attached(request.producer_id, request_id, operation, now_ns)
            return True
        if decision.action is Action.DELAY:
            self._hold(request.producer_id, request_id, frame, operation, decision, now_ns)
        else:
            self._refuse(request_id, *producer_refusal(decision, topic))
        return False

    def _operation(self, request: "pb.Producer", topic: str) -> Operation:
        connection = self._connection
        name = request.producer_name
        return Operation(
            OperationKind.ATTACH_PRODUCER,
            topic,
            principal=connection.principal,
            client=connection.client,
            producer=f"name {name}" if name else f"id {request.producer_id} of {connection.client}",
        )

    def _attached(self, producer_id: int, request_id: int, operation: Operation, now_ns: int) -> None:
        operation.kind = OperationKind.PUBLISH
        gate = self._shared.gate(operation.topic, self._connection.exempt, now_ns)
        producer = self.live[producer_id] = Producer(producer_id, operation.topic, operation, gate)
        self._refs[operation.topic, operation.producer] += 1

        def on_response(response: pb.BaseCommand, now_ns: int) -> bool:
            if self.live.get(producer_id) is producer:
                if response.type == _TYPES.PRODUCER_SUCCESS:
                    self._named(producer, response.producer_success.producer_name, now_ns)
                else:
                    self.detach(producer, now_ns)
                    self._on_refused(producer, now_ns)
            return True

        self._connection.expect(request_id, on_response)

    def _named(self, producer: Producer, name: str, now_ns: int) -> None:
        """The broker has told a producer's name."""
        operation = producer.operation
        old, new = operation.producer, f"name {name}"
        if old == new:
            return
        state = self._shared.gate(producer.topic, self._connection.exempt, now_ns).state
        with state.lock:
            state.producers.rename(old, new)
        self._drop_ref(producer)
        self._refs[producer.topic, new] += 1
        operation.producer = new

    def detach(self, producer: Producer, now_ns: int) -> None:
        """A producer is gone; one that another of this connection shares its name with still counts."""
        del self.live[producer.id]
        if self._drop_ref(producer):
            gate = self._shared.gate(producer.topic, self._connection.exempt, now_ns)
            gate.detach(producer.operation)

    def _drop_ref(self, producer: Producer) -> bool:
        """Forget one use of a producer's name on this connection; True if it was the last."""
        key = (producer.topic, producer.operation.producer)
        self._refs[key] -= 1
        if self._refs[key] > 0:
            return False
        del self._refs[key]
        return True

    def _refuse(self, request_id: int, code: ServerError, text: str) -> None:
        self._connection.answer(error(request_id, code, text))

    # -- held ones ------------------------------------------------------------------------------------

    def _hold(
        self,
        producer_id: int,
        request_id: int,
        frame: bytes,
        operation: Operation,
        decision: Decision,
        now_ns: int,
    ) -> None:
        if not self._shared.budget.take(len(frame)):
            raise NoRoomError
        self._connection.held_bytes += len(frame)
        waiting = _Waiting(frame, request_id, operation, now_ns + self._shared.max_hold_ns)
        self._waiting[producer_id] = waiting
        self._ask_again(producer_id, waiting, decision, now_ns)

    def _ask_again(self, producer_id: int, waiting: _Waiting, decision: Decision, now_ns: int) -> None:
        at_ns = min(now_ns + decision.delay_ns, waiting.deadline_ns)
        waiting.timer = self._connection.at(
            max(at_ns, now_ns + 1), lambda now_ns: self._again(producer_id, waiting, now_ns)
        )

    def _again(self, producer_id: int, waiting: _Waiting, now_ns: int) -> None:
        operation = waiting.operation
        gate = self._shared.gate(operation.topic, self._connection.exempt, now_ns)
        decision = gate.decide(operation, now_ns)
        if not _stops(decision):
            self._release(producer_id)
            self._attached(producer_id, waiting.request_id, operation, now_ns)
            self._connection.forward(waiting.frame)
        elif decision.action is Action.DELAY and now_ns < waiting.deadline_ns:
            self._ask_again(producer_id, waiting, decision, now_ns)
        else:
            gate.abandon(operation, now_ns)
            self._release(producer_id)
            self._refuse(waiting.request_id, *producer_refusal(decision, operation.topic))

    def _release(self, producer_id: int) -> _Waiting:
        waiting = self._waiting.pop(producer_id)
        self._shared.budget.give(len(waiting.frame))
        self._connection.held_bytes -= len(waiting.frame)
        return waiting

    def give_up(self, producer_id: int, now_ns: int) -> bool:
        """The client no longer wants a producer; True if it was held: the broker never hears of it."""
        if producer_id not in self._waiting:
            return False
        waiting = self._release(producer_id)
        if waiting.timer is not None:
            waiting.timer.cancel()
        operation = waiting.operation
        gate = self._shared.gate(operation.topic, self._connection.exempt, now_ns)
        gate.abandon(operation, now_ns)
        return True

    def closed(self, now_ns: int) -> None:
        """The connection is gone, and all its producers with it."""
        for producer_id in list(self._waiting):
            self.give_up(producer_id, now_ns)
        for producer in list(self.live.values()):
            self.detach(producer, now_ns)


def _stops(decision: Decision | None) -> TypeGuard[Decision]:
    return decision is not None and decision.action not in (Action.ALLOW, Action.REWRITE)
