"""The audiences of all topics: group members and readers."""

from collections.abc import Callable, Collection, Iterator

from sluicegate_kafka.codec.assignments import Partitions
from sluicegate_kafka.codec.committed import Offsets
from sluicegate_kafka.session.requests.connection import Connection, Identity
from sluicegate_kafka.session.shared.audience import Audience
from sluicegate_kafka.session.shared.client_counts import Places
from sluicegate_kafka.session.shared.readers import MemberKey, Membership, Reader

_NOTHING: frozenset[int] = frozenset()


class Audiences:
    """One for each topic and each kind of equal clients.

    Work on all topics of a member is an iterator, with one topic at each step. The member may
    be released between two steps: then nothing is left to do.
    """

    def __init__(self) -> None:
        self._audiences: dict[tuple[Identity, str], Audience] = {}
        self._places: Places[Reader] = Places()
        self._identities: dict[Connection, Identity] = {}
        """Under which identity a connection joined: its client id may change later."""
        self._topics: dict[Connection, dict[MemberKey, set[str]]] = {}
        self.changes = 0
        """How often members came, went or were assigned something else."""

    # -- members ----------------------------------------------------------------------------------

    def joining(
        self,
        connection: Connection,
        key: MemberKey,
        topics: Collection[str],
        now_ns: int,
        give_way: Callable[[MemberKey], None],
    ) -> Iterator[None]:
        """A member joined its group, or changed its topics.

        :param connection: where it joined.
        :param key: its group and its name there.
        :param topics: all that it subscribes to.
        :param now_ns: monotonic time.
        :param give_way: releases the member of a key, which then has to join again.
        """
        identity = self._identities.setdefault(connection, connection.identity)
        known = self._topics.setdefault(connection, {}).setdefault(key, set())
        for topic in known.difference(topics):
            if self._topics.get(connection, {}).get(key) is not known:
                return
            known.discard(topic)
            self._drop(connection, key, topic)
            yield
        for topic in set(topics) - known:
            if self._topics.get(connection, {}).get(key) is not known:
                return
            known.add(topic)
            audience = self._audience(identity, topic)
            audience.members[connection, key] = Membership(connection, key, now_ns, give_way)
            self._changed(audience)
            yield

    def assigning(
        self, connection: Connection, key: MemberKey, partitions: Partitions | None, now_ns: int
    ) -> Iterator[None]:
        """A member has received its assignment; None if the gateway cannot read it."""
        for topic in tuple(self._topics_of(connection, key)):
            yield
            if topic not in self._topics_of(connection, key):
                continue
            audience = self._audience(self._identities[connection], topic)
            member = audience.members[connection, key]
            theirs = None if partitions is None else partitions.get(topic, _NOTHING)
            if member.assign(theirs, now_ns):
                self._changed(audience)

    def committing(self, connection: Connection, group: str, offsets: Offsets) -> Iterator[None]:
        """A group's members on a connection have received their start offsets."""
        by_topic: dict[str, dict[int, int]] = {}
        for (topic, partition), offset in offsets.items():
            by_topic.setdefault(topic, {})[partition] = offset
            yield
        members = [key for key in self._topics.get(connection, {}) if key[0] == group]
        for key in members:
            for topic in self._topics_of(connection, key) & by_topic.keys():
                yield
                if topic not in self._topics_of(connection, key):
                    continue
                audience = self._audience(self._identities[connection], topic)
                audience.members[connection, key].begins_at.update(by_topic[topic])

    def renaming(self, connection: Connection, old: MemberKey, new: MemberKey) -> Iterator[None]:
        """The broker has given a member its name."""
        topics = self._topics.get(connection, {})
        if old not in topics:
            return
        theirs = topics.setdefault(new, set())
        while left := topics.get(old):
            topic = left.pop()
            theirs.add(topic)
            members = self._audience(self._identities[connection], topic).members
            member = members.pop((connection, old), None)
            if member is not None:
                member.renamed(new)
                members[connection, new] = member
            yield
        topics.pop(old, None)

    def leaving(self, connection: Connection, key: MemberKey) -> Iterator[None]:
        """A member left its group."""
        while left := self._topics_of(connection, key):
            self._drop(connection, key, left.pop())
            yield
        self._topics.get(connection, {}).pop(key, None)

    def forgetting(self, connection: Connection) -> Iterator[None]:
        """A connection has ended: its members may continue on another one, and keep their fetches.

        Yields after each of their topics.
        """
        for key, topics in self._topics.pop(connection, {}).items():
            for topic in topics:
                for reader in self._audience(self._identities[connection], topic).readers:
                    reader.lost(key)
                self._drop(connection, key, topic)
                yield
        self._identities.pop(connection, None)

    def returns(self, connection: Connection, key: MemberKey, topic: str) -> None:
        """A former member joins again: its fetches meanwhile are not another consumer's.

        :param connection: where it joins.
        :param key: its group and its name there.
        :param topic: one that it subscribes to.
        """
        audience = self._audiences.get((connection.identity, topic))
        if audience is None:
            return
        lone = [reader for reader in audience.readers if reader.number]
        own = [reader for reader in lone if reader.former == key]
        if not own:  # unknown from before: it counts as a consumer without a group
            last = max((reader.number for reader in lone if reader.former is None), default=0)
            own = [reader for reader in lone if reader.number == last and reader.former is None]
        for reader in own:
            reader.returns(key)

    def make_room(
        self, connection: Connection, topic: str, group: str | None, silence_ns: int, now_ns: int
    ) -> None:
        """Release a silent member of an equal client.

        :param connection: where a new member joins that would be refused otherwise.
        :param topic: the topic that is full.
        :param group: the group that is full; None if the topic is, for all groups.
        :param silence_ns: how long the other must have been silent.
        :param now_ns: monotonic time.
        """
        audience = self._audiences.get((connection.identity, topic))
        silent = [
            member
            for member in (audience.members.values() if audience is not None else ())
            if member.connection is not connection
            and group in (None, member.key[0])
            and member.connection.is_silent(now_ns, silence_ns)
        ]
        if silent:
            oldest = min(silent, key=lambda member: member.connection.last_ns())
            oldest.give_way(oldest.key)

    # -- readers ----------------------------------------------------------------------------------

    def reader(self, connection: Connection, topic: str, now_ns: int) -> Reader:
        """A connection fetches a topic for the first time."""
        audience = self._audience(connection.identity, topic)
        reader = Reader(connection, audience.identity, topic, audience.members, now_ns)
        audience.add(reader)
        return reader

    def closed(self, reader: Reader) -> None:
        """A reader has left."""
        audience = self.of(reader)
        audience.remove(reader)
        self._prune(audience)

    def of(self, reader: Reader) -> Audience:
        """The readers and members that a reader is one of."""
        return self._audience(reader.identity, reader.topic)

    def _topics_of(self, connection: Connection, key: MemberKey) -> set[str]:
        """Topics that a member subscribes to."""
        return self._topics.get(connection, {}).get(key) or set()

    def _audience(self, identity: Identity, topic: str) -> Audience:
        audience = self._audiences.get((identity, topic))
        if audience is None:
            audience = self._audiences[identity, topic] = Audience(identity, topic, self._places)
        return audience

    def _drop(self, connection: Connection, key: MemberKey, topic: str) -> None:
        audience = self._audience(self._identities[connection], topic)
        if audience.members.pop((connection, key), None) is not None:
            self._changed(audience)
        self._prune(audience)

    def _changed(self, audience: Audience) -> None:
        audience.changed()
        self.changes += 1

    def _prune(self, audience: Audience) -> None:
        key = (audience.identity, audience.topic)
        if audience.is_empty and self._audiences.get(key) is audience:
            del self._audiences[key]
