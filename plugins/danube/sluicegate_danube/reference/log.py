"""Messages of a topic, and the bytes that all topics together may keep."""

from collections.abc import Callable

from danube.proto import DanubeApi_pb2 as pb

_OVERHEAD = 512
"""Bytes that a message takes besides its encoded form, about."""


class Storage:
    """Storage of all topics of a cluster.

    :param limit: bytes.
    """

    def __init__(self, limit: int) -> None:
        self._limit = limit
        self._used = 0
        self._logs: list[Log] = []

    def make_log(self, needed_from: Callable[[], int]) -> "Log":
        """A topic's messages.

        :param needed_from: tells the offset from which on a message is still needed.
        """
        log = Log(self, needed_from)
        self._logs.append(log)
        return log

    def drop(self, log: "Log") -> None:
        """Drop a topic's messages."""
        if log in self._logs:
            self._logs.remove(log)
            self._used -= log.clear()

    def take(self, size: int) -> bool:
        """Reserve bytes; the oldest messages that no subscription needs are dropped to make room.

        :return: False if there is no room.
        """
        if self._used + size > self._limit:
            # A sixteenth more than needed, or each message would search all topics.
            wanted = self._limit - max(size, self._limit // 16)
            for log in self._logs:
                self._used -= log.forget(self._used - wanted)
        if self._used + size > self._limit:
            return False
        self._used += size
        return True


class Log:
    """The messages of one topic, by offset. `Storage.make_log` makes it."""

    def __init__(self, storage: Storage, needed_from: Callable[[], int]) -> None:
        self._storage = storage
        self._needed_from = needed_from
        self._kept: dict[int, pb.StreamMessage] = {}
        self._first = 0
        self.end = 0
        """Offset of the next message."""

    def append(self, message: pb.StreamMessage) -> bool:
        """Store a message and set its offset.

        :return: False if there is no room for it.
        """
        message.msg_id.topic_offset = self.end  # first, as it is part of the size
        if not self._storage.take(_size(message)):
            return False
        self._kept[self.end] = message
        self.end += 1
        return True

    def forget(self, size: int) -> int:
        """Drop the oldest messages that no subscription needs.

        :param size: bytes to free.
        :return: bytes that were freed.
        """
        free = 0
        needed_from = self._needed_from() if size > 0 else 0
        while free < size and self._first < needed_from:
            free += _size(self._kept.pop(self._first))
            self._first += 1
        return free

    def clear(self) -> int:
        """Drop all messages; returns the bytes that were freed."""
        free = sum(map(_size, self._kept.values()))
        self._kept.clear()
        self._first = self.end
        return free

    def __getitem__(self, offset: int) -> pb.StreamMessage:
        """The message at an offset.

        :raises KeyError: if it is not kept.
        """
        return self._kept[offset]

    def messages(self) -> list[pb.StreamMessage]:
        """Stored messages, oldest first."""
        return list(self._kept.values())


def _size(message: pb.StreamMessage) -> int:
    return int(message.ByteSize()) + _OVERHEAD
