"""What the keys below `/cluster` say, for the load manager to plan with. It knows no store and no clock."""

from collections.abc import Callable, Iterator, Sequence
from typing import TypeVar

from sluicegate.store.metadata.metadata_store import Entry, Event, Listing
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.values import (
    PlacementHint,
    ValueShapeError,
    address_of_broker,
    hint_of_topic,
    takes_topics,
    usage_of_broker,
)

K = TypeVar("K", int, str)
T = TypeVar("T")


class ClusterView:
    """The cluster at one revision of its store.

    Keys and values of unknown shape are kept in `problems` and read as restrictively as possible: a broker
    with a malformed registration or state lives but gets no topics.
    """

    def __init__(self) -> None:
        self.revision = 0
        self.registrations: dict[int, Entry] = {}
        self.states: dict[int, Entry] = {}
        self.owners: dict[str, dict[int, Entry]] = {}
        """Assignments by topic and broker. A topic has one owner; only a fault gives it two."""
        self.owned: dict[int, set[str]] = {}
        """Topics by the broker that they are assigned to."""
        self.unassigned: dict[str, Entry] = {}
        self.leader: Entry | None = None
        self.problems: dict[str, str] = {}
        """What is wrong with keys and values, by key."""
        self._addresses: dict[int, str] = {}
        self._active: dict[int, bool] = {}
        self._usages: dict[int, float] = {}
        self._hints: dict[str, PlacementHint] = {}

    @classmethod
    def of(cls, listing: Listing) -> "ClusterView":
        """The view of one listing of `/cluster/`."""
        view = cls()
        for entry in listing.entries:
            view.update(entry.key, entry)
        view.revision = listing.revision
        return view

    def apply(self, events: Sequence[Event]) -> None:
        """Take over the changes of one revision; those of a revision that is known change nothing."""
        for event in events:
            if event.revision > self.revision:
                self.update(event.key, event.entry)
        if events:
            self.revision = max(self.revision, events[-1].revision)

    def registered_again(self, events: Sequence[Event]) -> list[int]:
        """Brokers that register with a new lease while their id is still registered.

        :param events: as for `apply`, which comes after this.
        """
        brokers = []
        for event in events:
            key = keys.parse(event.key)
            if isinstance(key, keys.Registration) and event.entry is not None:
                known = self.registrations.get(key.broker)
                if known is not None and event.revision > self.revision and known.lease != event.entry.lease:
                    brokers.append(key.broker)
        return brokers

    def owner(self, topic: str) -> int | None:
        """The broker to which a topic is assigned, if it is alive and its address is known."""
        return next((broker for broker in self.owners.get(topic, ()) if broker in self._addresses), None)

    def address(self, broker: int) -> str:
        """Where clients reach a broker, or that it is not known."""
        return self._addresses.get(broker, "address unknown")

    def usage(self, broker: int) -> float:
        """CPU and memory in use as the broker last reported, in percent; 0 if it did not."""
        return self._usages.get(broker, 0.0)

    def hint(self, topic: str) -> PlacementHint | None:
        """What the unassigned entry of a topic asks for; None if its value has no known shape."""
        return self._hints.get(topic)

    def is_active(self, broker: int) -> bool:
        """Whether a broker may be given topics.

        It is registered, its state is `active` or unknown, and no newer registration has its address: a
        broker that starts again under another id leaves an old registration behind until that expires.
        """
        return (
            broker in self._addresses and self._active.get(broker, True) and not self._is_superseded(broker)
        )

    def active(self) -> list[int]:
        """The brokers that may be given topics."""
        return [broker for broker in sorted(self.registrations) if self.is_active(broker)]

    def absent(self) -> Iterator[int]:
        """Brokers that own topics and are not registered."""
        return (broker for broker in sorted(self.owned) if broker not in self.registrations)

    def owned_twice(self) -> list[str]:
        """Topics with more than one registered owner."""
        return sorted(
            topic
            for topic, owners in self.owners.items()
            if len(owners) > 1 and sum(broker in self.registrations for broker in owners) > 1
        )

    def _is_superseded(self, broker: int) -> bool:
        own, address = self.registrations[broker], self._addresses[broker]
        return any(
            other != broker and where == address and self.registrations[other].created > own.created
            for other, where in self._addresses.items()
        )

    def update(self, key: str, entry: Entry | None) -> None:
        """Apply the new value of a key; None if it is gone."""
        self.problems.pop(key, None)
        match keys.parse(key):
            case keys.Registration(broker):
                _keep(self.registrations, broker, entry)
                self._read(self._addresses, broker, entry, address_of_broker)
            case keys.State(broker):
                _keep(self.states, broker, entry)
                self._read(self._active, broker, entry, takes_topics, False)
            case keys.Assignment(broker, topic):
                self._assign(broker, topic, entry)
            case keys.Unassigned(topic):
                _keep(self.unassigned, topic, entry)
                self._read(self._hints, topic, entry, hint_of_topic)
            case keys.Load(broker):
                self._read(self._usages, broker, entry, usage_of_broker)
            case keys.Leader():
                self.leader = entry
            case keys.Unknown(_, problem):
                if entry is not None:
                    self.problems[key] = problem

    def _assign(self, broker: int, topic: str, entry: Entry | None) -> None:
        owners, owned = self.owners.setdefault(topic, {}), self.owned.setdefault(broker, set())
        _keep(owners, broker, entry)
        if entry is not None:
            owned.add(topic)
        else:
            owned.discard(topic)
        if not owners:
            del self.owners[topic]
        if not owned:
            del self.owned[broker]

    def _read(
        self,
        known: dict[K, T],
        name: K,
        entry: Entry | None,
        read: Callable[[bytes], T],
        instead: T | None = None,
    ) -> None:
        """Store a parsed value; one of unknown shape is a problem.

        :param instead: the value to use instead, if any.
        """
        known.pop(name, None)
        if entry is None:
            return
        try:
            known[name] = read(entry.value)
        except ValueShapeError as error:
            self.problems[entry.key] = str(error)
            if instead is not None:
                known[name] = instead


def _keep(known: dict[K, Entry], name: K, entry: Entry | None) -> None:
    if entry is None:
        known.pop(name, None)
    else:
        known[name] = entry
