"""One topic: its log, its producers and its subscriptions."""

from dataclasses import dataclass
from typing import Protocol

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.reference.broker_errors import RefusedError
from sluicegate_pulsar.reference.delays import DelaySettings
from sluicegate_pulsar.reference.hash_ranges import key_of, slot_of
from sluicegate_pulsar.reference.stored_entry import Entry
from sluicegate_pulsar.reference.subscription import Subscription
from sluicegate_pulsar.reference.topic_names import Name

_SIGN = 1 << 63


class Attached(Protocol):
    """The connection of a producer."""

    def forget(self, producer: "Producer") -> None:
        """Drop a producer without notifying its client."""

    def close(self, producer: "Producer") -> None:
        """Close it from the broker's side; its client looks its topic up again and reconnects."""


@dataclass(eq=False, slots=True)
class Producer:
    """One producer, attached to a topic."""

    connection: "Attached"
    id: int
    """The id that the client gave it; unique in its connection."""
    name: str
    epoch: int = 0
    """Counts how often the client recreated it."""
    named: bool = True
    """True if the user chose the name; False if the broker did."""

    def succeeds(self, other: "Producer") -> bool:
        """True if this is the same producer, reconnected before its former connection was seen to end."""
        return not (self.named or other.named) and self.id == other.id and self.epoch > other.epoch


class Topic:
    """A topic that keeps all entries in memory until the broker ends.

    :param name: its name.
    :param ledger: the ledger id of all its entries.
    :param delay: settings of delayed delivery; may change later.
    """

    def __init__(self, name: Name, ledger: int, delay: DelaySettings) -> None:
        self.name = name
        self.ledger = ledger
        self.delay = delay
        self.log: list[Entry] = []
        self.producers: dict[str, Producer] = {}
        self.subscriptions: dict[str, Subscription] = {}
        self.schemas: list[pb.Schema] = []

    @property
    def backlog_bytes(self) -> int:
        """Bytes from the first entry that some subscription has not acknowledged."""
        size = len(self.log)
        first = min((each.cursor.mark_delete + 1 for each in self.subscriptions.values()), default=size)
        return sum(len(entry.data) for entry in self.log[first:])

    def attach(self, producer: Producer) -> Producer | None:
        """Attach a producer.

        :return: the producer that it replaces.
        :raises RefusedError: if another one has its name.
        """
        other = self.producers.get(producer.name)
        if other is not None and not producer.succeeds(other):
            text = f"Producer with name '{producer.name}' is already connected to topic"
            raise RefusedError(pb.PRODUCER_BUSY, text)
        self.producers[producer.name] = producer
        return other

    def detach(self, producer: Producer) -> None:
        """Detach a producer."""
        if self.producers.get(producer.name) is producer:
            del self.producers[producer.name]

    def publish(self, data: bytes, metadata: "pb.MessageMetadata", messages: int, now_ms: int) -> Entry:
        """Store an entry; pump its subscriptions afterwards.

        :param data: the bytes after the command, from the magic number on.
        :param messages: the number of messages that the SEND claims.
        :raises RefusedError: if it asks for a longer delay than the topic allows.
        """
        wanted = metadata.deliver_at_time
        limit = self.delay.max_delay_ms
        if self.delay.active and 0 < limit < wanted - now_ms:
            text = f"Exceeds max allowed delivery delay of {limit} milliseconds"
            raise RefusedError(pb.NOT_ALLOWED_ERROR, text)
        last = self.log[-1] if self.log else None
        entry = Entry(
            number=len(self.log),
            data=data,
            messages=max(messages, 1),
            batched=metadata.HasField("num_messages_in_batch"),
            publish_time_ms=metadata.publish_time,
            stored_ms=now_ms,
            first_index=last.first_index + last.messages if last is not None else 0,
            slot=slot_of(key_of(metadata)),
            deliver_at_ms=wanted,
        )
        self.log.append(entry)
        return entry

    def subscription(self, request: "pb.Subscribe") -> Subscription:
        """The subscription with a name, created if it does not exist."""
        name = request.subscription
        subscription = self.subscriptions.get(name)
        if subscription is None:
            first = self._first_of(request)
            subscription = Subscription(
                name, self.log, self.delay, first, self.name.partition, durable=request.durable
            )
            self.subscriptions[name] = subscription
        elif subscription.durable != request.durable:
            text = f"Subscription {name!r} is {'durable' if subscription.durable else 'of a reader'}"
            raise RefusedError(pb.NOT_ALLOWED_ERROR, text)
        return subscription

    def drop(self, subscription: Subscription) -> None:
        """Remove a subscription."""
        if self.subscriptions.get(subscription.name) is subscription:
            del self.subscriptions[subscription.name]

    def entry_at(self, message_id: "pb.MessageIdData") -> int:
        """The entry that a client means by a message id; ids before the first and after the last are bounds.

        `MessageId.earliest` is -1:-1, `MessageId.latest` the highest number twice.
        """
        ledger, entry = _signed(message_id.ledger_id), _signed(message_id.entry_id)
        if ledger != self.ledger:
            return 0 if ledger < self.ledger else len(self.log)
        return min(max(entry, 0), len(self.log))

    def entry_after(self, time_ms: int) -> int:
        """The first entry published at a time or later."""
        for entry in self.log:
            if entry.publish_time_ms >= time_ms:
                return entry.number
        return len(self.log)

    def last_id(self) -> "pb.MessageIdData":
        """The id of the last message; -1:-1 if there is none."""
        if not self.log:
            nowhere = _unsigned(-1)
            return pb.MessageIdData(ledger_id=nowhere, entry_id=nowhere, partition=self.name.partition)
        last = self.log[-1]
        message_id = self.id_of(last.number)
        if last.batched:
            message_id.batch_index = last.messages - 1
        return message_id

    def id_of(self, number: int) -> "pb.MessageIdData":
        """An entry's id; -1 is the position before the first."""
        return pb.MessageIdData(
            ledger_id=self.ledger, entry_id=_unsigned(number), partition=self.name.partition
        )

    def schema_version(self, schema: "pb.Schema") -> bytes:
        """The version of a schema; a new one is taken as it is, without a test of compatibility."""
        if schema not in self.schemas:
            self.schemas.append(schema)
        return self.schemas.index(schema).to_bytes(8, "big")

    def _first_of(self, request: "pb.Subscribe") -> int:
        if not request.durable and request.HasField("start_message_id"):
            # Inclusive: the client drops what it does not want of the entry, which may be a batch.
            return self.entry_at(request.start_message_id)
        earliest = request.initial_position == pb.Subscribe.EARLIEST
        return 0 if earliest else len(self.log)


def _signed(number: int) -> int:
    return number - (_SIGN << 1) if number >= _SIGN else number


def _unsigned(number: int) -> int:
    return number % (_SIGN << 1)
