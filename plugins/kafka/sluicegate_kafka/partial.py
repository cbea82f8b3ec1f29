"""A frame that has arrived only in part and is wanted whole."""

from sluicegate.broker import Close
from sluicegate.engine.budget import Budget


class NoRoomError(Exception):
    """The bytes that all clients may hold together are used up."""


def no_room() -> Close:
    """The end of a connection for which there is no room."""
    return Close("buffer_budget_used_up", "all clients together hold too many bytes")


class Partial:
    """The pieces of one frame; empty while none is waited for.

    :param budget: bytes that all clients may hold together.
    """

    __slots__ = ("_budget", "_need", "_pieces", "size")

    def __init__(self, budget: Budget) -> None:
        self.size = 0
        """Bytes that are here."""
        self._budget = budget
        self._need = 0
        self._pieces: list[bytes] = []

    def begin(self, piece: bytes, need: int) -> None:
        """Keep the start of a frame.

        :param piece: what has come of it.
        :param need: bytes that must be here before it is looked at again.
        :raises NoRoomError: if the budget is used up; the piece is not kept then.
        """
        self._need = need
        self._take(piece)

    def add(self, piece: bytes) -> bytes | None:
        """Keep what comes next.

        :return: all that was kept, and no longer is, once it is as much as was needed; else None.
        :raises NoRoomError: if the budget is used up; the piece is not kept then.
        """
        self._take(piece)
        if self.size < self._need:
            return None
        return self.all()

    def behind_first(self) -> bytes:
        """All that was kept after the first piece; nothing is kept any more."""
        rest = b"".join(self._pieces[1:])
        self.drop()
        return rest

    def all(self) -> bytes:
        """All that was kept; nothing is kept any more."""
        whole = b"".join(self._pieces)
        self.drop()
        return whole

    def drop(self) -> None:
        """Forget what is here."""
        self._budget.give(self.size)
        self._pieces.clear()
        self.size = 0

    def _take(self, piece: bytes) -> None:
        if not self._budget.take(len(piece)):
            raise NoRoomError
        self._pieces.append(piece)
        self.size += len(piece)
