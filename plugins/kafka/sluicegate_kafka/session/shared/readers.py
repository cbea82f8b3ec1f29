"""The readers of a topic, one per connection, and the group members that they may be."""

from collections.abc import Callable, Iterable
from typing import TypeAlias

from sluicegate.engine.gate import Gate
from sluicegate.model import Operation
from sluicegate_kafka.session.requests.connection import Connection, Identity
from sluicegate_kafka.session.shared.client_counts import Places, name_of

MemberKey = tuple[str, str]
"""Group and member id."""

_KIND = "fetch"
REVOKING_NS = 30_000_000_000
"""How long a member may still fetch what was taken from it."""


class Membership:
    """A group member that subscribes to a topic.

    :param connection: where it joined.
    :param key: its group and its name there.
    :param now_ns: monotonic time.
    :param give_way: releases the member of a key, which then has to join again.
    """

    __slots__ = (
        "_before",
        "_is_assigned",
        "begins_at",
        "connection",
        "give_way",
        "key",
        "partitions",
        "revoking_ns",
        "since_ns",
        "topic",
    )

    def __init__(
        self, connection: Connection, key: MemberKey, now_ns: int, give_way: Callable[[MemberKey], None]
    ) -> None:
        self.connection = connection
        self.key = key
        self.give_way = give_way
        self.since_ns = now_ns
        """Since when it may fetch: nothing that fetched before can be this member."""
        self.partitions: frozenset[int] | None = None
        """What it is assigned of the topic; None if that is not known."""
        self.begins_at: dict[int, int] = {}
        """Start offsets by partition, where its group has committed any."""
        self.revoking_ns = 0
        """Until when it may still fetch what it was assigned before."""
        self._before: frozenset[int] = frozenset()
        self._is_assigned = False

    def assign(self, partitions: frozenset[int] | None, now_ns: int) -> bool:
        """Take over a new assignment; returns whether anything changed."""
        if self._is_assigned and partitions == self.partitions:
            return False
        if not self.partitions:
            self.since_ns = now_ns
        elif partitions is not None and not self.partitions <= partitions:
            self._before = self.partitions
            self.revoking_ns = now_ns + REVOKING_NS
        self.partitions = partitions
        self._is_assigned = True
        return True

    def renamed(self, key: MemberKey) -> None:
        """The broker has given it its name."""
        self.key = key

    def has(self, partitions: frozenset[int]) -> bool:
        """Whether it is known to be assigned these partitions."""
        return self.partitions is not None and partitions <= self.partitions

    def may_fetch(self, partitions: frozenset[int] | None, now_ns: int) -> bool:
        """Whether it may fetch these partitions; None for unknown ones."""
        own = self.partitions
        if own is None or partitions is None or partitions <= own:
            return True
        return now_ns < self.revoking_ns and partitions <= own | self._before


Members: TypeAlias = dict[tuple[Connection, MemberKey], Membership]
"""Group members by where they joined and their keys."""


class Evidence:
    """What speaks for and against the members that a reader may be.

    :param members: the topic's group members among equal clients, as they are at any time.
    """

    __slots__ = ("_differs", "_matched_on", "_members", "partitions")

    def __init__(self, members: Members) -> None:
        self._members = members
        self.partitions: frozenset[int] | None = None
        """What the reader fetches; None if that is not known."""
        self._matched_on: frozenset[int] = frozenset()
        """What it is known to fetch since it was matched."""
        self._differs: frozenset[MemberKey] = frozenset()

    def fetches(self, partitions: frozenset[int], match: Membership | None, *, is_ambiguous: bool) -> bool:
        """Record what it fetches now; returns whether it may now match another member."""
        self.partitions = partitions
        if partitions <= self._matched_on or not self._members:
            return False
        if match is None or is_ambiguous or not match.has(partitions):
            return True
        # A client omits partitions that it has records of. Matching again each time would be too slow.
        self._matched_on |= partitions
        return False

    def began_at(self, offsets: Iterable[tuple[int, int]]) -> None:
        """Compare where it began with members' start offsets: those that agree are preferred.

        It is only a hint, as a client may begin elsewhere.

        :param offsets: partitions and offsets of its first Fetch.
        """
        members = [member for member in self._members.values() if member.begins_at]
        differs = {
            member.key
            for member in members
            if any(offset != member.begins_at.get(index, -1) >= 0 for index, offset in offsets)
        }
        agrees = {
            member.key
            for member in members
            if any(offset == member.begins_at.get(index, -1) for index, offset in offsets)
        }
        if agrees - differs:
            self._differs = frozenset(differs)

    def agrees_with(self, member: Membership) -> bool:
        """Whether it may stay matched with a member although another one fits better."""
        return member.key not in self._differs

    def matched(self) -> None:
        """It has been matched on what it fetches now."""
        self._matched_on = self.partitions or frozenset()


