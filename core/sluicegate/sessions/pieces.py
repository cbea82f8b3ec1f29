"""Bytes that a session keeps until they are looked at: a frame that has come in part, or what must wait."""

from sluicegate.engine.budget import Budget


class NoRoomError(Exception):
    """The bytes that all clients may hold together are used up."""


class Pieces:
    """Bytes of one client in the order in which they came, taken from the budget of all.

    :param budget: bytes that all clients may hold together.
    """

    __slots__ = ("_budget", "_pieces", "size")

    def __init__(self, budget: Budget) -> None:
        self.size = 0
        """Bytes that are here."""
        self._budget = budget
        self._pieces: list[bytes] = []

    def keep(self, piece: bytes) -> None:
        """Keep what came next.

        :raises NoRoomError: if the budget is used up; the piece is not kept then.
        """
        if not self._budget.take(len(piece)):
            raise NoRoomError
        self._pieces.append(piece)
        self.size += len(piece)

    def joined(self) -> bytes:
        """All that is here, which stays."""
        whole = b"".join(self._pieces)
        self._pieces = [whole]
        return whole

    def all(self) -> bytes:
        """All that is here; nothing is kept any more."""
        whole = b"".join(self._pieces)
        self.drop()
        return whole

    def behind_first(self) -> bytes:
        """All that is here after the first piece; nothing is kept any more."""
        rest = b"".join(self._pieces[1:])
        self.drop()
        return rest

    def drop(self) -> None:
        """Forget what is here."""
        self._budget.give(self.size)
        self._pieces.clear()
        self.size = 0
