"""One subscription: which entries are delivered now, and which are returned."""

from collections.abc import Iterable, Iterator, Sequence
from heapq import heappop, heappush

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.consumers import Command, Consumer, Deliver, Disconnect, TellActive
from sluicegate_pulsar.reference.cursor import Cursor
from sluicegate_pulsar.reference.delays import DelayedEntries, DelaySettings
from sluicegate_pulsar.reference.dispatch import Dispatch, make_dispatch
from sluicegate_pulsar.reference.stored_entry import Entry

_LOOK_AHEAD = 2_000
"""Entries that may wait for a busy key on a Key_Shared subscription before reading on stops."""


class Subscription:
    """A subscription of one topic.

    Its methods return commands. Those that deliver entries take the time in ms since the epoch, as delays may
    be over.

    :param name: its name.
    :param log: the topic's entries; the topic appends to it.
    :param delay: settings of delayed delivery on the topic.
    :param first: entry id of the first entry that it reads.
    :param partition: of the topic, -1 if it has none.
    :param durable: False for a reader's, which ends with its consumer.
    """

    def __init__(
        self,
        name: str,
        log: Sequence[Entry],
        delay: DelaySettings,
        first: int,
        partition: int = -1,
        durable: bool = True,
    ) -> None:
        self.name = name
        self.durable = durable
        self.cursor = Cursor(first)
        self._log = log
        self._partition = partition
        self._kind: int | None = None
        self._dispatch: Dispatch | None = None
        self._delayed = DelayedEntries(delay)
        self._unacknowledged: dict[int, Consumer] = {}
        self._again: list[int] = []
        """Entries that come before those not read yet, as a heap."""
        self._redeliveries: dict[int, int] = {}

    @property
    def consumers(self) -> Sequence[Consumer]:
        """The attached consumers."""
        return self._dispatch.consumers if self._dispatch is not None else ()

    @property
    def backlog(self) -> int:
        """Entries that are not acknowledged."""
        return self.cursor.backlog(len(self._log))

    def unacknowledged(self, consumer: Consumer) -> list[int]:
        """Ids of the entries that a consumer has received and not acknowledged, in order."""
        return sorted(number for number, owner in self._unacknowledged.items() if owner is consumer)

    def wake_at(self) -> int | None:
        """When to call `pump` next, in ms; None if only an event can change anything."""
        return self._delayed.wake_at() if self.consumers else None

    def attach(
        self, consumer: Consumer, kind: int, now_ms: int, keys: "pb.KeySharedMeta | None" = None
    ) -> list[Command]:
        """Attach a consumer.

        :param kind: the requested type, which must be that of the others.
        :param keys: its Key_Shared settings.
        :raises RefusedError: if it cannot attach.
        """
        dispatch = self._dispatch_for(kind, keys if keys is not None else pb.KeySharedMeta())
        before = dispatch.active
        dispatch.add(consumer)
        return [*self._changed(dispatch, before, consumer), *self.pump(now_ms)]

    def detach(self, consumer: Consumer, now_ms: int) -> list[Command]:
        """Detach a consumer; other consumers receive what it has not acknowledged."""
        dispatch = self._dispatch
        if dispatch is None or consumer not in dispatch.consumers:
            return []
        before = dispatch.active
        self._take_back(self.unacknowledged(consumer))
        dispatch.remove(consumer)
        return [*self._changed(dispatch, before, None), *self.pump(now_ms)]

    def flow(self, consumer: Consumer, permits: int, now_ms: int) -> list[Command]:
        """A consumer can take more messages."""
        consumer.permits += permits
        return self.pump(now_ms)

    def acknowledge(self, numbers: Iterable[int], now_ms: int) -> list[Command]:
        """Acknowledge single entries."""
        done = [number for number in numbers if number < len(self._log)]
        self._settle(done)
        self.cursor.acknowledge(done)
        for number in done:
            self._redeliveries.pop(number, None)
        return self.pump(now_ms)

    def acknowledge_upto(self, number: int, now_ms: int) -> list[Command]:
        """Acknowledge all entries up to this one.

        :raises RefusedError: if the subscription type does not support it.
        """
        if self._dispatch is not None and self._dispatch.many:
            raise RefusedError(pb.NOT_ALLOWED_ERROR, "Cumulative ack is not allowed on a shared subscription")
        self._settle([pending for pending in self._unacknowledged if pending <= number])
        self.cursor.acknowledge_upto(min(number, len(self._log) - 1))
        return self.pump(now_ms)

    def redeliver(self, consumer: Consumer, numbers: Sequence[int], now_ms: int) -> list[Command]:
        """Redeliver entries to a consumer.

        :param numbers: entry ids; none for all that it has not acknowledged. With one active consumer all of
            them are redelivered in any case, as their order would be lost otherwise.
        """
        pending = self.unacknowledged(consumer)
        if numbers and self._dispatch is not None and self._dispatch.many:
            wanted = set(numbers)
            pending = [number for number in pending if number in wanted]
        for number in pending:
            self._redeliveries[number] = self._redeliveries.get(number, 0) + 1
        self._take_back(pending)
        return self.pump(now_ms)

    def seek(self, first: int) -> list[Command]:
        """Go to an entry: all consumers are closed and reconnect."""
        commands = self.disconnect()
        self.cursor.seek(first)
        return commands

    def disconnect(self) -> list[Command]:
        """Close all consumers; what they have not acknowledged is read again."""
        consumers = list(self.consumers)
        self._forget()
        self.cursor.rewind()
        self._dispatch = None
        self._kind = None
        return [Disconnect(consumer) for consumer in consumers]

    def pump(self, now_ms: int) -> list[Command]:
        """Deliver what is due."""
        dispatch = self._dispatch
        if dispatch is None or not dispatch.consumers:
            return []
        for number in self._delayed.take_due(now_ms):
            heappush(self._again, number)
        commands: list[Command] = []
        waiting: list[int] = []
        for entry in self._candidates(dispatch, now_ms):
            consumer = dispatch.choose(entry)
            if consumer is None:
                # Only Key_Shared skips entries: later ones may be for other consumers.
                waiting.append(entry.number)
                if len(waiting) > _LOOK_AHEAD:
                    break
                continue
            consumer.permits -= entry.messages
            self._unacknowledged[entry.number] = consumer
            dispatch.delivered(entry, consumer)
            redeliveries = self._redeliveries.get(entry.number, 0) if dispatch.many else 0
            commands.append(Deliver(consumer, entry, redeliveries))
        for number in waiting:
            heappush(self._again, number)
        return commands

    def _candidates(self, dispatch: Dispatch, now_ms: int) -> Iterator[Entry]:
        """Entries in the order of delivery, as long as a consumer can receive one."""
        while dispatch.ready():
            if self._again:
                number = heappop(self._again)
            elif self.cursor.next < len(self._log):
                number = self.cursor.next
                self.cursor.next += 1
                if dispatch.many and self._delayed.delay(self._log[number], now_ms):
                    continue
            else:
                return
            if not self.cursor.is_acknowledged(number):
                yield self._log[number]

    def _dispatch_for(self, kind: int, keys: "pb.KeySharedMeta") -> Dispatch:
        dispatch = self._dispatch
        if dispatch is not None and dispatch.consumers:
            if kind != self._kind:
                raise RefusedError(pb.CONSUMER_BUSY, "Subscription is of different type")
            return dispatch
        dispatch = make_dispatch(kind, self._partition, keys)
        if kind != self._kind:
            # Entries that were delayed under the old type are read again under the new one.
            self._forget()
            self.cursor.rewind()
        self._kind = kind
        self._dispatch = dispatch
        return dispatch

    def _changed(self, dispatch: Dispatch, before: Consumer | None, came: Consumer | None) -> list[Command]:
        """Commands after a consumer attached or left; a new active one receives what the last one had."""
        if dispatch.many or self._kind != pb.Subscribe.FAILOVER:
            return []
        active = dispatch.active
        if active is before:
            return [TellActive(came, False)] if came is not None else []
        if before is not None:
            self._take_back(self.unacknowledged(before))
        return [TellActive(consumer, consumer is active) for consumer in dispatch.consumers]

    def _take_back(self, numbers: Iterable[int]) -> None:
        for number in self._settle(numbers):
            heappush(self._again, number)

    def _settle(self, numbers: Iterable[int]) -> list[int]:
        """No consumer has these entries any more; return those that one had."""
        were = [number for number in numbers if self._unacknowledged.pop(number, None) is not None]
        if self._dispatch is not None:
            for number in were:
                self._dispatch.settled(self._log[number])
        return were

    def _forget(self) -> None:
        self._delayed.clear()
        self._unacknowledged.clear()
        self._again.clear()
        self._redeliveries.clear()
