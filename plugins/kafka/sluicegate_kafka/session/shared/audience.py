"""Matches the readers of a topic with group members, one to one.

A Fetch does not say for which group it is. Among clients of equal principal, host and client id each reader
at a node is matched with a member: only with one that was assigned the fetched partitions before the reader
began. Readers beyond the members are consumers without a group. If equals cannot be distinguished, any
matching at one node is as right as another. Over several nodes it is not, as nothing links a client's
connections: what then stays ambiguous is limited by every subscription that it may be for.
"""

from collections import Counter
from collections.abc import Iterator

from sluicegate.engine.gate import Gate
from sluicegate_kafka.session.requests.connection import Connection, Identity
from sluicegate_kafka.session.shared.client_counts import Places, name_of
from sluicegate_kafka.session.shared.readers import Members, Membership, Reader

_NEVER = 1 << 62
_SWAPPING = 64
"""Up to so many members of one audience, others are matched again so that one more finds a match."""
_COMPARED = 64
"""Readers at one node that are compared with each other."""
_COMPARISONS = 20_000
"""Readers with members that are compared in one go, some 0.5 us each."""
_PAUSE_NS = 1_000_000_000
"""When a match goes on that took more comparisons."""
_CONSUMERS = "max_consumers_per_topic"


class Audience:
    """Readers and members of one topic among equal clients.

    :param identity: their principal, host and client id.
    :param topic: the topic.
    :param places: numbers of those without a group.
    """

    __slots__ = (
        "_again_ns",
        "_is_stale",
        "_joined_at",
        "_left",
        "_places",
        "identity",
        "members",
        "nodes",
        "topic",
    )

    def __init__(self, identity: Identity, topic: str, places: Places[Reader]) -> None:
        self.identity = identity
        self.topic = topic
        self._places = places
        self.members: Members = {}
        self.nodes: dict[str, list[Reader]] = {}
        self._joined_at: set[Connection] = set()
        """Connections on which there are members; for the time of a match."""
        self._left = 0
        """Comparisons that are left; without, other readers keep the match that they have."""
        self._is_stale = True
        self._again_ns = _NEVER

    @property
    def is_empty(self) -> bool:
        """Whether there is neither a reader nor a member."""
        return not self.members and not self.nodes

    @property
    def readers(self) -> Iterator[Reader]:
        """All readers."""
        for readers in self.nodes.values():
            yield from readers

    def changed(self) -> None:
        """Something has changed: match again before the next look-up."""
        self._is_stale = True

    def add(self, reader: Reader) -> None:
        """A connection fetches the topic."""
        self.nodes.setdefault(reader.connection.node, []).append(reader)
        self.changed()

    def remove(self, reader: Reader) -> None:
        """A reader has left."""
        node = reader.connection.node
        readers = self.nodes.get(node, [])
        if reader not in readers:
            return
        readers.remove(reader)
        if not readers:
            del self.nodes[node]
        reader.gives_way()
        reader.leave_place(self._places)
        self.changed()

    def make_room(self, reader: Reader, gate: Gate, silence_ns: int, now_ns: int) -> None:
        """Release a silent equal at the same node, if the reader would be refused otherwise."""
        connection = reader.connection
        limit = int(gate.policies_for(connection.principal, connection.client).number(_CONSUMERS))
        state = gate.state
        if not 0 < limit <= state.consumer_count or reader.own_name in state.subscription("").consumers:
            return
        silent = [
            each
            for each in self.nodes.get(reader.connection.node, ())
            if each is not reader and each.connection.is_silent(now_ns, silence_ns)
        ]
        if silent:
            self.remove(min(silent, key=lambda each: each.connection.last_ns()))
            self.settle(now_ns)

    def settle(self, now_ns: int) -> None:
        """Match readers with members, if anything has changed."""
        if not self._is_stale and now_ns < self._again_ns:
            return
        self._is_stale = False
        revoking = [member.revoking_ns for member in self.members.values()]
        self._again_ns = min((at_ns for at_ns in revoking if at_ns > now_ns), default=_NEVER)
        self._joined_at = {member.connection for member in self.members.values()}
        self._left = _COMPARISONS
        for readers in self.nodes.values():
            self._match(readers, now_ns)
        if self._left <= 0:
            self._again_ns = min(self._again_ns, now_ns + _PAUSE_NS)
        for reader in self.readers:
            reader.named(reader.name)
        if len(self.nodes) > 1:
            self._name_alternatives(now_ns)

    def _match(self, readers: list[Reader], now_ns: int) -> None:
        """Match the readers at one node; valid matches are kept."""
        members = set(self.members.values())
        taken: dict[Membership, Reader] = {}
        for reader in readers:
            kept = reader.match
            if kept in members and kept not in taken and self._may_be(reader, kept, now_ns):
                taken[kept] = reader
            else:
                reader.may_be(None)
        for reader in readers:
            if reader.match is None:
                self._find(reader, taken, set(), now_ns)
        for reader in readers:
            reader.matched()
            if reader.match is not None:
                reader.detach()
                reader.leave_place(self._places)
            else:
                reader.take_place(self._places)

    def _find(
        self, reader: Reader, taken: dict[Membership, Reader], tried: set[Membership], now_ns: int
    ) -> bool:
        """Find a member for a reader, by matching others again if need be (Kuhn's algorithm)."""
        if self._left <= 0:
            return False
        self._left -= len(self.members)
        possible = [
            member
            for member in self.members.values()
            if member not in tried and self._may_be(reader, member, now_ns)
        ]
        possible.sort(key=reader.evidence.agrees_with, reverse=True)
        # Prefer a free member: a client that moves to another subscription gets one more burst.
        match = next((member for member in possible if member not in taken), None)
        if match is None and len(self.members) <= _SWAPPING:
            for member in possible:
                tried.add(member)
                if self._find(taken[member], taken, tried, now_ns):
                    match = member
                    break
        if match is None:
            return False
        taken[match] = reader
        reader.may_be(match)
        return True

    def _may_be(self, reader: Reader, member: Membership, now_ns: int) -> bool:
        """Whether a reader may be a member, as far as is known."""
        if member.connection is reader.connection:
            return True
        if reader.connection in self._joined_at:
            return False
        began_before = reader.first_ns < member.since_ns
        was_of_group = reader.former is not None and reader.former[0] == member.key[0]
        if began_before and not was_of_group:
            return False
        return member.may_fetch(reader.evidence.partitions, now_ns)

    def _name_alternatives(self, now_ns: int) -> None:
        """Give each reader all the subscriptions that its Fetch may be for."""
        since: dict[int, int] = {}
        for reader in self.readers:
            if reader.number:
                since[reader.number] = min(since.get(reader.number, _NEVER), reader.first_ns)
        lone = {name_of("fetch", self.identity, number): first_ns for number, first_ns in since.items()}
        groups: dict[str, list[Membership]] = {}
        for member in self.members.values():
            groups.setdefault(member.key[0], []).append(member)
        capacity = Counter({group: len(members) for group, members in groups.items()})
        capacity.update(dict.fromkeys(lone, 1))
        self._left = _COMPARISONS
        for readers in self.nodes.values():
            names_of: dict[Reader, set[str]] = {}
            for reader in readers[:_COMPARED]:
                if self._left <= 0:
                    break
                names_of[reader] = self._names(reader, groups, lone, now_ns)
            _narrow(names_of, capacity)
            for reader, names in names_of.items():
                reader.named(reader.name, *sorted(names - {reader.name}))

    def _names(
        self, reader: Reader, groups: dict[str, list[Membership]], lone: dict[str, int], now_ns: int
    ) -> set[str]:
        match = reader.match
        if match is None and reader.is_orphan:
            return {reader.name}
        own = match.key[0] if match is not None and reader.evidence.agrees_with(match) else None
        possible, fitting = set(), set()
        for group, members in groups.items():
            if group == own:  # known without comparing it with all members of what may be a large group
                fitting.add(group)
                continue
            self._left -= len(members)
            candidates = [member for member in members if self._may_be(reader, member, now_ns)]
            if candidates:
                possible.add(group)
            if any(reader.evidence.agrees_with(member) for member in candidates):
                fitting.add(group)
        return (fitting or possible) | {
            name for name, first_ns in lone.items() if first_ns <= reader.first_ns
        }


def _narrow(names_of: dict[Reader, set[str]], capacity: Counter[str]) -> None:
    """Remove from each reader the subscriptions that unambiguous readers at its node have used up."""
    while True:
        certain = Counter(next(iter(names)) for names in names_of.values() if len(names) == 1)
        full = {name for name, count in certain.items() if count >= capacity[name]}
        open_ones = [names for names in names_of.values() if len(names) > 1 and names & full and names - full]
        if not open_ones:
            return
        for names in open_ones:
            names -= full
