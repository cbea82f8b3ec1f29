"""Messages delivered to one consumer and not acknowledged yet."""

from collections.abc import Iterable

from sluicegate_pulsar.codec import pulsar_pb2 as pb
from sluicegate_pulsar.session.requests.connection import Connection

Entry = tuple[int, int]
"""Ledger id and entry id, which grow together within one topic."""

_MAX_ENTRIES = 100_000
"""Where a limit is only observed, nothing else bounds this."""
_MASK64 = 2**64 - 1
_ENTRY_BYTES = 120
_LOT = 1_000
"""Entries whose memory counts together; fewer do not count."""


class Unacked:
    """Entries delivered to one consumer, each with the messages in it that are not acknowledged.

    All methods but `delivered` and `acknowledged` return how many messages they removed.

    :param connection: the consumer's, to which their memory is charged.
    """

    __slots__ = ("_connection", "_entries", "_lots")

    def __init__(self, connection: Connection) -> None:
        self._connection = connection
        self._entries: dict[Entry, int] = {}
        self._lots = 0

    def __len__(self) -> int:
        return len(self._entries)

    def delivered(self, entry: Entry, messages: int) -> None:
        """Add an entry; one that was delivered before must be forgotten first."""
        self._entries[entry] = messages
        self._count()

    def forget(self, entry: Entry) -> int:
        """Remove an entry that is or will be redelivered."""
        messages = self._entries.pop(entry, 0)
        self._count()
        return messages

    def forget_surplus(self) -> int:
        """Remove the oldest if there are too many."""
        if len(self._entries) <= _MAX_ENTRIES:
            return 0
        return self._entries.pop(next(iter(self._entries)))

    def clear(self) -> int:
        """Remove all."""
        messages = sum(self._entries.values())
        self._entries.clear()
        self._count()
        return messages

    def acknowledged(self, ack: pb.Ack) -> Iterable[int]:
        """Remove acknowledged messages, id by id as the result is iterated."""
        if ack.ack_type != pb.Ack.CUMULATIVE:
            return map(self._one, ack.message_id)
        # Brokers take a cumulative acknowledgement of one message only.
        return map(self._upto, ack.message_id) if len(ack.message_id) == 1 else ()

    def _upto(self, last: pb.MessageIdData) -> int:
        """In the order of delivery, which is that of the ids wherever this kind is allowed."""
        bound = (last.ledger_id, last.entry_id)
        messages = 0
        for entry in list(self._entries_below(bound)):
            messages += self._entries.pop(entry)
        self._count()
        return messages + self._one(last)

    def _entries_below(self, bound: Entry) -> Iterable[Entry]:
        for entry in self._entries:
            if entry >= bound:
                return
            yield entry

    def _one(self, message_id: pb.MessageIdData) -> int:
        """An entry, or those messages of it that have no bit in the id's words."""
        entry = (message_id.ledger_id, message_id.entry_id)
        before = self._entries.get(entry, 0)
        left = sum((word & _MASK64).bit_count() for word in message_id.ack_set)
        if left >= before:
            return 0
        if left:
            self._entries[entry] = left
        else:
            del self._entries[entry]
            self._count()
        return before - left

    def _count(self) -> None:
        """Charge the memory, which is there already, or give it back."""
        lots = len(self._entries) // _LOT
        if lots != self._lots:
            self._connection.memory.charge((lots - self._lots) * _LOT * _ENTRY_BYTES)
            self._lots = lots
