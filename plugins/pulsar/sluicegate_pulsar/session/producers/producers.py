"""The producers of one connection, and how they are counted."""

from collections import Counter

from sluicegate.model import Operation, OperationKind
from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.codec.frames import command_frame
from sluicegate_pulsar.session.producer_state.producer import Producer
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.shared.shared import Shared

_TYPES = pb.BaseCommand.Type


class Producers:
    """Those that the broker knows, or is about to.

    A producer counts under its name, which it keeps when it connects anew, so that it is not counted twice
    while its old connection has yet to end. Before it has a name it is this connection's.
    """

    __slots__ = ("_connection", "_refs", "_shared", "live")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self.live: dict[int, Producer] = {}
        """By id."""
        self._refs: Counter[tuple[str, str]] = Counter()

    def attach(self, producer_id: int, operation: Operation, now_ns: int) -> Producer:
        """Add a producer that its gate has let in.

        :param operation: by which it was let in; it is its SENDs' from here on.
        """
        operation.kind = OperationKind.PUBLISH
        gate = self._shared.gate(operation.topic, self._connection.exempt, now_ns)
        producer = self.live[producer_id] = Producer(producer_id, operation.topic, operation, gate)
        self._refs[operation.topic, operation.producer] += 1
        return producer

    def named(self, producer: Producer, name: str, now_ns: int) -> None:
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

    def close_at_broker(self, producer_id: int) -> None:
        """Have the broker forget a producer that the client does not have, or no more."""
        request_id = next(self._connection.own_ids)
        self._connection.expect(request_id, lambda response, now_ns: False)
        close = pb.CloseProducer(producer_id=producer_id, request_id=request_id)
        self._connection.forward(
            command_frame(pb.BaseCommand(type=_TYPES.CLOSE_PRODUCER, close_producer=close))
        )

    def _drop_ref(self, producer: Producer) -> bool:
        """Forget one use of a producer's name on this connection; True if it was the last."""
        key = (producer.topic, producer.operation.producer)
        self._refs[key] -= 1
        if self._refs[key] > 0:
            return False
        del self._refs[key]
        return True
