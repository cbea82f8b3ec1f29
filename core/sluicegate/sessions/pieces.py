"""Bytes that a session buffers: an incomplete frame, or what must wait."""

from sluicegate.engine.budget import Budget


class NoRoomError(Exception):
    """The budget for the buffers of all clients is exhausted."""


class Pieces:
    """Buffered bytes of one client in order of arrival, charged to the budget of all clients.

    :param budget: bytes that all clients may buffer together.
    """

    __slots__ = ("_budget", "_pieces", "size")

    def __init__(self, budget: Budget) -> None:
        self.size = 0
        """Bytes that are here."""
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

    def joined(self) -> bytes:
        """All buffered bytes, which stay."""
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
