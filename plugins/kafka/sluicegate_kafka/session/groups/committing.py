"""The subscriptions that a group creates when it commits offsets without members."""

from collections.abc import Collection, Sequence

from sluicegate.model import OperationKind
from sluicegate.sessions.admission import Creation
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.session.groups.attempt import DECIDED_PER_SLICE, Attempt, Found
from sluicegate_kafka.session.requests.connection import Connection
from sluicegate_kafka.session.requests.sliced import Turn
from sluicegate_kafka.session.shared.shared import Shared


class Commit(Attempt):
    """Creates a group's subscriptions to all topics of a commit, or to none.

    :param shared: the front's state.
    :param connection: where the group commits.
    :param group: the group.
    :param topics: all of them.
    """

    __slots__ = ("_count", "_topics")

    timed_out = "commit_hold_timed_out"

    def __init__(self, shared: Shared, connection: Connection, group: str, topics: Sequence[str]) -> None:
        super().__init__(shared, connection, group)
        self._topics = topics
        self._count = 0
        """Topics decided so far."""

    @property
    def is_new(self) -> bool:
        """Whether there is a topic on which the group had no subscription."""
        return bool(self._pending)

    def deciding(self, turn: Turn) -> Slices[Found]:
        """Take the places of the subscriptions."""
        yield from self._compiling(self._topics, turn)
        done = 0
        while self._count < len(self._topics):
            topic = self._topics[self._count]
            done += self._work(topic, turn.now_ns)
            place = self._pending.pop(topic, None)
            place = place or Creation(self._operation(OperationKind.CREATE_SUBSCRIPTION, topic))
            found = self._create(place, self._gate(topic, turn.now_ns), turn.now_ns)
            if found is not None or place.created:
                self._pending[topic] = place
            if found is not None:
                return found
            self._count += 1
            if done >= DECIDED_PER_SLICE:
                done = 0
                yield
        return None

    def answering(self, refused: Collection[str], now_ns: int) -> Slices[None]:
        """The broker has answered: undo the subscriptions to the topics that it refused, in slices."""
        for count, (topic, place) in enumerate(self._pending.items(), 1):
            gate = self._gate(topic, now_ns)
            if topic in refused:
                place.take_back(gate)
            else:
                place.confirmed(gate)
            if count % DECIDED_PER_SLICE == 0:
                yield
