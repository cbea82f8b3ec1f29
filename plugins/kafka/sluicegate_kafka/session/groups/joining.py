"""The group members on one connection: attaching them to topics, and taking that back."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate.sessions.admission import depends_on_list, exists
from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.assignments import Partitions
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.slices import Slices, at_once
from sluicegate_kafka.session.requests.connection import (
    MAX_TOPICS,
    TOPICS_PER_SLICE,
    Connection,
    check_topics,
)
from sluicegate_kafka.session.requests.sliced import Turn
from sluicegate_kafka.session.shared.readers import MemberKey
from sluicegate_kafka.session.shared.shared import Shared

_MAX_MEMBERS = 1_000
"""Group members on one connection; clients have one, but a client may name any number."""
_TOPIC_LIMIT = "max_consumers_per_topic"
_GROUP_LIMIT = "max_consumers_per_subscription"
DECIDED_PER_SLICE = 100
"""Topics with a gate that are decided in one slice, some 10 us each."""
_NOTED_PER_SLICE = 250
"""Topics of a member of which only something is noted, some 3 us each."""
_ACCEPTED = frozenset({errors.NONE, errors.MEMBER_ID_REQUIRED})

Attached = tuple[Gate, Operation]


class Joining:
    """Members that joined on one connection."""

    __slots__ = (
        "_added",
        "_attaching",
        "_connection",
        "_created",
        "_deadline_ns",
        "_members",
        "_shared",
        "gave_way",
        "unnamed",
    )

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._members: dict[MemberKey, dict[str, Attached]] = {}
        self._attaching: dict[tuple[MemberKey, str], Operation] = {}
        self._created: dict[tuple[MemberKey, str], Attached] = {}
        """Subscriptions that the gate let in and the broker has not confirmed yet."""
        self.gave_way: set[MemberKey] = set()
        """Members that were silent, and gave way to others; when they speak they have to join again."""
        self.unnamed: set[MemberKey] = set()
        """Members that the broker has been asked to admit and to name."""
        self._added: list[str] = []
        """Topics that the join at hand has attached its member to so far."""
        self._deadline_ns = 0
        """Until when the join at hand may be held; 0 if it is not."""

    def __contains__(self, key: MemberKey) -> bool:
        """Whether a member is known here."""
        return key in self._members

    def topics(self, key: MemberKey) -> Mapping[str, Attached]:
        """What a member is attached to."""
        return self._members.get(key, {})

    def check_name(self, key: MemberKey) -> None:
        """Refuse a join that has the key of another one, which the broker has not named yet.

        :raises ProtocolError: if it has; no client joins a group twice at once.
        """
        if key in self.unnamed:
            raise ProtocolError("a second join without a member id while one is under way")

    def compiling(self, topics: Collection[str], turn: Turn) -> Slices[None]:
        """See to it that all these topics have gates, so that asking them takes little; in slices."""
        gates = self._shared.gates.exempt if self._connection.exempt else self._shared.gates.live
        left = TOPICS_PER_SLICE
        for topic in topics:
            if topic in gates:
                continue
            if not left:
                left = TOPICS_PER_SLICE
                yield
            left -= 1
            self._gate(topic, turn.now_ns)

    def attaching(
        self, key: MemberKey, topics: Sequence[str], turn: Turn, *, returns: bool
    ) -> Slices[Decision | None]:
        """Attach a member to all its topics or to none; topics that it no longer names are detached.

        Where it is to be held, the topics that it got so far stay attached: it would never get more than the
        rate of attaching lets through at once if it had to begin again each time. Nor does the client's next
        attempt.

        :param key: its group, and its name there.
        :param topics: all that it subscribes to, or is assigned by a pattern.
        :param turn: tells the time of each slice.
        :param returns: True if it was a member before, so that what fetches for it is no other consumer.
        :return: why it may not; None if it may.
        """
        for some in _portions(topics):
            decision = self._attach_some(key, some, turn.now_ns, returns=returns)
            if decision is not None:
                break
            if some[-1] != topics[-1]:
                yield
        else:  # what gave way to another one between two slices is attached again
            decision = self._attach_some(key, topics, turn.now_ns, returns=returns)
        if decision is not None:
            if decision.action is not Action.DELAY:
                yield from self._undoing(key)
            return decision
        self.settled()
        self.gave_way.discard(key)
        named = set(topics)
        yield from self._detaching(key, [topic for topic in self._topics_of(key) if topic not in named])
        joined = self._shared.audiences.joining(self._connection, key, named, turn.now_ns, self._give_way)
        yield from noted(joined)
        return None

    def _attach_some(
        self, key: MemberKey, topics: Iterable[str], now_ns: int, *, returns: bool
    ) -> Decision | None:
        """Attach a member to some of its topics; parameters as for `attaching`.

        :return: why it may not have the first that it cannot have; None if it has all.
        """
        attached = self._topics_of(key)
        for topic in topics:
            if topic in attached:
                continue
            if returns:
                self._shared.audiences.returns(self._connection, key, topic)
            decision = self._attach_one(topic, key, attached, now_ns)
            if decision is None:
                self._added.append(topic)
                continue
            return decision
        return None

    def know(self, key: MemberKey) -> None:
        """Keep a member, even if it is attached to nothing yet.

        :raises ProtocolError: if there are too many on this connection.
        """
        self._topics_of(key)

    def hold_until(self, decision: Decision, now_ns: int) -> int:
        """When to ask again for the join at hand; 0 if it was held long enough."""
        if not self._deadline_ns:
            self._deadline_ns = now_ns + self._shared.max_hold_ns
        if now_ns >= self._deadline_ns:
            self.settled()
            self._shared.count("join_hold_timed_out")
            return 0
        return min(now_ns + decision.delay_ns, self._deadline_ns)

    def settled(self) -> None:
        """The join at hand goes on or was answered."""
        self._added.clear()
        self._deadline_ns = 0

    def settling(self, key: MemberKey, error: int, member: str) -> Slices[MemberKey]:
        """The broker has answered: keep the member under the name it goes by, or let it go; in slices.

        :return: the key by which it goes on.
        """
        self.unnamed.discard(key)
        if error not in _ACCEPTED:
            yield from self.leaving(key)
            return key
        if error == errors.NONE:
            yield from self.confirming(key)
        if not member or member == key[1] or key not in self._members:
            return key
        renamed = (key[0], member)
        attached = self._members[renamed] = self._members.pop(key)
        for count, (topic, (gate, operation)) in enumerate(tuple(attached.items()), 1):
            if count % _NOTED_PER_SLICE == 0:
                yield
            consumers = gate.state.subscription(key[0]).consumers
            with gate.state.lock:
                consumers.rename(operation.consumer, "/".join(renamed))
            operation.consumer = "/".join(renamed)
            created = self._created.pop((key, topic), None)
            if created is not None:
                self._created[renamed, topic] = created
        yield from noted(self._shared.audiences.renaming(self._connection, key, renamed))
        return renamed

    def confirming(self, key: MemberKey) -> Slices[None]:
        """The broker has taken a member: its subscriptions exist from now on; in slices."""
        if self._created:
            for count, topic in enumerate(tuple(self.topics(key)), 1):
                self._created.pop((key, topic), None)
                if count % _NOTED_PER_SLICE == 0:
                    yield

    def assigning(self, key: MemberKey, partitions: Partitions | None, now_ns: int) -> Slices[None]:
        """A member is told what it may fetch; None if the gate cannot read that. In slices."""
        return noted(self._shared.audiences.assigning(self._connection, key, partitions, now_ns))

    def asking(self, group: str, topics: Collection[str], turn: Turn) -> Slices[bool]:
        """Whether the broker must be asked which groups exist before any topic could refuse this one.

        In slices, of which the first ones compile the gates that there are not.
        """
        check_topics(len(topics))
        yield from self.compiling(topics, turn)
        listing = self._shared.listing
        for asked, topic in enumerate(topics, 1):
            if asked % _NOTED_PER_SLICE == 0:
                yield
            now_ns = turn.now_ns
            gate = self._gate(topic, now_ns)
            if not depends_on_list(group, gate):
                continue
            if not listing.fresh(now_ns):
                return True
            listing.inform(gate.state)
        return False

    def subscribe(self, topic: str, group: str, now_ns: int) -> tuple[Decision | None, Attached | None]:
        """Let a group have a subscription.

        :return: why it may not, or None; and what to detach if the broker refuses it, None if it was there.
        """
        gate = self._gate(topic, now_ns)
        existed = exists(group, gate.state)
        operation = self._operation(OperationKind.CREATE_SUBSCRIPTION, topic, group)
        decision = gate.decide(operation, now_ns)
        return decision, None if existed or decision is not None else (gate, operation)

    def detach(self, key: MemberKey) -> None:
        """A member is gone."""
        at_once(self.leaving(key))

    def leaving(self, key: MemberKey) -> Slices[None]:
        """A member is gone; in slices."""
        yield from self._detaching(key, tuple(self.topics(key)))
        if self._members.pop(key, None) is not None:
            yield from noted(self._shared.audiences.leaving(self._connection, key))

    def _detaching(self, key: MemberKey, topics: Sequence[str]) -> Slices[None]:
        """Detach a member from some of its topics."""
        for count, topic in enumerate(topics, 1):
            if topic in self.topics(key):
                self._detach_topic(key, topic)
            if count % DECIDED_PER_SLICE == 0:
                yield

    def parting(self) -> Slices[None]:
        """The connection is gone, and its members with it."""
        yield from noted(self._shared.audiences.forgetting(self._connection))
        for key in tuple(self._members):
            yield from self.leaving(key)
        while self._created:  # of a member that was about to be renamed
            for _ in range(min(DECIDED_PER_SLICE, len(self._created))):
                _, (gate, operation) = self._created.popitem()
                gate.detach(operation)
            yield

    def _topics_of(self, key: MemberKey) -> dict[str, Attached]:
        """What a member is attached to; nothing yet if it is new."""
        attached = self._members.get(key)
        if attached is None:
            if len(self._members) + len(self.gave_way) >= _MAX_MEMBERS:
                raise ProtocolError(f"more than {_MAX_MEMBERS} group members on one connection")
            if sum(map(len, self._members.values())) > MAX_TOPICS:
                raise ProtocolError(f"group members for more than {MAX_TOPICS} topics on one connection")
            attached = self._members[key] = {}
        return attached

    def _attach_one(
        self, topic: str, key: MemberKey, attached: dict[str, Attached], now_ns: int
    ) -> Decision | None:
        decision, created = self.subscribe(topic, key[0], now_ns)
        if decision is not None:
            return decision
        if created is not None:
            self._created[key, topic] = created
        gate = self._gate(topic, now_ns)
        # One that is held is asked again as the same operation, or it would be counted as another.
        operation = self._attaching.pop((key, topic), None)
        if operation is None:
            operation = self._operation(OperationKind.ATTACH_CONSUMER, topic, key[0])
            operation.consumer = "/".join(key)
        self._make_room(gate, operation, now_ns)
        decision = gate.decide(operation, now_ns)
        if decision is not None and decision.action is Action.DELAY:
            self._attaching[key, topic] = operation
        if decision is None:
            attached[topic] = (gate, operation)
        else:
            self._take_back(key, topic)
        return decision

    def _make_room(self, gate: Gate, operation: Operation, now_ns: int) -> None:
        """Have a silent member of an equal client give way, if the new one would be refused otherwise."""
        consumers = gate.state.subscription(operation.subscription).consumers
        if operation.consumer in consumers:
            return
        audiences, silence_ns = self._shared.audiences, self._shared.silence_ns
        if 0 < int(gate.policies.number(_GROUP_LIMIT)) <= len(consumers):
            group = operation.subscription
            audiences.make_room(self._connection, operation.topic, group, silence_ns, now_ns)
        elif 0 < int(gate.policies.number(_TOPIC_LIMIT)) <= gate.state.consumer_count:
            audiences.make_room(self._connection, operation.topic, None, silence_ns, now_ns)

    def _give_way(self, key: MemberKey) -> None:
        self.detach(key)
        self.gave_way.add(key)

    def _undoing(self, key: MemberKey) -> Slices[None]:
        """The join at hand is refused: it leaves nothing attached, and no subscription of its making."""
        yield from self._detaching(key, tuple(self._added))
        if not self.topics(key):
            self._members.pop(key, None)
        self.settled()

    def _take_back(self, key: MemberKey, topic: str) -> None:
        """A subscription that was let in for a member does not come to be."""
        created = self._created.pop((key, topic), None)
        if created is not None:
            gate, operation = created
            gate.detach(operation)

    def _detach_topic(self, key: MemberKey, topic: str) -> None:
        gate, operation = self._members[key].pop(topic)
        gate.detach(operation)
        self._take_back(key, topic)

    def _gate(self, topic: str, now_ns: int) -> Gate:
        return self._shared.gate(topic, self._connection.exempt, now_ns)

    def _operation(self, kind: OperationKind, topic: str, group: str) -> Operation:
        connection = self._connection
        return Operation(
            kind, topic, principal=connection.principal, client=connection.client, subscription=group
        )


def _portions(topics: Sequence[str]) -> Iterator[Sequence[str]]:
    """Topics of a member, so many as are attached in one slice."""
    for start in range(0, len(topics), DECIDED_PER_SLICE):
        yield topics[start : start + DECIDED_PER_SLICE]


def noted(each: Iterator[None]) -> Slices[None]:
    """Note something of one topic after the other, many in each slice."""
    for count, _ in enumerate(each, 1):
        if count % _NOTED_PER_SLICE == 0:
            yield
