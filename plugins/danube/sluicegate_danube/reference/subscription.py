"""Subscriptions: one that keeps each message until it is acknowledged, and one that does not."""

from abc import abstractmethod
from bisect import insort
from collections.abc import Callable

from danube.proto import DanubeApi_pb2 as pb

from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.choosing import Choose
from sluicegate_danube.reference.consumers import Consumer
from sluicegate_danube.reference.log import Log

CallLater = Callable[[float, Callable[[int], None], int], object]
"""Calls a function with an offset, that many seconds later."""


class Subscription:
    """What both kinds of subscriptions do.

    :param kind: ConsumerRequest.SubscriptionType.
    :param choose: chooses the consumer of a message.
    """

    def __init__(self, kind: int, choose: Choose, settings: Settings) -> None:
        self.kind = kind
        self.consumers: dict[str, Consumer] = {}
        """By name, the one that has been there longest first."""
        self._choose = choose
        self._settings = settings

    @abstractmethod
    def publish(self, message: pb.StreamMessage) -> None:
        """A message was published."""

    def attach(self, consumer: Consumer) -> int:
        """Attach a consumer that is new, or whose client has reconnected.

        :return: the number of its session.
        """
        self.consumers.setdefault(consumer.name, consumer)
        return consumer.take_over()

    def leave(self, consumer: Consumer) -> None:
        """A consumer's stream ended; after reconnecting it is the last in the order."""
        if self.consumers.pop(consumer.name, None) is not None:
            self.consumers[consumer.name] = consumer
        consumer.leave()

    def acknowledge(self, offset: int) -> None:
        """A consumer acknowledges a message."""

    def refuse(self, offset: int, delay_s: float) -> None:
        """A consumer asks for redelivery of a message (nack)."""

    def needed_from(self) -> int | None:
        """Offset from which on messages are still needed; None if none are."""
        return None

    def _present(self) -> list[Consumer]:
        return [consumer for consumer in self.consumers.values() if consumer.attached]


class Unreliable(Subscription):
    """Delivers messages to attached consumers and keeps nothing."""

    def __init__(self, kind: int, choose: Choose, settings: Settings) -> None:
        super().__init__(kind, choose, settings)
        self.dropped = 0
        """Messages for which there was no consumer, or none with room."""

    def publish(self, message: pb.StreamMessage) -> None:
        """Deliver it to the first consumer that has room, or drop it."""
        room = (self._settings.queue_messages, self._settings.queue_bytes)
        for consumer in self._choose(message, self._present()):
            if consumer.has_room(*room):
                consumer.give(message)
                return
        self.dropped += 1


class Reliable(Subscription):
    """Redelivers each message until it is acknowledged. It starts with messages published after its creation.

    :param log: the topic's messages.
    """

    def __init__(
        self, kind: int, choose: Choose, settings: Settings, log: Log, call_later: CallLater
    ) -> None:
        super().__init__(kind, choose, settings)
        self._log = log
        self._call_later = call_later
        self._cursor = log.end
        self._given: dict[int, Consumer] = {}
        """Messages on their way to a consumer, or with it."""
        self._again: list[int] = []
        """Offsets to give again, the lowest first."""
        self._refused: set[int] = set()
        """Offsets to give again when their delay is over."""

    @property
    def unacked(self) -> int:
        """Messages that were delivered to a consumer and neither acknowledged nor returned."""
        return len(self._given)

    @property
    def backlog(self) -> int:
        """Messages that have yet to be acknowledged."""
        return len(self._given) + len(self._again) + len(self._refused) + self._log.end - self._cursor

    def publish(self, _: pb.StreamMessage) -> None:
        """The log has the message already: deliver it."""
        self._pump()

    def attach(self, consumer: Consumer) -> int:
        """Attach a consumer that is new, or whose client has reconnected: redeliver what it had."""
        session = super().attach(consumer)
        consumer.clear()
        self._take_back(consumer)
        self._pump()
        return session

    def leave(self, consumer: Consumer) -> None:
        """A consumer's stream ended: other consumers get what it has not acknowledged, or it waits."""
        super().leave(consumer)
        self._take_back(consumer)
        self._pump()

    def acknowledge(self, offset: int) -> None:
        """Remove a message, even if it waits for redelivery."""
        if self._given.pop(offset, None) is None:
            self._refused.discard(offset)
            if offset in self._again:
                self._again.remove(offset)
        self._pump()

    def refuse(self, offset: int, delay_s: float) -> None:
        """Redeliver it later; ignored for a message that no consumer has."""
        if self._given.pop(offset, None) is not None:
            self._refused.add(offset)
            self._call_later(delay_s, self._due, offset)

    def needed_from(self) -> int | None:
        """The offset of the oldest message that is not acknowledged."""
        return min((*self._given, *self._refused, *self._again[:1]), default=self._cursor)

    def _due(self, offset: int) -> None:
        if offset in self._refused:
            self._refused.discard(offset)
            insort(self._again, offset)
            self._pump()

    def _take_back(self, consumer: Consumer) -> None:
        for offset in [offset for offset, owner in self._given.items() if owner is consumer]:
            del self._given[offset]
            insort(self._again, offset)

    def _pump(self) -> None:
        """Deliver what can be delivered."""
        present = self._present()
        while present and len(self._given) + len(self._refused) < self._settings.max_unacked:
            offset = self._again.pop(0) if self._again else self._cursor
            if offset == self._log.end:
                return
            self._cursor = max(self._cursor, offset + 1)
            message = self._log[offset]
            # A message whose key no consumer accepts (KeyShared with filters) is skipped, as in Danube.
            for consumer in self._choose(message, present):
                self._given[offset] = consumer
                consumer.give(message)
                break
