"""Producers without a producer id: each is identified by its client."""

from collections.abc import Callable

from sluicegate.engine.gate import Gate
from sluicegate.engine.state import TopicState
from sluicegate.model import Operation
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.shared.client_counts import Places, name_of

_KIND = "client"
_LIMIT = "max_producers_per_topic"


class PlainProducer:
    """One such producer on one topic, as one connection knows it.

    :param connection: where it publishes.
    :param operation: counted as its producer.
    :param state: the state of its topic.
    :param give_way: detaches it at a monotonic time; it counts as new when it publishes again.
    """

    __slots__ = ("_identity", "_operation", "_state", "connection", "give_way")

    def __init__(
        self, connection: Connection, operation: Operation, state: TopicState, give_way: Callable[[int], None]
    ) -> None:
        self.connection = connection
        self.give_way = give_way
        self._operation = operation
        self._identity = connection.identity
        self._state = state

    def renumber(self, number: int) -> None:
        """Change the number, in the topic's state as well."""
        operation, state = self._operation, self._state
        name = name_of(_KIND, self._identity, number)
        with state.lock:
            state.producers.move(operation.producer, name, operation.client)
        operation.producer = name

    def leave(self, places: "Places[PlainProducer]") -> None:
        """Release its place."""
        places.leave(self._identity, self._operation.topic, self.connection.node, self)


class PlainProducers:
    """All of them on one front.

    :param silence_ns: how long a client may be silent before an equal one may replace it.
    """

    def __init__(self, silence_ns: int) -> None:
        self._silence_ns = silence_ns
        self._places: Places[PlainProducer] = Places()

    def next_name(self, connection: Connection, topic: str) -> str:
        """The counted identity that a new one of a connection would get."""
        identity = connection.identity
        return name_of(_KIND, identity, len(self._places.at(identity, topic, connection.node)) + 1)

    def make_room(self, connection: Connection, gate: Gate, topic: str, now_ns: int) -> None:
        """Release a silent equal at the same node, if a new one of this connection would be refused.

        A client must not be refused because of its own broken connection.
        """
        limit = int(gate.policies_for(connection.principal, connection.client).number(_LIMIT))
        counted = gate.state.producers
        if not 0 < limit <= len(counted) or self.next_name(connection, topic) in counted:
            return
        equals = self._places.at(connection.identity, topic, connection.node)
        silent = [each for each in equals if each.connection.is_silent(now_ns, self._silence_ns)]
        if silent:
            min(silent, key=lambda each: each.connection.last_ns()).give_way(now_ns)

    def admitted(self, producer: PlainProducer, connection: Connection, topic: str) -> None:
        """A new one was admitted under its counted identity."""
        self._places.take(connection.identity, topic, connection.node, producer)

    def left(self, producer: PlainProducer) -> None:
        """One was detached."""
        producer.leave(self._places)
