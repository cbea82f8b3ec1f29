"""The places on topics that one request asks for: subscriptions of a group, members that attach."""

from collections.abc import Callable, Collection
from functools import partial
from typing import ClassVar

from sluicegate.engine.gate import Gate
from sluicegate.engine.wait_queue import Hold
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.admission import Creation, depends_on_list, taking
from sluicegate.sessions.work import Turn, Work
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.requests.connection import TOPICS_PER_SLICE, Connection, check_topics
from sluicegate_kafka.session.requests.outcomes import Answer, Decided, Pass
from sluicegate_kafka.session.shared.listing import ListGroups
from sluicegate_kafka.session.shared.refusals import group_code
from sluicegate_kafka.session.shared.shared import Shared

DECIDED_PER_SLICE = 100
"""Topics with a gate that are decided in one slice, some 10 us each; as much as a group that is learned."""


class Attempt:
    """The places that one request needs, topic by topic.

    :param shared: the front's state.
    :param connection: where the request comes from.
    :param group: the group that needs a subscription to each topic.
    :param hold_ns: how long the request may be held in all; 0 for not at all.
    """

    __slots__ = ("_group", "_hold", "connection", "shared")

    timed_out: ClassVar[KafkaEvent]
    """The event that is counted when the request was held long enough."""

    def __init__(self, shared: Shared, connection: Connection, group: str, hold_ns: int) -> None:
        self.shared = shared
        self.connection = connection
        self._group = group
        self._hold = Hold(hold_ns)

    def taking(self, turn: Turn) -> Work[Decision | None]:
        """Take all missing places, waiting for each; the refusal, or None if all are taken."""
        raise NotImplementedError

    def refusing(self, decision: Decision) -> Slices[None]:
        """The request is refused: release the places that it took and does not keep, in slices."""
        yield from ()

    def admitting(
        self, turn: Turn, admitted: Callable[[], Pass], refusal: Callable[[int], bytes | Slices[bytes]]
    ) -> Work[Decided]:
        """Have a request forwarded or refused; what a handler returns.

        :param admitted: called right before it is forwarded to the broker; what that owes.
        :param refusal: makes the response to the client, by its error code; in slices if it may be long.
        """
        refused = yield from self.taking(turn)
        if refused is None:
            return admitted()
        if refused.action is Action.DELAY:
            self.shared.count(self.timed_out)
        yield from self.refusing(refused)
        response = refusal(group_code(refused, self.connection.software))
        if not isinstance(response, bytes):
            response = yield from response
        return Answer(response)

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

    def _cost(self, topic: str, now_ns: int) -> int:
        """How long a topic takes to decide: 1, and 1 more for each group that must be learned first."""
        is_listed = depends_on_list(self._group, self._gate(topic, now_ns))
        return 1 + (self.shared.learned.listing.count(topic) if is_listed else 0)

    def _placing(self, topic: str, place: Creation, turn: Turn) -> Work[Decision | None]:
        """Take a place, once the broker has listed its groups if that is needed, and others have left."""
        listing, gate = self.shared.learned.listing, partial(self._gate, topic)

        def decide(gate: Gate, now_ns: int) -> Decision | None:
            if depends_on_list(self._group, gate):
                listing.inform(gate.state)
            return self._decide(gate, place, now_ns)

        return taking(place, turn, self._hold, gate, decide, listing, ListGroups())

    def _decide(self, gate: Gate, place: Creation, now_ns: int) -> Decision | None:
        """Ask the gate for a place now; None if it is taken."""
        return place.decide_creation(gate, now_ns)

    def _gate(self, topic: str, now_ns: int) -> Gate:
        return self.shared.gate(topic, self.connection.exempt, now_ns)

    def _operation(self, kind: OperationKind, topic: str, consumer: str = "") -> Operation:
        names = (topic, self.connection.principal, self.connection.client)
        return Operation(kind, *names, subscription=self._group, consumer=consumer)
