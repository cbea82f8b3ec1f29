"""The subscriptions that a group creates when it commits offsets without members."""

from collections.abc import Collection, Sequence

from sluicegate.model import Decision, OperationKind
from sluicegate.sessions.admission import Creation
from sluicegate.sessions.work import TURN, Turn, Work
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.groups.attempt import DECIDED_PER_SLICE, Attempt
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.shared.shared import Shared


class Commit(Attempt):
    """Creates a group's subscriptions to all topics of a commit, or to none.

    :param shared: the front's state.
    :param connection: where the group commits.
    :param group: the group.
    :param topics: all of them.
    """

    __slots__ = ("_created", "_topics")

    timed_out = KafkaEvent.COMMIT_HOLD_TIMED_OUT

    def __init__(self, shared: Shared, connection: Connection, group: str, topics: Sequence[str]) -> None:
        super().__init__(shared, connection, group, shared.limits.max_hold_ns)
        self._topics = topics
        self._created: dict[str, Creation] = {}
        """The subscriptions that it creates, by topic."""

    @property
    def is_new(self) -> bool:
        """Whether there is a topic on which the group had no subscription."""
        return bool(self._created)

    def taking(self, turn: Turn) -> Work[Decision | None]:
        """Take the places of the subscriptions."""
        yield from self._compiling(self._topics, turn)
        is_admitted = False
        try:
            done = 0
            for topic in self._topics:
                done += self._cost(topic, turn.now_ns)
                place = Creation(self._operation(OperationKind.CREATE_SUBSCRIPTION, topic))
                if (refused := (yield from self._placing(topic, place, turn))) is not None:
                    return refused
                if place.created:
                    self._created[topic] = place
                if done >= DECIDED_PER_SLICE:
                    done = 0
                    yield TURN
            is_admitted = True
            return None
        finally:
            for topic, place in () if is_admitted else self._created.items():
                place.withdraw(self._gate(topic, turn.now_ns), turn.now_ns)

    def settling(self, refused: Collection[str], now_ns: int) -> Slices[None]:
        """The broker has responded: undo the subscriptions to the topics that it refused, in slices."""
        for count, (topic, place) in enumerate(self._created.items(), 1):
            gate = self._gate(topic, now_ns)
            if topic in refused:
                place.take_back(gate)
            else:
                place.confirmed(gate)
            if count % DECIDED_PER_SLICE == 0:
                yield
