"""Which broker serves which topic, as lookups show, and what follows when that changes."""

from collections.abc import Callable
from dataclasses import dataclass, field

from sluicegate.engine.gate import Gate
from sluicegate.model import Action, Decision, Operation, OperationKind
from sluicegate_grpc.semantics.calls.place import Id, Key, Place, Places
from sluicegate_grpc.semantics.calls.topics import Topics

_MAX_TOPICS = 10_000
_UNDECIDED = Decision(Action.ALLOW, ())


@dataclass(eq=False)
class Owners:
    """The owner of each topic, as look-ups name it.

    It knows at most 10,000 topics: beyond that it forgets the ones that were looked up least recently.

    When a topic moves, the producers and consumers at its old owner no longer count, even if their
    connections are still open: a broker that hangs closes none. Clients that are still there attach again at
    the new owner, and are not refused because of the places of the dead. Rates, delays and policies stay as
    they are.

    Where the gateway recreates producers (`keep_ns`), a producer whose connection is open keeps its place
    for that long: it goes on at the new owner without attaching, and another producer must not take the only
    place while it is silent.
    """

    gates: Callable[[str, bool, int], Gate]
    """As for `Calls`."""
    places: Places
    """Who is attached."""
    topics: Topics
    """What is known of topics; the list of subscriptions of one that moved is outdated."""
    release: Callable[[Place, int], None]
    """Releases a place."""
    changes: int = 0
    """Topics that have moved."""
    released: int = 0
    """Producers and consumers that no longer count, as their topic has moved."""
    on_change: Callable[[str, str, str], None] = lambda topic, before, owner: None
    """Called with a topic that has moved, its old owner and its new one."""
    keep_ns: int = 0
    """How long producers of a topic that has moved keep their places while they are silent."""
    _owners: dict[str, str] = field(default_factory=dict)
    _kept: dict[Place, int] = field(default_factory=dict)
    """Since when producers keep their places at a new owner, the oldest first."""

    def owner(self, topic: str) -> str:
        """The last known owner of a topic; empty if none is known."""
        return self._owners.get(topic, "")

    def producer(self, broker_id: Id) -> Key | None:
        """The counted identity of a producer with an id."""
        place = self.places.producers.get(broker_id)
        return place.key if place is not None else None

    def renamed(self, broker_id: Id, created: Id) -> None:
        """A producer was recreated; its broker has given it a new id."""
        place = self.places.producers.get(broker_id)
        if place is not None:
            self.places.name(place, created)

    def learned(self, topic: str, owner: str, now_ns: int) -> None:
        """A lookup has named the owner of a topic."""
        before = self._owners.pop(topic, "")
        self._owners[topic] = owner
        if len(self._owners) > _MAX_TOPICS:
            del self._owners[next(iter(self._owners))]
        if before and before != owner:
            self._changed(topic, before, owner, now_ns)

    def release_silent(self, now_ns: int) -> None:
        """Release resumable producers that stayed silent for too long; call it once a second."""
        while self._kept:
            place, since_ns = next(iter(self._kept.items()))
            if now_ns < since_ns + self.keep_ns:
                return
            del self._kept[place]
            if place.is_counted and not place.uses.pending and place.seen_ns <= since_ns:
                self.release(place, now_ns)
                self.released += 1

    def _changed(self, topic: str, before: str, owner: str, now_ns: int) -> None:
        self.changes += 1
        for place in self.places.of_topic(topic):
            if not place.is_counted or place.uses.pending:
                continue
            if self.keep_ns and place.kind is OperationKind.ATTACH_PRODUCER:
                self._kept.pop(place, None)
                self._kept[place] = now_ns
            else:
                self.release(place, now_ns)
                self.released += 1
        self.topics.listings.outdated(topic)
        op = Operation(OperationKind.OWNER_CHANGED, topic, "", f"{before} -> {owner}")
        self.gates(topic, False, now_ns).record(op, _UNDECIDED, now_ns)
        self.on_change(topic, before, owner)
