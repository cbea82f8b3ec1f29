"""Keeps the chunks of a message in order for one consumer.

On Shared and Key_Shared subscriptions a broker holds back each chunk by itself until its delivery time. A
chunk that the broker reads after that time overtakes those that it read before and still holds. Client
libraries drop a message whose chunks come out of order, and it stays unacknowledged until the consumer
connects again. So a chunk waits here until all chunks before it have come.

A chunk before it may never come: another consumer has it, or this one has acknowledged it. After `max_hold`,
or 30 s, the chunks that wait go on as they are.
"""

from collections.abc import Iterable
from typing import NamedTuple

from sluicegate_pulsar.codec.message_frames import MessageHead
from sluicegate_pulsar.codec.metadata import MetadataHead
from sluicegate_pulsar.session.consumers.unacked import Entry
from sluicegate_pulsar.session.consumers.withheld import OverfullError
from sluicegate_pulsar.session.producer_state.chunks import key_of
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.shared.shared import Shared

_MOST_MESSAGES = 100
"""Incomplete messages of one consumer; the Java client keeps 10 unless told otherwise."""

_LONGEST_NS = 30_000_000_000
"""Half of the time after which the Java client drops an incomplete message."""


class Kept(NamedTuple):
    """A waiting chunk."""

    frame: bytes
    entry: Entry
    messages: int
    """Permits that the broker counts for it."""


class _Incomplete:
    """A message with missing chunks."""

    __slots__ = ("expected", "until_ns", "waiting")

    def __init__(self) -> None:
        self.expected = 0
        """The chunk that goes on next."""
        self.waiting: dict[int, list[Kept]] = {}
        """By chunk id: a producer that sent again may have stored a chunk more than once."""
        self.until_ns = 0
        """When those that wait go on all the same."""


class ChunkOrder:
    """Chunks that came before their predecessors; their bytes count for the connection and for all clients.

    :param shared: the front's state.
    :param connection: the consumer's.
    """

    __slots__ = ("_connection", "_messages", "_shared", "held_bytes")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._messages: dict[str, _Incomplete] = {}
        self.held_bytes = 0

    def __bool__(self) -> bool:
        return self.held_bytes > 0

    def keep(self, data: bytes, start: int, stop: int, head: MessageHead, now_ns: int) -> bool:
        """Buffer a chunk if others of its message have to come first.

        :param data: a buffer that holds the frame from `start` to `stop`.
        :return: False if it may go on now.
        :raises OverfullError: if there is no room, or too many messages wait for chunks.
        """
        chunk_id, message = _id_of(head.metadata), self._message(head.metadata)
        if chunk_id <= message.expected:
            return False
        size = stop - start
        too_much = self.held_bytes + size > self._shared.config.consumer_buffer
        if too_much or not self._shared.budget.take(size):
            raise OverfullError
        if not message.waiting:
            message.until_ns = now_ns + min(self._shared.max_hold_ns, _LONGEST_NS)
        entry = (head.ledger_id, head.entry_id)
        same = message.waiting.setdefault(chunk_id, [])
        self._release(kept for kept in same if kept.entry == entry)
        same[:] = [kept for kept in same if kept.entry != entry]
        same.append(Kept(data[start:stop], entry, head.messages))
        self.held_bytes += size
        self._connection.held_bytes += size
        return True

    def passed(self, chunk: MetadataHead) -> list[Kept]:
        """A chunk is forwarded.

        :return: the chunks that waited for it, in order, which follow it.
        :raises OverfullError: if too many messages wait for chunks.
        """
        message, chunk_id = self._message(chunk), _id_of(chunk)
        if 0 < chunk_id < message.expected:
            return []  # a duplicate, which its client detects
        message.expected = chunk_id + 1
        followers = message.waiting.pop(chunk_id, [])
        while message.expected in message.waiting:
            followers += message.waiting.pop(message.expected)
            message.expected += 1
        if message.expected >= chunk.chunks:
            del self._messages[key_of(chunk.uuid)]
        self._release(followers)
        return followers

    def overdue(self, now_ns: int) -> list[Kept]:
        """Chunks that have waited too long, which are forwarded unchanged."""
        found: list[Kept] = []
        for message in self._messages.values():
            if message.waiting and now_ns >= message.until_ns:
                self._shared.count("chunks_out_of_order")
                found += _all(message)
                message.expected = max(message.waiting) + 1
                message.waiting.clear()
        self._release(found)
        return found

    def clear(self) -> None:
        """Forget all: the broker resends it from the first chunk."""
        for message in self._messages.values():
            self._release(_all(message))
        self._messages.clear()

    def _message(self, chunk: MetadataHead) -> _Incomplete:
        """The state of a chunk's message, which becomes the last to be evicted."""
        key = key_of(chunk.uuid)
        message = self._messages.pop(key, None)
        if message is None:
            if len(self._messages) >= _MOST_MESSAGES:
                self._forget_one()
            message = _Incomplete()
        self._messages[key] = message
        return message

    def _forget_one(self) -> None:
        """The oldest message of which nothing waits: a further chunk of it goes on after `max_hold`."""
        for key, message in self._messages.items():
            if not message.waiting:
                del self._messages[key]
                return
        raise OverfullError

    def _release(self, chunks: Iterable[Kept]) -> None:
        size = sum(len(kept.frame) for kept in chunks)
        self.held_bytes -= size
        self._connection.held_bytes -= size
        self._shared.budget.give(size)


def _all(message: _Incomplete) -> list[Kept]:
    """The chunks that wait, in order."""
    return [kept for chunk_id in sorted(message.waiting) for kept in message.waiting[chunk_id]]


def _id_of(chunk: MetadataHead) -> int:
    return chunk.chunk_id or 0
