"""Attachments: one place for each producer and consumer, however often its client attached it."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from enum import Enum
from typing import TypeAlias

from sluicegate.model import Operation, OperationKind

Id: TypeAlias = int | str | tuple[str, int | str]
"""The id that a broker gives a producer or consumer when it attaches; if it gives none, topic and name."""
Position: TypeAlias = int | bytes
"""Identifies a message within its subscription."""
Key: TypeAlias = tuple[str, str, str]
"""Topic, subscription (empty for a producer) and name."""


@dataclass(slots=True, eq=False)
class Caller:
    """One principal on one connection."""

    principal: str
    """Its authenticated name."""
    client: str
    """Identifies its connection, such as the peer's address."""
    exempt: bool = False
    """Whether counts and rates do not apply to it."""
    places: "dict[Place, None]" = field(default_factory=dict)
    """What it attached or used, in that order."""

    def operation(self, kind: OperationKind, key: Key) -> Operation:
        """An operation of this caller's.

        :param kind: of a producer (its subscription is empty) or a consumer.
        """
        topic, subscription, name = key
        is_consumer = bool(subscription) or kind is OperationKind.ATTACH_CONSUMER
        return Operation(
            kind,
            topic,
            self.principal,
            self.client,
            producer="" if is_consumer else name,
            subscription=subscription,
            consumer=name if is_consumer else "",
        )


class Part(Enum):
    """A caller's share in a place."""

    ATTACHING = "attaching"
    """Calls under way are to attach it; without them the caller has no part in it."""
    USING = "using"
    """The caller uses what is attached."""
    ATTACHED = "attached"
    """The broker let it attach by this caller."""


@dataclass(slots=True, eq=False)
class Uses:
    """What shows that a producer or consumer is alive."""

    pending: dict[Caller, int] = field(default_factory=dict)
    """Calls that attach it and are under way, by caller."""
    streams: int = 0
    """Open streams by which it is delivered to."""


@dataclass(slots=True, eq=False)
class Outstanding:
    """What was delivered to a consumer and is not acknowledged."""

    positions: dict[Position, None] = field(default_factory=dict)
    on_acknowledged: dict[object, Callable[[], None]] = field(default_factory=dict)
    """Callbacks for when there is room again, by stream."""


@dataclass(slots=True, eq=False)
class Place:
    """One producer or consumer."""

    kind: OperationKind
    """ATTACH_PRODUCER or ATTACH_CONSUMER."""
    key: Key
    """Its counted identity."""
    ids: set[Id] = field(default_factory=set)
    """The ids that the broker gave it."""
    is_counted: bool = False
    """True while it takes up room under a limit."""
    settled: bool = False
    """True once the broker let it attach."""
    uses: Uses = field(default_factory=Uses)
    is_nameless: bool = False
    """True for a consumer of which only the id is known: it counts for as long as a stream is open."""
    seen_ns: int = 0
    """When its client was last heard of."""
    callers: dict[Caller, Part] = field(default_factory=dict)
    """The callers that keep it attached."""
    refs: dict[str, Operation] = field(default_factory=dict)
    """The operations that attached it, by client."""
    publishing: tuple[Caller, Operation] | None = None
    """Used for one publish of this caller after the other, as making one costs more than deciding it."""
    outstanding: Outstanding = field(default_factory=Outstanding)

    @property
    def topic(self) -> str:
        """The topic's full name."""
        return self.key[0]

    @property
    def in_use(self) -> bool:
        """True while a call or stream shows that it is alive."""
        return self.uses.streams > 0 or bool(self.uses.pending)

    def attached(self, caller: Caller, now_ns: int) -> None:
        """The broker has let a caller attach it."""
        self.settled = True
        self.seen_ns = now_ns
        if caller in self.callers:
            self.callers[caller] = Part.ATTACHED

    def opened(self, stream: object, tell: Callable[[], None] | None) -> None:
        """A stream delivers to it; it is told when there is room again."""
        self.uses.streams += 1
        if tell is not None:
            self.outstanding.on_acknowledged[stream] = tell

    def closed(self, stream: object) -> None:
        """Undo `opened`."""
        self.uses.streams -= 1
        self.outstanding.on_acknowledged.pop(stream, None)

    def begun(self, caller: Caller) -> None:
        """A call to attach it is in progress."""
        pending = self.uses.pending
        pending[caller] = pending.get(caller, 0) + 1

    def ended(self, caller: Caller) -> None:
        """Undo `begun`."""
        pending = self.uses.pending
        pending[caller] -= 1
        if not pending[caller]:
            del pending[caller]

    def used_by(self, caller: Caller, part: Part = Part.USING) -> None:
        """Add a caller, which keeps it attached.

        :param part: of a caller that is new.
        """
        self.callers.setdefault(caller, part)
        caller.places[self] = None

    def left_by(self, caller: Caller) -> None:
        """Undo `used_by`."""
        self.callers.pop(caller, None)
        caller.places.pop(self, None)

    def withdrawn(self, caller: Caller) -> Operation | None:
        """Remove a caller whose call failed, or that was closed; others may remain.

        :return: the attachment to release; None if others need it.
        """
        self.left_by(caller)
        if len(self.refs) > 1 and not any(other.client == caller.client for other in self.callers):
            return self.refs.pop(caller.client, None)
        return None


