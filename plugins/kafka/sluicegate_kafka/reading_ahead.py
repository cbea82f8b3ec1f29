"""What a client sent behind a request that must wait: read, and not looked at yet."""

from sluicegate.engine.budget import Budget
from sluicegate_kafka.partial import NoRoomError

_LIMIT = 256 * 1024
"""Bytes that are read ahead, so that a client that hangs up is noticed."""


class ReadAhead:
    """Bytes of one client that wait for their turn.

    :param budget: bytes that all clients may hold together.
    """

    __slots__ = ("_budget", "_pieces", "is_paused", "size")

    def __init__(self, budget: Budget) -> None:
        self.size = 0
        """Bytes that are here."""
        self.is_paused = False
        """Whether the client is not read from any more."""
        self._budget = budget
        self._pieces: list[bytes] = []

    def add(self, data: bytes) -> None:
        """Keep what came next.

        :raises NoRoomError: if the budget is used up; the bytes are not kept then.
        """
        if not self._budget.take(len(data)):
            raise NoRoomError
        self._pieces.append(data)
        self.size += len(data)

    @property
    def is_enough(self) -> bool:
        """Whether no more should be read."""
        return self.size >= _LIMIT

    def take(self) -> bytes:
        """All that is here, which no longer is."""
        data = b"".join(self._pieces)
        self.drop()
        return data

    def drop(self) -> None:
        """Forget what is here."""
        self._budget.give(self.size)
        self._pieces.clear()
        self.size = 0
