"""A member that joins its group, or changes its subscribed topics."""

from collections.abc import Callable, Sequence

from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.admission import Admission
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.session.groups.attempt import DECIDED_PER_SLICE, Attempt, Found
from sluicegate_kafka.session.groups.joining import Joining
from sluicegate_kafka.session.requests.sliced import Turn
from sluicegate_kafka.session.shared.readers import MemberKey

_TOPIC_LIMIT = "max_consumers_per_topic"
_GROUP_LIMIT = "max_consumers_per_subscription"


class Join(Attempt):
    """Attaches a member to all its topics or to none; topics that it no longer names are detached.

    While it is held, the topics that it got so far stay attached: otherwise it could never attach to
    more topics than the attach rate admits at once. The client's next attempt keeps them too.

    :param joining: the members of its connection.
    :param key: its group, and its name there.
    :param topics: returns all topics that it subscribes to, or is assigned by a pattern.
    :param returns: True if it was a member before, so that what fetches for it is no other consumer.
    """

    __slots__ = ("_joining", "_key", "_returns", "_topics")

    timed_out = "join_hold_timed_out"

    def __init__(
        self, joining: Joining, key: MemberKey, topics: Callable[[], Sequence[str]], *, returns: bool
    ) -> None:
        super().__init__(joining.shared, joining.connection, key[0])
        self._joining = joining
        self._key = key
        self._topics = topics
        self._returns = returns

    def deciding(self, turn: Turn) -> Slices[Found]:
        """Attach the member to the topics that it lacks."""
        topics = self._topics()
        yield from self._compiling(topics, turn)
        begin = done = 0
        for end, topic in enumerate(topics):
            work = self._work(topic, turn.now_ns)
            done += work
            if done > DECIDED_PER_SLICE and end > begin:
                found = self._attach(topics[begin:end], turn.now_ns)
                if found is not None:
                    return found
                begin, done = end, work
                yield
        found = self._attach(topics, turn.now_ns)  # the rest, and places lost between two slices
        if found is None:
            yield from self._joining.joined(self._key, topics, turn)
        return found

    def refusing(self, decision: Decision, turn: Turn) -> Slices[None]:
        """Undo all that no forwarded join covers, and new subscriptions; those of a delayed join stay."""
        yield from super().refusing(decision, turn)
        if decision.action is not Action.DELAY:
            yield from self._joining.undoing(self._key)

    def _attach(self, topics: Sequence[str], now_ns: int) -> Found:
        """Attach the member to some of its topics; stops at the first that is refused or held."""
        attached = self._joining.know(self._key)
        for topic in topics:
            if topic in attached:
                continue
            if self._returns:
                self.shared.audiences.returns(self.connection, self._key, topic)
            gate = self._gate(topic, now_ns)
            place = self._place(topic)
            found = self._create(place, gate, now_ns)
            if found is None:
                self._make_room(gate, place.attach, now_ns)
                found = place.decide(gate, now_ns)
            if found is not None:
                self._pending[topic] = place
                return found
            self._pending.pop(topic, None)
            self._joining.attached(self._key, topic, gate, place)
        return None

    def _place(self, topic: str) -> Admission:
        """Its place on a topic, the same one while it waits."""
        place = self._pending.get(topic)
        if isinstance(place, Admission):
            return place
        return Admission(
            self._operation(OperationKind.ATTACH_CONSUMER, topic, "/".join(self._key)),
            self._operation(OperationKind.CREATE_SUBSCRIPTION, topic),
        )

    def _make_room(self, gate: Gate, operation: Operation, now_ns: int) -> None:
        """Release a silent member of an equal client, if the new one would be refused otherwise."""
        consumers = gate.state.subscription(operation.subscription).consumers
        if operation.consumer in consumers:
            return
        audiences, silence_ns = self.shared.audiences, self.shared.silence_ns
        if 0 < int(gate.policies.number(_GROUP_LIMIT)) <= len(consumers):
            group = operation.subscription
            audiences.make_room(self.connection, operation.topic, group, silence_ns, now_ns)
        elif 0 < int(gate.policies.number(_TOPIC_LIMIT)) <= gate.state.consumer_count:
            audiences.make_room(self.connection, operation.topic, None, silence_ns, now_ns)
