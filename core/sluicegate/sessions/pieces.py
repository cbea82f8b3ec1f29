"""Bytes that a session buffers: an incomplete frame, or data that must wait."""

from typing import Final

from sluicegate.engine.budget import Budget
from sluicegate.model import ConnectionClose

NO_ROOM: Final = (ConnectionClose.BUFFER_BUDGET_USED_UP, "all clients together hold too many bytes")
"""Counter and detail of the `Close` of a client for which there is no room."""
ALL: Final = 2**62
"""More bytes than ever come: what is buffered is taken by the session itself."""


class NoRoomError(Exception):
    """The budget for the buffers of all clients is exhausted."""


class Pieces:
    """Buffered bytes of one client in order of arrival, charged to the budget of all clients.

    :param budget: bytes that all clients may buffer together.
    """

    __slots__ = ("_budget", "_need", "_pieces", "size")

    def __init__(self, budget: Budget) -> None:
        self._need = 0
        self.size = 0
        """Buffered bytes."""
        self._budget = budget
        self._pieces: list[bytes] = []

    def keep(self, piece: bytes) -> None:
        """Append bytes.

        :raises NoRoomError: if the budget is exhausted; the piece is not buffered then.
        """
        if not self._budget.take(len(piece)):
            raise NoRoomError
        self._pieces.append(piece)
        self.size += len(piece)

    def begin(self, piece: bytes, need: int) -> None:
        """Buffer the start of a frame.

        :param piece: the bytes received so far.
        :param need: bytes needed before it is parsed again.
        :raises NoRoomError: if the budget is exhausted; the piece is not buffered then.
        """
        self._need = need
        self.keep(piece)

    def add(self, piece: bytes) -> bytes | None:
        """Append the next bytes of a frame.

        :return: all bytes, which are no longer buffered, once there are enough; else None.
        :raises NoRoomError: if the budget is exhausted; the piece is not buffered then.
        """
        self.keep(piece)
        return self.all() if self.size >= self._need else None

    def joined(self) -> bytes:
        """All buffered bytes, which remain buffered."""
        whole = b"".join(self._pieces)
        self._pieces = [whole]
        return whole

    def all(self) -> bytes:
        """Remove and return all buffered bytes."""
        whole = b"".join(self._pieces)
        self.drop()
        return whole

    def behind_first(self) -> bytes:
        """Remove all buffered bytes and return those after the first piece."""
        rest = b"".join(self._pieces[1:])
        self.drop()
        return rest

    def drop(self) -> None:
        """Discard all buffered bytes."""
        self._budget.give(self.size)
        self._pieces.clear()
        self.size = 0
