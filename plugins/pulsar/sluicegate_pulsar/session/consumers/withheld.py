"""Frames that are withheld for one consumer, in the order in which the broker sent them."""

from collections import deque
from dataclasses import dataclass
from typing import Final

from sluicegate_pulsar.codec.message_frames import MessageHead
from sluicegate_pulsar.session.consumers.due import Dates
from sluicegate_pulsar.session.consumers.unacked import Entry
from sluicegate_pulsar.session.requests.connection import Connection
from sluicegate_pulsar.session.shared.shared import Shared

OVERHEAD: Final = 300
"""Bytes that a withheld frame takes besides its own: what was read of it, and its entries in the queue."""
_MOST_REPLACED = 1_000
"""Replaced frames that may stay in the queue, in addition to as many as there are others."""


class OverfullError(Exception):
    """There is no room to withhold one more frame for a consumer."""


@dataclass(slots=True)
class Withheld:
    """One withheld frame."""

    frame: bytes
    """Empty once the broker has sent the same entry again."""
    entry: Entry | None
    """None for a frame that is no message and only keeps its position in the queue."""
    messages: int = 0
    """Permits that the broker counts for it."""
    payload_bytes: int = 0
    dates: Dates | None = None

    @property
    def size(self) -> int:
        """Bytes in memory; 0 if another frame has replaced it."""
        return len(self.frame) + OVERHEAD if self.frame else 0

    @classmethod
    def of(
        cls, data: bytes, start: int, stop: int, head: MessageHead, entry: Entry, dates: Dates | None
    ) -> "Withheld":
        """A message whose frame is in a buffer.

        :param dates: None where no delay is set.
        """
        if dates is None:  # a delay may be set while it waits for its rate
            dates = Dates(head.metadata.publish_time, None)
        return cls(data[start:stop], entry, head.messages, stop - head.parts.payload, dates)


class WithheldQueue:
    """Withheld frames of one consumer; their bytes count for its connection and for all clients."""

    __slots__ = ("_by_entry", "_connection", "_items", "_replaced", "_shared", "held_bytes")

    def __init__(self, shared: Shared, connection: Connection) -> None:
        self._shared = shared
        self._connection = connection
        self._items: deque[Withheld] = deque()
        self._by_entry: dict[Entry, Withheld] = {}
        self._replaced = 0
        self.held_bytes = 0

    def __len__(self) -> int:
        return len(self._items)

    @property
    def first(self) -> Withheld:
        """The first frame."""
        return self._items[0]

    def append(self, item: Withheld) -> int:
        """Append a frame.

        :return: permits of an earlier frame of the same entry, which it replaces: the broker has restarted
            delivery, and only the later one is in order.
        :raises OverfullError: if there is no room.
        """
        size = item.size
        too_much = self._items and self.held_bytes + size > self._shared.config.consumer_buffer
        if too_much or not self._connection.memory.take(size):
            raise OverfullError
        return self.append_held(item)

    def append_held(self, item: Withheld) -> int:
        """Append a frame whose bytes count already; see `append`."""
        self.held_bytes += item.size
        self._items.append(item)
        if item.entry is None:
            return 0
        again = self._by_entry.get(item.entry)
        self._by_entry[item.entry] = item
        if again is None:
            return 0
        messages = again.messages
        self._release(again.size)
        again.frame, again.entry, again.messages = b"", None, 0
        self._replaced += 1
        if self._replaced > len(self._by_entry) + _MOST_REPLACED:
            self._items = deque(item for item in self._items if item.frame)
            self._replaced = 0
        return messages

    def take_first(self) -> None:
        """Remove the first frame."""
        item = self._items.popleft()
        if item.entry is not None:
            del self._by_entry[item.entry]
        else:
            self._replaced -= not item.frame
        self._release(item.size)

    def clear(self) -> int:
        """Forget all; returns their permits."""
        messages = sum(item.messages for item in self._items)
        self._items.clear()
        self._by_entry.clear()
        self._replaced = 0
        self._release(self.held_bytes)
        return messages

    def _release(self, size: int) -> None:
        self.held_bytes -= size
        self._connection.memory.give(size)
