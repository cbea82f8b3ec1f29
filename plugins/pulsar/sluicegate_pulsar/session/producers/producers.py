"""The producers of one connection, and how they are counted."""

from collections import Counter

from sluicegate.model import Operation, OperationKind
from sluicegate_pulsar.codec.own_frames import close_producer
from sluicegate_pulsar.session.producer_state.lifecycle import Event
from sluicegate_pulsar.session.producer_state.producer import Producer
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.requests.handling import TAKEN
from sluicegate_pulsar.session.shared.shared import Shared


class Producers:
    """The producers that the broker knows, or is about to know.

    A producer counts under its name, which it keeps when it reconnects, so that it counts once while its old
    connection still exists. Before it has a name it counts for this connection.
    """

    __slots__ = ("_connection", "_refs", "_shared", "live")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self.live: dict[int, Producer] = {}
        """By id."""
        self._refs: Counter[tuple[str, str]] = Counter()

    def attach(self, producer_id: int, operation: Operation, now_ns: int) -> Producer:
        """Add a producer that its gate has admitted.

        :param operation: by which it was admitted; its SENDs reuse it.
        """
        operation.kind = OperationKind.PUBLISH
        gate = self._shared.gates.get(operation.topic, self._connection.client.exempt, now_ns)
        producer = self.live[producer_id] = Producer(producer_id, operation, gate)
        self._refs[operation.topic, operation.producer] += 1
        return producer

    def named(self, producer: Producer, name: str, now_ns: int) -> None:
        """The broker has returned a producer's name."""
        operation = producer.operation
        old, new = operation.producer, f"name {name}"
        if old == new:
            return
        state = self._shared.gates.get(producer.topic, self._connection.client.exempt, now_ns).state
        with state.lock:
            state.producers.rename(old, new, roams=True)
        self._drop_ref(producer)
        self._refs[producer.topic, new] += 1
        operation.producer = new

    def detach(self, producer: Producer, now_ns: int) -> None:
        """Release a producer, with the work that waits for it.

        Its name still counts if another one of this connection shares it.
        """
        producer.lifecycle.stop(now_ns)
        producer.lifecycle.happens(Event.ENDED)
        del self.live[producer.id]
        if self._drop_ref(producer):
            gate = self._shared.gates.get(producer.topic, self._connection.client.exempt, now_ns)
            gate.detach(producer.operation)

    def close_at_broker(self, producer_id: int) -> None:
        """Close a producer at the broker that the client does not have, or no longer has."""
        request_id = next(self._connection.requests.own_ids)
        self._connection.requests.expect(request_id, lambda response, now_ns: TAKEN)
        self._connection.send_up(close_producer(producer_id, request_id))

    def _drop_ref(self, producer: Producer) -> bool:
        """Forget one use of a producer's name on this connection; True if it was the last."""
        key = (producer.topic, producer.operation.producer)
        self._refs[key] -= 1
        if self._refs[key] > 0:
            return False
        del self._refs[key]
        return True