class Places:
    """All places, by counted identity and by the broker's ids.

    :param limit: bound on those that are kept; those that no longer count are evicted first.
    """

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._by_key: dict[tuple[OperationKind, Key], Place] = {}
        self._by_topic: dict[str, dict[Place, None]] = {}
        self.producers: dict[Id, Place] = {}
        """By the ids that the broker gave them."""
        self.consumers: dict[Id, Place] = {}
        """By the ids that the broker gave them."""
        self._released: dict[Place, None] = {}

    def __len__(self) -> int:
        return len(self._by_key)

    def of_topic(self, topic: str) -> tuple[Place, ...]:
        """All places of a topic."""
        return tuple(self._by_topic.get(topic, ()))

    def __iter__(self) -> Iterator[Place]:
        return iter(self._by_key.values())

    def silent_since(self, time_ns: int, now_ns: int) -> tuple[list[Place], int]:
        """Places that count although their client was silent since a time, without a call or stream.

        :return: these, and the last activity of the longest silent of the others.
        """
        silent, oldest_ns = [], now_ns
        for place in self:
            if not place.is_counted or place.in_use:
                continue
            if place.seen_ns <= time_ns:
                silent.append(place)
            elif place.seen_ns < oldest_ns:
                oldest_ns = place.seen_ns
        return silent, oldest_ns

    def find(self, kind: OperationKind, key: Key) -> Place | None:
        """A place, if there is one."""
        return self._by_key.get((kind, key))

    def get(self, kind: OperationKind, key: Key, *, is_nameless: bool = False) -> Place | None:
        """A place, made if there is none; None if there are too many already."""
        place = self._by_key.get((kind, key))
        if place is None:
            if len(self._by_key) >= self.limit and not self._make_room():
                return None
            place = self._by_key[kind, key] = Place(kind, key, is_nameless=is_nameless)
            self._by_topic.setdefault(place.topic, {})[place] = None
        return place

    def name(self, place: Place, broker_id: Id) -> Place | None:
        """Note the broker's id of a place.

        :return: another place that had this id, which is the same producer or consumer.
        """
        ids = self._ids(place)
        before = ids.get(broker_id)
        ids[broker_id] = place
        place.ids.add(broker_id)
        if before is None or before is place:
            return None
        before.ids.discard(broker_id)
        return before

    def unname(self, place: Place, broker_id: Id) -> None:
        """Remove an id from a place."""
        place.ids.discard(broker_id)
        ids = self._ids(place)
        if ids.get(broker_id) is place:
            del ids[broker_id]

    def taken(self, place: Place) -> None:
        """A place is counted."""
        place.is_counted = True
        self._released.pop(place, None)

    def released(self, place: Place) -> None:
        """A place is no longer counted; it is kept for as long as there is room, if an id may come again.

        A place without an id is found again by its key.
        """
        place.is_counted = place.settled = False
        for caller in tuple(place.callers):
            place.left_by(caller)
        place.refs.clear()
        place.publishing = None
        if not place.is_nameless and any(not isinstance(broker_id, tuple) for broker_id in place.ids):
            self._released[place] = None
        else:
            self.forget(place)

    def forget(self, place: Place) -> None:
        """Forget a place."""
        self._released.pop(place, None)
        if self._by_key.get((place.kind, place.key)) is place:
            del self._by_key[place.kind, place.key]
            of_topic = self._by_topic[place.topic]
            del of_topic[place]
            if not of_topic:
                del self._by_topic[place.topic]
        ids = self._ids(place)
        for broker_id in place.ids:
            ids.pop(broker_id, None)

    def _make_room(self) -> bool:
        oldest = next((place for place in self._released if not place.in_use), None)
        if oldest is None:
            return False
        self.forget(oldest)
        return True

    def _ids(self, place: Place) -> dict[Id, Place]:
        return self.producers if place.kind is OperationKind.ATTACH_PRODUCER else self.consumers
