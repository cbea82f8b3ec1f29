"""Which consumer receives an entry, for each type of subscription.

Rule for all files of dispatching (this one, subscription, topic, delays, cursor): no input or output and no
clock. Methods take the time as an argument and return commands.
"""

from collections.abc import Callable

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.consumers import Consumer
from sluicegate_pulsar.reference.hash_ranges import SLOTS
from sluicegate_pulsar.reference.stored_entry import Entry


class Dispatch:
    """The consumers of one subscription, and which of them is next."""

    many = True
    """True if all consumers are served: then delays hold, deliveries are counted, and single entries can be
    redelivered. Where one consumer is served order comes first, and none of this is done."""

    def __init__(self) -> None:
        self.consumers: list[Consumer] = []

    @property
    def active(self) -> Consumer | None:
        """The one consumer that receives entries; None if all do, or if there is none."""
        return None

    def add(self, consumer: Consumer) -> None:
        """A consumer attaches.

        :raises RefusedError: if it cannot.
        """
        self.consumers.append(consumer)

    def remove(self, consumer: Consumer) -> None:
        """Remove a consumer; what was delivered to it has been returned already."""
        self.consumers.remove(consumer)

    def ready(self) -> bool:
        """True if some consumer could receive an entry."""
        return any(consumer.permits > 0 for consumer in self.consumers)

    def choose(self, entry: Entry) -> Consumer | None:
        """The consumer that receives an entry; None if the entry has to wait."""
        raise NotImplementedError

    def delivered(self, entry: Entry, consumer: Consumer) -> None:
        """An entry went to a consumer."""

    def settled(self, entry: Entry) -> None:
        """A delivered entry was acknowledged or returned."""


class Exclusive(Dispatch):
    """At most one consumer."""

    many = False

    @property
    def active(self) -> Consumer | None:
        """The consumer that receives entries."""
        return self.consumers[0] if self.consumers else None

    def add(self, consumer: Consumer) -> None:
        """Attach the first; refuse others."""
        if self.consumers:
            raise RefusedError(pb.CONSUMER_BUSY, "Exclusive consumer is already connected")
        super().add(consumer)

    def ready(self) -> bool:
        """True if the active consumer has permits."""
        return self.active is not None and self.active.permits > 0

    def choose(self, entry: Entry) -> Consumer | None:
        """The active consumer, as long as it has permits."""
        return self.active if self.ready() else None


class Failover(Exclusive):
    """One consumer is active, and the next one takes over when it leaves.

    :param partition: of the topic, -1 if it has none: partitions spread over consumers of equal priority.
    """

    def __init__(self, partition: int) -> None:
        super().__init__()
        self._partition = max(partition, 0)

    @property
    def active(self) -> Consumer | None:
        """The first by priority, then by the time of attaching."""
        if not self.consumers:
            return None
        first = min(consumer.priority for consumer in self.consumers)
        equal = [consumer for consumer in self.consumers if consumer.priority == first]
        return equal[self._partition % len(equal)]

    def add(self, consumer: Consumer) -> None:
        """Attach one more."""
        self.consumers.append(consumer)


class Shared(Dispatch):
    """Consumers take turns; those of lower priority are served only when others have no permits."""

    def choose(self, entry: Entry) -> Consumer | None:
        """The one with permits whose last turn was longest ago."""
        able = [consumer for consumer in self.consumers if consumer.permits > 0]
        if not able:
            return None
        chosen = min(able, key=lambda consumer: consumer.priority)  # the first of equals
        self.consumers.remove(chosen)
        self.consumers.append(chosen)
        return chosen


class KeyShared(Dispatch):
    """Entries of one key go to one consumer, in order.

    When a consumer attaches or leaves, keys move. A key moves only when its former consumer has settled all
    of its entries; until then the others wait.

    :param sticky: consumers choose their hash ranges; else they divide the range evenly.
    :param in_order: False lets keys move at once.
    """

    def __init__(self, sticky: bool, in_order: bool) -> None:
        super().__init__()
        self._sticky = sticky
        self._in_order = in_order
        self._held: dict[int, tuple[Consumer, int]] = {}
        """For each slot who holds how many unsettled entries of it."""

    def add(self, consumer: Consumer) -> None:
        """Attach one more; refuse ranges that overlap or are invalid."""
        if self._sticky:
            self._check(consumer)
        super().add(consumer)

    def choose(self, entry: Entry) -> Consumer | None:
        """The owner of the entry's key, if it has permits and no other holds entries of that key."""
        owner = self._owner(entry.slot)
        if owner is None or owner.permits <= 0:
            return None
        holder = self._held.get(entry.slot) if self._in_order else None
        return owner if holder is None or holder[0] is owner else None

    def delivered(self, entry: Entry, consumer: Consumer) -> None:
        """Count the entry in its slot."""
        _, count = self._held.get(entry.slot, (consumer, 0))
        self._held[entry.slot] = (consumer, count + 1)

    def settled(self, entry: Entry) -> None:
        """No longer count the entry in its slot."""
        holder, count = self._held.pop(entry.slot)
        if count > 1:
            self._held[entry.slot] = (holder, count - 1)

    def _owner(self, slot: int) -> Consumer | None:
        if not self._sticky:
            return self.consumers[slot * len(self.consumers) // SLOTS]
        for consumer in self.consumers:
            if any(start <= slot <= end for start, end in consumer.ranges):
                return consumer
        return None

    def _check(self, consumer: Consumer) -> None:
        if not consumer.ranges or not all(0 <= start <= end < SLOTS for start, end in consumer.ranges):
            text = f"expected hash ranges within 0 to {SLOTS - 1}, not {list(consumer.ranges)}"
            raise RefusedError(pb.CONSUMER_ASSIGN_ERROR, text)
        for other in self.consumers:
            for start, end in other.ranges:
                if any(start <= last and first <= end for first, last in consumer.ranges):
                    text = f"Range conflict with consumer {other.name}"
                    raise RefusedError(pb.CONSUMER_ASSIGN_ERROR, text)


def make_dispatch(kind: int, partition: int, keys: "pb.KeySharedMeta") -> Dispatch:
    """The dispatch of a subscription type.

    :param kind: the type in CommandSubscribe.
    :param partition: of the topic, -1 if it has none.
    :param keys: the Key_Shared settings of the first consumer.
    :raises RefusedError: if there is no such type.
    """
    sticky = keys.key_shared_mode == 1
    makers: dict[int, Callable[[], Dispatch]] = {
        pb.Subscribe.EXCLUSIVE: Exclusive,
        pb.Subscribe.SHARED: Shared,
        pb.Subscribe.FAILOVER: lambda: Failover(partition),
        pb.Subscribe.KEY_SHARED: lambda: KeyShared(sticky, not keys.allow_out_of_order_delivery),
    }
    maker = makers.get(kind)
    if maker is None:
        raise RefusedError(pb.NOT_ALLOWED_ERROR, f"expected a subscription type from 0 to 3, not {kind}")
    return maker()
