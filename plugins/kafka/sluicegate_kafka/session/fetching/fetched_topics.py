"""Which topics one connection fetches, under which subscription, and its counted identity."""

from collections.abc import Sequence

from sluicegate.model import Action, Operation, OperationKind
from sluicegate.sessions.admission import Admission
from sluicegate.sessions.work import Turn
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.fetch_requests import FetchRequest
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE, Slices
from sluicegate_kafka.session.requests.connection import (
    PARTITION_BYTES,
    TOPIC_BYTES,
    TOPICS_PER_SLICE,
    Connection,
)
from sluicegate_kafka.session.shared.readers import Reader
from sluicegate_kafka.session.shared.shared import Shared

_NOTHING: frozenset[int] = frozenset()
_MAX_TOPICS = 10_000
"""Topics that one connection is known to fetch; a client may name as many as it likes."""
_SETTLED_PER_SLICE = 100
"""Topics of a Fetch that are looked at in one slice, some 10 us each."""
_MAX_PARTITIONS = 100_000
"""Partitions that one connection is known to fetch."""


class Reading:
    """The readers of one connection, by topic."""

    __slots__ = (
        "_changes",
        "_connection",
        "_count",
        "_readers",
        "_shared",
        "_unwanted_ns",
        "_wanted",
        "held",
        "refused",
    )

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._readers: dict[str, Reader] = {}
        self._wanted: dict[str, frozenset[int]] = {}
        """The partitions of its fetch session (KIP-227), or of its last request if it has no session."""
        self._count = 0
        """How many these are."""
        self._unwanted_ns: dict[str, int] = {}
        """Since when it is known to have left a topic out."""
        self._changes = -1
        self.refused: set[str] = set()
        """Topics that it may not consume."""
        self.held: dict[str, tuple[Admission, int]] = {}
        """Topics that it may not consume yet: what waits, and after how many ns it asks again."""

    @property
    def places_bytes(self) -> int:
        """About how much memory its readers take."""
        return TOPIC_BYTES * len(self._readers) + PARTITION_BYTES * self._count

    def request(self, request: FetchRequest, turn: Turn) -> Slices[None]:
        """Record the topics of a Fetch, and count the connection if no group counts it; in slices."""
        yield from self._keep(request)
        new = 0
        for topic, partitions in request.topics:
            if topic not in self._readers:
                self._settled(topic, turn.now_ns, partitions)
                new += 1
                if new % _SETTLED_PER_SLICE == 0:
                    yield
        if not self._shared.policed.counts_consumers:
            self.refused.clear()
            for topic in tuple(self.held):
                self._withdraw(topic, turn.now_ns)
            return
        topics = yield from self._asked_about(request)
        gates = self._shared.gates.exempt if self._connection.exempt else self._shared.gates.live
        work = 0 if len(topics) < ENTRIES_PER_SLICE else _SETTLED_PER_SLICE
        for topic in topics:
            if work >= _SETTLED_PER_SLICE:
                work = 0
                yield
            work += 1 if topic in gates else _SETTLED_PER_SLICE // TOPICS_PER_SLICE
            reader = self._settled(topic, turn.now_ns)
            if reader.match is not None:
                self.refused.discard(topic)
                self._withdraw(topic, turn.now_ns)
            elif not reader.is_attached:
                self._attach(reader, turn.now_ns)

    def _asked_about(self, request: FetchRequest) -> Slices[set[str]]:
        """The topics for which the connection may have to be counted."""
        # A refused consumer is decided again each time, as later requests of a session do not name the topic.
        again = self.refused | self.held.keys()
        audiences = self._shared.audiences
        if self._changes != audiences.changes:
            self._changes = audiences.changes
            again |= self._readers.keys()
        if len(again) > ENTRIES_PER_SLICE:
            yield
        topics = {topic for topic, _ in request.topics}
        if len(again) > ENTRIES_PER_SLICE:
            yield
        wanted = self._wanted
        topics |= {topic for topic in again if not wanted or wanted.get(topic)}
        return topics

    def subscriptions(self, topic: str, now_ns: int) -> tuple[str, ...]:
        """The subscriptions that a topic may be fetched for; the assumed one first."""
        return self._settled(topic, now_ns).names

    def _keep(self, request: FetchRequest) -> Slices[None]:
        known = self._wanted
        if request.session_epoch <= 0 and request.topics:
            self._wanted = known = {}
            self._count = 0
        noted = 0
        for topic, partitions in request.topics:
            before = known.get(topic, _NOTHING)
            if len(partitions) > ENTRIES_PER_SLICE:
                wanted = yield from _union(before, partitions)
            else:
                wanted = before.union([index for index, _ in partitions])
            self._count += len(wanted) - len(before)
            known[topic] = wanted
            noted += 1 + len(partitions)
            if noted >= ENTRIES_PER_SLICE:
                noted = 0
                yield
        for topic, gone in request.forgotten:
            noted += 1 + len(gone)
            if noted >= ENTRIES_PER_SLICE:
                noted = 0
                yield
            if topic in known:
                self._count -= len(known[topic])
                known[topic] = known[topic].difference(gone)
                self._count += len(known[topic])
        if self._count > _MAX_PARTITIONS or len(known) > _MAX_TOPICS:
            known.clear()  # then nothing is known of what it fetches
            self._count = 0

    def _settled(self, topic: str, now_ns: int, begins: Sequence[tuple[int, int]] = ()) -> Reader:
        """The reader of a topic, matched with a group member.

        :param topic: the topic.
        :param now_ns: monotonic time; a reader that began before a member joined is not that member.
        :param begins: partitions and offsets of its first Fetch.
        """
        reader = self._readers.get(topic)
        if reader is None or reader.is_gone:
            audiences = self._shared.audiences
            if reader is None and len(self._readers) >= _MAX_TOPICS:
                # None may be forgotten: it would be fetched uncounted.
                raise ProtocolError(f"more than {_MAX_TOPICS} topics fetched on one connection")
            reader = self._readers[topic] = audiences.reader(self._connection, topic, now_ns)
            reader.evidence.began_at(begins)
        audience = self._shared.audiences.of(reader)
        wanted = self._wanted.get(topic)
        if wanted is not None and reader.fetches(wanted):
            audience.changed()
        audience.settle(now_ns)
        return reader

    def _attach(self, reader: Reader, now_ns: int) -> None:
        connection, topic = self._connection, reader.topic
        gate = self._shared.gate(topic, connection.exempt, now_ns)
        audience = self._shared.audiences.of(reader)
        audience.make_room(reader, gate, self._shared.limits.silence_ns, now_ns)
        self.refused.discard(topic)
        if reader.match is not None:
            self._withdraw(topic, now_ns)
            return
        place, _ = self.held.pop(topic, (None, 0))
        if place is None:
            names = (topic, connection.principal, connection.client)
            place = Admission(Operation(OperationKind.ATTACH_CONSUMER, *names))
        place.attach.consumer = reader.own_name
        decision = place.decide(gate, now_ns)
        if decision is None:
            reader.attached(gate, place.attach)
        elif decision.action is Action.DELAY:
            self.held[topic] = place, decision.delay_ns
        else:
            self.refused.add(topic)

    def _withdraw(self, topic: str, now_ns: int) -> None:
        """Stop waiting for a topic."""
        if topic in self.held:
            place, _ = self.held.pop(topic)
            place.withdraw(self._shared.gate(topic, self._connection.exempt, now_ns), now_ns)

    def release_idle(self, now_ns: int) -> Slices[None]:
        """Release topics that it has not fetched for the configured time; in slices."""
        oldest = now_ns - self._shared.limits.producer_idle_ns
        work = 0
        for topic in tuple(self._readers):
            if not self._wanted:
                return  # then nothing is known of what it fetches
            reader = self._readers.get(topic)
            work += 1
            if reader is None:
                continue
            if self._wanted.get(topic):
                self._unwanted_ns.pop(topic, None)
            elif self._unwanted_ns.setdefault(topic, now_ns) < oldest:
                self._release(topic, now_ns)
                work += ENTRIES_PER_SLICE // _SETTLED_PER_SLICE
            if work >= ENTRIES_PER_SLICE:
                work = 0
                yield

    def _release(self, topic: str, now_ns: int) -> None:
        self._shared.audiences.closed(self._readers.pop(topic))
        self._unwanted_ns.pop(topic, None)
        self.refused.discard(topic)
        self._withdraw(topic, now_ns)

    def parting(self, now_ns: int) -> Slices[None]:
        """The connection is closed: release its readers."""
        for count, (topic, reader) in enumerate(tuple(self._readers.items()), 1):
            self._shared.audiences.closed(reader)
            self._withdraw(topic, now_ns)
            if count % TOPICS_PER_SLICE == 0:
                yield
        self._readers.clear()
        self._wanted.clear()
        self._count = 0


def _union(before: frozenset[int], partitions: Sequence[tuple[int, int]]) -> Slices[frozenset[int]]:
    """Many partitions and those before, in slices; where they are too many for one connection, only some."""
    wanted = set(before)
    for start in range(0, len(partitions), ENTRIES_PER_SLICE):
        yield
        wanted.update([index for index, _ in partitions[start : start + ENTRIES_PER_SLICE]])
        if len(wanted) > _MAX_PARTITIONS:
            break
    return frozenset(wanted)
