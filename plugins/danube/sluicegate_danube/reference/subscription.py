"""Subscriptions: one that keeps each message until it is acknowledged, and one that does not."""

from bisect import insort
from collections.abc import Callable
from typing import Protocol

from danube.proto import DanubeApi_pb2 as pb

from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.choosing import Choose
from sluicegate_danube.reference.consumers import Consumer
from sluicegate_danube.reference.log import Log

CallLater = Callable[[float, Callable[[int], None], int], object]
"""Calls a function with an offset, that many seconds later."""


class Subscription(Protocol):
    """What both kinds are to a topic."""

    kind: int
    """ConsumerRequest.SubscriptionType."""
    consumers: dict[str, Consumer]
    """By name, the one that has been there longest first."""

    def publish(self, message: pb.StreamMessage) -> None:
        """A message was published."""

    def attach(self, consumer: Consumer) -> int:
        """A consumer is new, or its client came again.

        :returns: the number of its session.
        """

    def leave(self, consumer: Consumer) -> None:
        """A consumer's stream ended."""

    def acknowledge(self, offset: int) -> None:
        """A consumer is done with a message."""

    def refuse(self, offset: int, delay_s: float) -> None:
        """A consumer wants a message delivered again later (nack)."""

    def needed_from(self) -> int | None:
        """Offset from which on messages are still needed; None if none are."""


class Unreliable:
    """Gives messages to who is there, and forgets them.

    :param choose: who gets a message.
    """

    def __init__(self, kind: int, choose: Choose, settings: Settings) -> None:
        self.kind = kind
        self.consumers: dict[str, Consumer] = {}
        self.dropped = 0
        """Messages for which there was no consumer, or none with room."""
        self._choose = choose
        self._settings = settings

    def publish(self, message: pb.StreamMessage) -> None:
        """Give it to the first that has room, or drop it."""
        room = (self._settings.queue_messages, self._settings.queue_bytes)
        for consumer in self._choose(message, _present(self.consumers)):
            if consumer.has_room(*room):
                consumer.give(message)
                return
        self.dropped += 1

    def attach(self, consumer: Consumer) -> int:
        """A consumer is new, or its client came again."""
        self.consumers.setdefault(consumer.name, consumer)
        return consumer.take_over()

    def leave(self, consumer: Consumer) -> None:
        """A consumer's stream ended; when it comes again, it is the last in the order."""
        _to_the_end(self.consumers, consumer)
        consumer.leave()

    def acknowledge(self, offset: int) -> None:
        """Nothing is kept."""

    def refuse(self, offset: int, delay_s: float) -> None:
        """Nothing is kept."""

    def needed_from(self) -> int | None:
        """Nothing is kept."""
        return None


class Reliable:
    """Gives each message again until it is acknowledged. It begins with what is published after it is made.

    :param choose: who gets a message.
    :param log: the topic's messages.
    """

    def __init__(
        self, kind: int, choose: Choose, settings: Settings, log: Log, call_later: CallLater
    ) -> None:
        self.kind = kind
        self.consumers: dict[str, Consumer] = {}
        self._choose = choose
        self._settings = settings
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
        """Messages that were given to a consumer and not acknowledged, nor given back."""
        return len(self._given)

    @property
    def backlog(self) -> int:
        """Messages that have yet to be acknowledged."""
        return len(self._given) + len(self._again) + len(self._refused) + self._log.end - self._cursor

    def publish(self, _: pb.StreamMessage) -> None:
        """It is in the log already."""
        self._pump()

    def attach(self, consumer: Consumer) -> int:
        """A consumer is new, or its client came again: what it was given is given again."""
        self.consumers.setdefault(consumer.name, consumer)
        session = consumer.take_over()
        consumer.clear()
        self._take_back(consumer)
        self._pump()
        return session

    def leave(self, consumer: Consumer) -> None:
        """A consumer's stream ended: what it has not acknowledged goes to others, or waits."""
        _to_the_end(self.consumers, consumer)
        consumer.leave()
        self._take_back(consumer)
        self._pump()

    def acknowledge(self, offset: int) -> None:
        """Done, even if it was to be given again."""
        if self._given.pop(offset, None) is None:
            self._refused.discard(offset)
            if offset in self._again:
                self._again.remove(offset)
        self._pump()

    def refuse(self, offset: int, delay_s: float) -> None:
        """Deliver it again later; a message that no consumer has is left as it is."""
        if self._given.pop(offset, None) is not None:
            self._refused.add(offset)
            self._call_later(delay_s, self._due, offset)

    def needed_from(self) -> int | None:
        """The oldest message that is not acknowledged."""
        return min((*self._given, *self._refused, *self._again[:1]), default=self._cursor)

    def _due(self, offset: int) -> None:
        if offset in self._refused:
            self._refused.discard(offset)
            insort(self._again, offset)
            self._pump()

    def _take_back(self, consumer: Consumer) -> None:
        for offset in [offset for offset, holder in self._given.items() if holder is consumer]:
            del self._given[offset]
            insort(self._again, offset)

    def _pump(self) -> None:
        """Give what can be given."""
        present = _present(self.consumers)
        while present and len(self._given) + len(self._refused) < self._settings.max_unacked:
            offset = self._again.pop(0) if self._again else self._cursor
            if offset == self._log.end:
                return
            self._cursor = max(self._cursor, offset + 1)
            message = self._log[offset]
            # A message whose key no consumer wants (KeyShared with filters) is skipped, as in Danube.
            for consumer in self._choose(message, present):
                self._given[offset] = consumer
                consumer.give(message)
                break


def _present(consumers: dict[str, Consumer]) -> list[Consumer]:
    return [consumer for consumer in consumers.values() if consumer.attached]


def _to_the_end(consumers: dict[str, Consumer], consumer: Consumer) -> None:
    if consumers.pop(consumer.name, None) is not None:
        consumers[consumer.name] = consumer
