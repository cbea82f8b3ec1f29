"""The group members on one connection, and their attachments."""

from collections.abc import Collection, Iterator, Mapping, Sequence

from sluicegate.engine.gate import Gate
from sluicegate.sessions.admission import Admission
from sluicegate.sessions.work import Turn
from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.assignments import MAX_PARTITIONS, Partitions
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.slices import Slices, at_once
from sluicegate_kafka.session.groups.attempt import DECIDED_PER_SLICE
from sluicegate_kafka.session.requests.connection import (
    MAX_TOPICS,
    PARTITION_BYTES,
    TOPIC_BYTES,
    Connection,
)
from sluicegate_kafka.session.shared.readers import MemberKey
from sluicegate_kafka.session.shared.shared import Shared

_MAX_MEMBERS = 1_000
"""Group members on one connection; clients have one, but a client may name any number."""
_NOTED_PER_SLICE = 250
"""Topics of a member of which only something is noted, some 3 us each."""
_ACCEPTED = frozenset({errors.NONE, errors.MEMBER_ID_REQUIRED})

Attached = tuple[Gate, Admission]


class Joining:
    """Members that joined on one connection."""

    __slots__ = ("_assigned", "_members", "_unsent", "connection", "gave_way", "shared", "unnamed")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self.shared = shared
        self.connection = connection
        self._members: dict[MemberKey, dict[str, Attached]] = {}
        self._unsent: dict[MemberKey, list[str]] = {}
        """Topics that members were attached to by joins of which none has been forwarded yet."""
        self._assigned: dict[MemberKey, int] = {}
        """How many partitions members are known to be assigned."""
        self.gave_way: set[MemberKey] = set()
        """Members that were replaced by others; they have to join again."""
        self.unnamed: set[MemberKey] = set()
        """Members that the broker has been asked to admit and to name."""

    def __contains__(self, key: MemberKey) -> bool:
        """Whether a member is known here."""
        return key in self._members

    @property
    def places_bytes(self) -> int:
        """About how much memory the members' places take."""
        topics = sum(map(len, self._members.values()))
        return TOPIC_BYTES * topics + PARTITION_BYTES * sum(self._assigned.values())

    def topics(self, key: MemberKey) -> Mapping[str, Attached]:
        """The topics that a member is attached to."""
        return self._members.get(key, {})

    def check_name(self, key: MemberKey) -> None:
        """Refuse a join with the key of another one that the broker has not named yet.

        :raises ProtocolError: if it has; no client joins a group twice at once.
        """
        if key in self.unnamed:
            raise ProtocolError("a second join without a member id while one is under way")

    def replacing(self, key: MemberKey) -> Slices[None]:
        """A client joins without a member id, so it has none any more: release who it was before; in slices.

        A client has one member in a group and one connection to its coordinator.
        """
        for former in [known for known in self._members if known[0] == key[0] and known != key]:
            yield from self.leaving(former)
            self.gave_way.add(former)

    def know(self, key: MemberKey) -> Mapping[str, Attached]:
        """Add a member, even if it is attached to nothing yet.

        :return: what it is attached to.
        :raises ProtocolError: if there are too many on this connection.
        """
        attached = self._members.get(key)
        if attached is None:
            if len(self._members) + len(self.gave_way) >= _MAX_MEMBERS:
                raise ProtocolError(f"more than {_MAX_MEMBERS} group members on one connection")
            if sum(map(len, self._members.values())) > MAX_TOPICS:
                raise ProtocolError(f"group members for more than {MAX_TOPICS} topics on one connection")
            attached = self._members[key] = {}
        return attached

    # -- joining ----------------------------------------------------------------------------------

    def attached(self, key: MemberKey, topic: str, gate: Gate, place: Admission) -> None:
        """The gateway has attached a member, which is known here, to a topic."""
        self._members[key][topic] = (gate, place)
        self._unsent.setdefault(key, []).append(topic)

    def joined(self, key: MemberKey, topics: Collection[str], turn: Turn) -> Slices[None]:
        """A member is attached to all its topics: detach it from all others; in slices."""
        self.gave_way.discard(key)
        self._unsent.pop(key, None)
        named = set(topics)
        yield from self._detaching(key, [topic for topic in self.topics(key) if topic not in named])
        joined = self.shared.audiences.joining(self.connection, key, named, turn.now_ns, self._give_way)
        yield from noted(joined)

    def undoing(self, key: MemberKey) -> Slices[None]:
        """The gateway refuses a member: detach it from what no forwarded join covers; in slices."""
        yield from self._detaching(key, self._unsent.pop(key, ()))
        if not self.topics(key):
            self._members.pop(key, None)
            self._assigned.pop(key, None)

    def settling(self, key: MemberKey, error: int, member: str) -> Slices[MemberKey]:
        """The broker has responded: keep the member under its final name, or release it; in slices.

        :return: its key from now on.
        """
        self.unnamed.discard(key)
        if error not in _ACCEPTED:
            yield from self.leaving(key)
            return key
        if error == errors.NONE:
            self.confirm(key)
        if not member or member == key[1] or key not in self._members:
            return key
        renamed = (key[0], member)
        attached = self._members[renamed] = self._members.pop(key)
        for count, (gate, place) in enumerate(tuple(attached.values()), 1):
            if count % _NOTED_PER_SLICE == 0:
                yield
            consumers = gate.state.subscription(key[0]).consumers
            with gate.state.lock:
                consumers.rename(place.attach.consumer, "/".join(renamed), roams=True)
            place.attach.consumer = "/".join(renamed)
        yield from noted(self.shared.audiences.renaming(self.connection, key, renamed))
        return renamed

    def confirm(self, key: MemberKey) -> None:
        """The broker has accepted a member: its subscriptions exist from now on."""
        for gate, place in self.topics(key).values():
            place.confirmed(gate)

    def assigning(self, key: MemberKey, partitions: Partitions | None, now_ns: int) -> Slices[None]:
        """A member has received its assignment; None if the gateway cannot read it. In slices.

        If all of a connection have too many, it is not known which partitions this one may fetch.
        """
        self._assigned.pop(key, None)
        if partitions is not None:
            count = sum(map(len, partitions.values()))
            if count + sum(self._assigned.values()) > MAX_PARTITIONS:
                partitions = None
            elif key in self:
                self._assigned[key] = count
        return noted(self.shared.audiences.assigning(self.connection, key, partitions, now_ns))

    # -- leaving ----------------------------------------------------------------------------------

    def detach(self, key: MemberKey) -> None:
        """A member has left."""
        at_once(self.leaving(key))

    def leaving(self, key: MemberKey) -> Slices[None]:
        """A member has left; in slices."""
        self._unsent.pop(key, None)
        self._assigned.pop(key, None)
        yield from self._detaching(key, tuple(self.topics(key)))
        if self._members.pop(key, None) is not None:
            yield from noted(self.shared.audiences.leaving(self.connection, key))

    def parting(self) -> Slices[None]:
        """The connection is closed: release its members."""
        yield from noted(self.shared.audiences.forgetting(self.connection))
        for key in tuple(self._members):
            yield from self.leaving(key)

    def _detaching(self, key: MemberKey, topics: Sequence[str]) -> Slices[None]:
        """Detach a member from some of its topics."""
        for count, topic in enumerate(topics, 1):
            if topic in self.topics(key):
                gate, place = self._members[key].pop(topic)
                gate.detach(place.attach)
                place.take_back(gate)
            if count % DECIDED_PER_SLICE == 0:
                yield

    def _give_way(self, key: MemberKey) -> None:
        self.detach(key)
        self.gave_way.add(key)


def noted(each: Iterator[None]) -> Slices[None]:
    """Record something for one topic after the other, many in each slice."""
    for count, _ in enumerate(each, 1):
        if count % _NOTED_PER_SLICE == 0:
            yield
