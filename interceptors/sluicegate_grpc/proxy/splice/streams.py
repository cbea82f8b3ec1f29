"""The open streams of one connection: their limit, and their memory."""

from sluicegate.engine.budget import Budget

STREAM_BYTES = 2_048
"""What an open stream takes at most, besides the bytes that are kept of it."""
_FREE = 8
"""So many are part of what a connection takes."""


class Streams:
    """The open streams of one connection.

    Memory is taken for twice as many as before when it runs out, and given back once only a quarter of it is
    in use: so calls that come and go cost nothing here.

    :param budget: bytes that all sessions may keep together.
    :param limit: how many may be open at once (SETTINGS_MAX_CONCURRENT_STREAMS).
    """

    __slots__ = ("_budget", "_limit", "floor", "ids", "room")

    def __init__(self, budget: Budget, limit: int) -> None:
        self._budget = budget
        self._limit = limit
        self.ids: set[int] = set()
        """Those that the broker has yet to end."""
        self.room = min(_FREE, limit)
        """How many there is memory for."""
        self.floor = 0
        """With fewer open than that, `shrink` gives memory back."""

    @property
    def is_full(self) -> bool:
        """Whether the limit is reached."""
        return len(self.ids) >= self._limit

    @property
    def reserved_bytes(self) -> int:
        """The reserved memory."""
        return max(0, self.room - _FREE) * STREAM_BYTES

    def grow(self) -> bool:
        """Make room for more; False if there are too many, or too much is kept for all connections."""
        room = min(2 * self.room, self._limit)
        return room > self.room and self._budget.take((room - self.room) * STREAM_BYTES) and self._set(room)

    def ended(self, stream: int) -> None:
        """A stream has ended."""
        self.ids.discard(stream)
        if len(self.ids) < self.floor:
            self.shrink()

    def closed(self) -> None:
        """The connection is closed."""
        self.ids.clear()
        self.shrink()

    def shrink(self) -> None:
        """Give back the memory that is not needed."""
        room = self.room
        while room > _FREE and len(self.ids) < room // 4:
            room = max(_FREE, room // 2)
        self._budget.give((self.room - room) * STREAM_BYTES)
        self._set(room)

    def _set(self, room: int) -> bool:
        self.room = room
        self.floor = room // 4 if room > _FREE else 0
        return True
