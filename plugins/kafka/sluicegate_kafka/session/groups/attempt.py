"""The places on topics that one request asks for: subscriptions of a group, members that attach."""

from collections.abc import Collection
from typing import TypeAlias

from sluicegate.engine.gate import Gate
from sluicegate.model import Decision, Operation, OperationKind
from sluicegate.sessions.admission import Creation, depends_on_list
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.session.requests.connection import TOPICS_PER_SLICE, Connection, check_topics
from sluicegate_kafka.session.requests.sliced import Turn
from sluicegate_kafka.session.shared.listing import ListGroups
from sluicegate_kafka.session.shared.shared import Shared

DECIDED_PER_SLICE = 100
"""Topics with a gate that are decided in one slice, some 10 us each; as much as a group that is learned."""

Found: TypeAlias = Decision | ListGroups | None
"""Why a request is not forwarded, or what the broker must be asked first; None if it is admitted."""


class Attempt:
    """The places that one request needs, topic by topic. Deciding again resumes where it stopped.

    :param shared: the front's state.
    :param connection: where the request comes from.
    :param group: the group that needs a subscription to each topic.
    """

    __slots__ = ("_group", "_pending", "connection", "shared")

    timed_out = ""
    """The event that is counted when the request was held long enough."""

    def __init__(self, shared: Shared, connection: Connection, group: str) -> None:
        self.shared = shared
        self.connection = connection
        self._group = group
        self._pending: dict[str, Creation] = {}
        """What to withdraw if the request does not reach the broker, by topic."""

    def deciding(self, turn: Turn) -> Slices[Found]:
        """Take all missing places, in slices; None if all are taken."""
        raise NotImplementedError

    def refusing(self, decision: Decision, turn: Turn) -> Slices[None]:
        """The request is refused: release the places that it took, in slices."""
        self.withdraw(turn.now_ns)
        yield from ()

    def withdraw(self, now_ns: int) -> None:
        """The request is not forwarded: stop waiting."""
        for topic, place in self._pending.items():
            place.withdraw(self._gate(topic, now_ns), now_ns)
        self._pending.clear()

    def _compiling(self, topics: Collection[str], turn: Turn) -> Slices[None]:
        """Compile the gates of all topics in advance; in slices."""
        check_topics(len(topics))
        gates = self.shared.gates.exempt if self.connection.exempt else self.shared.gates.live
        left = TOPICS_PER_SLICE
        for topic in topics:
            if topic not in gates:
                self._gate(topic, turn.now_ns)
                left -= 1
                if not left:
                    left = TOPICS_PER_SLICE
                    yield

    def _work(self, topic: str, now_ns: int) -> int:
        """How long a topic takes to decide: 1, and 1 more for each group that must be learned first."""
        is_listed = depends_on_list(self._group, self._gate(topic, now_ns))
        return 1 + (self.shared.listing.count(topic) if is_listed else 0)

    def _create(self, place: Creation, gate: Gate, now_ns: int) -> Found:
        """Take the place of a subscription, once the broker has listed its groups if that is needed."""
        listing = self.shared.listing
        if place.lists_first(gate, listing, now_ns):
            return ListGroups()
        if depends_on_list(self._group, gate):
            listing.inform(gate.state)
        return place.decide_creation(gate, now_ns)

    def _gate(self, topic: str, now_ns: int) -> Gate:
        return self.shared.gate(topic, self.connection.exempt, now_ns)

    def _operation(self, kind: OperationKind, topic: str, consumer: str = "") -> Operation:
        names = (topic, self.connection.principal, self.connection.client)
        return Operation(kind, *names, subscription=self._group, consumer=consumer)