class Reader:
    """A connection that fetches a topic.

    :param connection: the connection.
    :param identity: its principal, host and client id.
    :param topic: the topic.
    :param members: the topic's group members among equal clients, as they are at any time.
    :param now_ns: monotonic time of its first Fetch.
    """

    __slots__ = (
        "attachment",
        "connection",
        "evidence",
        "first_ns",
        "former",
        "identity",
        "is_gone",
        "is_orphan",
        "match",
        "names",
        "number",
        "topic",
    )

    def __init__(
        self, connection: Connection, identity: Identity, topic: str, members: Members, now_ns: int
    ) -> None:
        self.connection = connection
        self.identity = identity
        self.topic = topic
        self.first_ns = now_ns
        self.evidence = Evidence(members)
        self.match: Membership | None = None
        """The member that it is matched with."""
        self.former: MemberKey | None = None
        """The member that it was matched with before."""
        self.is_orphan = False
        """True if that member's connection was lost: what is fetched is still for its group."""
        self.number = 0
        """Which of the equal clients without a group it is; 0 if it is matched with a member."""
        self.names: tuple[str, ...] = ()
        """The subscriptions that its Fetch may be for, the most likely one first."""
        self.attachment: tuple[Gate, Operation] | None = None
        """What it is counted as, if no group counts it."""
        self.is_gone = False
        """True once another replaced it; when it fetches again it counts as new."""

    @property
    def name(self) -> str:
        """The subscription that it counts under."""
        if self.match is not None:
            return self.match.key[0]
        if self.is_orphan and self.former is not None:
            return self.former[0]
        return self.own_name

    @property
    def own_name(self) -> str:
        """The name of a consumer without a group, which is a subscription of its own."""
        return name_of(_KIND, self.identity, self.number)

    @property
    def is_attached(self) -> bool:
        """Whether it is counted as a consumer without a group."""
        if self.attachment is None:
            return False
        gate, operation = self.attachment
        return gate.exempt or operation.consumer in gate.state.subscription("").consumers

    def fetches(self, partitions: frozenset[int]) -> bool:
        """Record what it fetches now; returns whether it may now match another member."""
        return self.evidence.fetches(partitions, self.match, is_ambiguous=len(self.names) > 1)

    def may_be(self, member: Membership | None) -> None:
        """Match it with a member, until others are matched; None for none."""
        self.match = member

    def matched(self) -> None:
        """The match is final for now."""
        self.evidence.matched()
        if self.match is not None:
            self.former, self.is_orphan = self.match.key, False

    def named(self, *names: str) -> None:
        """Record the subscriptions that its Fetch may be for."""
        self.names = names

    def lost(self, key: MemberKey) -> None:
        """A member's connection was lost."""
        self.is_orphan |= self.match is not None and self.match.key == key

    def returns(self, key: MemberKey) -> None:
        """A former member joins again: what is fetched meanwhile is for it, not for another consumer."""
        self.detach()
        self.former = key

    # -- without a group ---------------------------------------------------------------------------

    def take_place(self, places: "Places[Reader]") -> None:
        """Take a number among equal clients, unless it has one."""
        if self.number == 0:
            self.number = places.take(self.identity, self.topic, self.connection.node, self)

    def leave_place(self, places: "Places[Reader]") -> None:
        """Give the number back."""
        if self.number:
            places.leave(self.identity, self.topic, self.connection.node, self)
            self.number = 0

    def attached(self, gate: Gate, operation: Operation) -> None:
        """It is counted as a consumer without a group."""
        self.attachment = gate, operation

    def gives_way(self) -> None:
        """Another one replaces it, or it has left."""
        self.detach()
        self.is_gone = True

    def renumber(self, number: int) -> None:
        """Change the number, in the topic's state as well."""
        self.number = number
        if self.attachment is None:
            return
        gate, operation = self.attachment
        with gate.state.lock:
            gate.state.subscription("").consumers.move(operation.consumer, self.own_name, operation.client)
        operation.consumer = self.own_name

    def detach(self) -> None:
        """Stop counting it as a consumer without a group."""
        attachment, self.attachment = self.attachment, None
        if attachment is not None:
            gate, operation = attachment
            gate.detach(operation)
