"""The group members on one connection: attaching them to topics, and taking that back."""

from collections.abc import Collection, Iterable, Mapping

from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.assignments import Partitions
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.connection import MAX_TOPICS, Connection, check_topics
from sluicegate_kafka.readers import MemberKey
from sluicegate_kafka.shared import Shared

_MAX_MEMBERS = 1_000
"""Group members on one connection; clients have one, and everyone may name as many groups as he likes."""
_TOPIC_LIMIT = "max_consumers_per_topic"
_GROUP_LIMIT = "max_consumers_per_subscription"
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

    def attach(
        self, key: MemberKey, topics: Collection[str], now_ns: int, *, returns: bool
    ) -> Decision | None:
        """Attach a member to all its topics or to none; topics that it no longer names are detached.

        Where it is to be held, the topics that it got so far stay attached: it would never get more than the
        rate of attaching lets through at once if it had to begin again each time. Nor does the client's next
        attempt.

        :param key: its group, and its name there.
        :param topics: all that it subscribes to, or is assigned by a pattern.
        :param now_ns: monotonic time.
        :param returns: True if it was a member before, so that what fetches for it is no other consumer.
        :return: why it may not; None if it may.
        """
        decision = self.attach_some(key, topics, now_ns, returns=returns)
        if decision is not None:
            return decision
        attached = self._topics_of(key)
        self.settled()
        for topic in set(attached) - set(topics):
            self._detach_topic(key, topic)
        self._shared.audiences.joined(self._connection, key, topics, now_ns, self._give_way)
        self.gave_way.discard(key)
        return None

    def attach_some(
        self, key: MemberKey, topics: Iterable[str], now_ns: int, *, returns: bool
    ) -> Decision | None:
        """Attach a member to some of its topics, before `attach` is called with all; parameters as there.

        :return: why it may not; those that it got so far are detached then, unless it is to be held.
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
            if decision.action is not Action.DELAY:
                self._undo(key)
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

    def settle(self, key: MemberKey, error: int, member: str) -> MemberKey:
        """The broker has answered: keep the member under the name it goes by, or let it go.

        :return: the key by which it goes on.
        """
        self.unnamed.discard(key)
        if error not in _ACCEPTED:
            self.detach(key)
            return key
        if error == errors.NONE:
            self.confirm(key)
        if not member or member == key[1] or key not in self._members:
            return key
        renamed = (key[0], member)
        attached = self._members[renamed] = self._members.pop(key)
        for topic, (gate, operation) in attached.items():
            consumers = gate.state.subscription(key[0]).consumers
            with gate.state.lock:
                consumers.rename(operation.consumer, "/".join(renamed))
            operation.consumer = "/".join(renamed)
            created = self._created.pop((key, topic), None)
            if created is not None:
                self._created[renamed, topic] = created
        self._shared.audiences.renamed(self._connection, key, renamed)
        return renamed

    def confirm(self, key: MemberKey) -> None:
        """The broker has taken a member: its subscriptions exist from now on."""
        if self._created:
            for topic in self.topics(key):
                self._created.pop((key, topic), None)

    def assigned(self, key: MemberKey, partitions: Partitions | None, now_ns: int) -> None:
        """A member is told what it may fetch; None if the gate cannot read that."""
        self._shared.audiences.assigned(self._connection, key, partitions, now_ns)

    def must_ask(self, group: str, topics: Collection[str], now_ns: int) -> bool:
        """Whether the broker must be asked which groups exist before any topic could refuse this one."""
        check_topics(len(topics))
        listing = self._shared.listing
        for topic in topics:
            gate = self._gate(topic, now_ns)
            known = gate.state.subscriptions.get(group)
            if (known is not None and known.exists) or not gate.asks(OperationKind.CREATE_SUBSCRIPTION):
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
        known = gate.state.subscriptions.get(group)
        existed = known is not None and known.exists
        operation = self._operation(OperationKind.CREATE_SUBSCRIPTION, topic, group)
        decision = gate.decide(operation, now_ns)
        return decision, None if existed or decision is not None else (gate, operation)

    def detach(self, key: MemberKey) -> None:
        """A member is gone."""
        for topic in list(self.topics(key)):
            self._detach_topic(key, topic)
        if self._members.pop(key, None) is not None:
            self._shared.audiences.left(self._connection, key)

    def closed(self) -> None:
        """The connection is gone, and its members with it."""
        self._shared.audiences.forget(self._connection)
        for key in list(self._members):
            self.detach(key)

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

    def _undo(self, key: MemberKey) -> None:
        """The join at hand is refused: it leaves nothing attached, and no subscription of its making."""
        for topic in self._added:
            self._detach_topic(key, topic)
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
