"""A member that joins its group, or changes its subscribed topics."""

from collections.abc import Callable, Sequence

from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.admission import Admission, Creation
from sluicegate.sessions.work import TURN, Turn, Work
from sluicegate_kafka.codec.slices import Slices
from sluicegate_kafka.events import KafkaEvent
from sluicegate_kafka.session.groups.attempt import DECIDED_PER_SLICE, Attempt
from sluicegate_kafka.session.groups.joining import Joining
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
    :param hold_ns: how long it may be held in all; 0 for not at all.
    """

    __slots__ = ("_joining", "_key", "_returns", "_topics")

    timed_out = KafkaEvent.JOIN_HOLD_TIMED_OUT

    def __init__(
        self,
        joining: Joining,
        key: MemberKey,
        topics: Callable[[], Sequence[str]],
        *,
        returns: bool,
        hold_ns: int,
    ) -> None:
        super().__init__(joining.shared, joining.connection, key[0], hold_ns)
        self._joining = joining
        self._key = key
        self._topics = topics
        self._returns = returns

    def taking(self, turn: Turn) -> Work[Decision | None]:
        """Attach the member to the topics that it lacks."""
        yield from self._compiling(self._topics(), turn)
        done = 0
        while lacking := self._lacking():  # again for places that were lost while it waited
            for topic in lacking:
                cost = self._cost(topic, turn.now_ns)
                if done + cost > DECIDED_PER_SLICE and done:
                    done = 0
                    yield TURN
                done += cost
                if (refused := (yield from self._attaching(topic, turn))) is not None:
                    return refused
        yield from self._joining.joined(self._key, self._topics(), turn)
        return None

    def refusing(self, decision: Decision) -> Slices[None]:
        """Undo all that no forwarded join covers, and new subscriptions; those of a delayed join stay."""
        if decision.action is not Action.DELAY:
            yield from self._joining.undoing(self._key)

    def _lacking(self) -> Sequence[str]:
        attached = self._joining.know(self._key)
        return [topic for topic in self._topics() if topic not in attached]

    def _attaching(self, topic: str, turn: Turn) -> Work[Decision | None]:
        """Attach the member to a topic."""
        if self._returns:
            self.shared.audiences.returns(self.connection, self._key, topic)
        attach = self._operation(OperationKind.ATTACH_CONSUMER, topic, "/".join(self._key))
        attach.roams = self._key not in self._joining.unnamed
        place = Admission(attach, self._operation(OperationKind.CREATE_SUBSCRIPTION, topic))
        refused = yield from self._placing(topic, place, turn)
        if refused is None:
            self._joining.know(self._key)
            self._joining.attached(self._key, topic, self._gate(topic, turn.now_ns), place)
        return refused

    def _decide(self, gate: Gate, place: Creation, now_ns: int) -> Decision | None:
        refused = place.decide_creation(gate, now_ns)
        if refused is None and isinstance(place, Admission):
            self._make_room(gate, place.attach, now_ns)
            refused = place.decide(gate, now_ns)
        return refused

    def _make_room(self, gate: Gate, operation: Operation, now_ns: int) -> None:
        """Release a silent member of an equal client, if the new one would be refused otherwise."""
        consumers = gate.state.subscription(operation.subscription).consumers
        if operation.consumer in consumers:
            return
        audiences, silence_ns = self.shared.audiences, self.shared.limits.silence_ns
        group = operation.subscription
        policies = gate.policies_for(operation.principal, operation.client, group)
        if 0 < int(policies.number(_GROUP_LIMIT)) <= len(consumers):
            audiences.make_room(self.connection, operation.topic, group, silence_ns, now_ns)
        elif 0 < int(policies.number(_TOPIC_LIMIT)) <= gate.state.consumer_count:
            audiences.make_room(self.connection, operation.topic, None, silence_ns, now_ns)
