"""Keeps the chunks of a message in order for one consumer.

On Shared and Key_Shared subscriptions a broker holds back each chunk by itself until its delivery time. A
chunk that the broker reads after that time overtakes those that it read before and still holds. Client
libraries drop a message whose chunks arrive out of order, and it stays unacknowledged until the consumer
reconnects. So a chunk waits here until all chunks before it have arrived.

A chunk before it may never arrive: another consumer has it, or this one has acknowledged it. When nothing has
arrived for a while, the waiting chunks are forwarded as they are.
"""

from collections.abc import Iterable
from typing import Final

from sluicegate_pulsar.codec.metadata import MetadataHead
from sluicegate_pulsar.events import PulsarEvent
from sluicegate_pulsar.session.consumers.withheld import OverfullError, Withheld
from sluicegate_pulsar.session.producer_state.chunks import key_of
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.shared.shared import Shared

_LONGEST_NS: Final = 30_000_000_000
"""Half of the time after which the Java client drops an incomplete message."""
_MOST_MESSAGES: Final = 1_000
"""Incomplete messages of one consumer; client libraries keep at most 100 unless told otherwise."""


class _Incomplete:
    """A message of which chunks are missing."""

    __slots__ = ("expected", "until_ns", "waiting")

    def __init__(self) -> None:
        self.expected = 0
        """The next chunk to forward."""
        self.waiting: dict[int, list[Withheld]] = {}
        """By chunk id: a producer that sent again may have stored a chunk more than once."""
        self.until_ns = 0
        """When the waiting chunks are forwarded although some are missing."""

    def take(self) -> list[Withheld]:
        """The chunks that wait, in order; they wait no longer."""
        chunks = [item for chunk_id in sorted(self.waiting) for item in self.waiting[chunk_id]]
        if self.waiting:
            self.expected = max(self.waiting) + 1
            self.waiting.clear()
        return chunks


class ChunkOrder:
    """Chunks that arrived before their predecessors; their bytes are charged to the connection.

    The bytes of chunks that are returned still count: the caller gives them back.

    :param shared: the front's state.
    :param connection: the consumer's.
    """

    __slots__ = ("_connection", "_messages", "_shared", "held_bytes")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._messages: dict[str, _Incomplete] = {}
        """By the key of their chunks; the message whose chunk arrived last is the last."""
        self.held_bytes = 0

    def __bool__(self) -> bool:
        return self.held_bytes > 0

    def is_early(self, chunk: MetadataHead) -> bool:
        """Whether a chunk has to wait for others of its message."""
        message = self._messages.get(key_of(chunk.uuid))
        return (0 if message is None else message.expected) < _id_of(chunk) < chunk.chunks

    def keep(self, chunk: MetadataHead, item: Withheld, now_ns: int) -> list[Withheld]:
        """Keep a chunk that `is_early`, in place of the same entry if it is here already.

        :return: chunks of another message to forward, as there are too many messages.
        :raises OverfullError: if there is no room.
        """
        size = item.size
        too_much = self.held_bytes + size > self._shared.config.consumer_buffer
        if too_much or not self._connection.memory.take(size):
            raise OverfullError
        self.held_bytes += size
        message, surplus = self._message(chunk)
        message.until_ns = now_ns + _LONGEST_NS
        same = message.waiting.setdefault(_id_of(chunk), [])
        self._forget(other for other in same if other.entry == item.entry)
        same[:] = [*(other for other in same if other.entry != item.entry), item]
        return surplus

    def passed(self, chunk: MetadataHead, now_ns: int) -> list[Withheld]:
        """A chunk is forwarded that is not early.

        :return: the chunks to forward after it, in order.
        """
        chunk_id = _id_of(chunk)
        if not 0 <= chunk_id < chunk.chunks:
            return []  # its client reports what is wrong with it
        message, behind = self._message(chunk)
        if chunk_id in (0, message.expected):  # the first one begins the message again
            message.expected = chunk_id + 1
        message.until_ns = now_ns + _LONGEST_NS
        taken = message.waiting.pop(chunk_id, [])
        while message.expected in message.waiting:
            taken += message.waiting.pop(message.expected)
            message.expected += 1
        if message.expected >= chunk.chunks:
            taken += message.take()
            del self._messages[key_of(chunk.uuid)]
        return behind + self._released(taken)

    def overdue(self, now_ns: int) -> list[Withheld]:
        """Chunks that have waited for too long, and are forwarded as they are."""
        chunks: list[Withheld] = []
        for message in self._messages.values():
            if message.waiting and now_ns >= message.until_ns:
                self._shared.count(PulsarEvent.CHUNKS_OUT_OF_ORDER)
                chunks += message.take()
        return self._released(chunks)

    def clear(self) -> None:
        """Forget all: the broker sends it again, from the first chunk on."""
        for message in self._messages.values():
            self._forget(message.take())
        self._messages.clear()

    def _message(self, chunk: MetadataHead) -> tuple[_Incomplete, list[Withheld]]:
        """What is known of a chunk's message, and chunks of another one that is forgotten for it."""
        key, surplus = key_of(chunk.uuid), []
        message = self._messages.pop(key, None)
        if message is None:
            message = _Incomplete()
            if len(self._messages) >= _MOST_MESSAGES:
                surplus = self._released(self._messages.pop(next(iter(self._messages))).take())
                if surplus:
                    self._shared.count(PulsarEvent.CHUNKS_OUT_OF_ORDER)
        self._messages[key] = message
        return message, surplus

    def _released(self, items: list[Withheld]) -> list[Withheld]:
        self.held_bytes -= sum(item.size for item in items)
        return items

    def _forget(self, items: Iterable[Withheld]) -> None:
        size = sum(item.size for item in items)
        self.held_bytes -= size
        self._connection.memory.give(size)


def _id_of(chunk: MetadataHead) -> int:
    return chunk.chunk_id or 0
