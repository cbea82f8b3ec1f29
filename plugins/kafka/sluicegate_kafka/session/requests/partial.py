"""A frame that has arrived only in part and is wanted whole."""

from sluicegate.broker import Close
from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import Pieces


def no_room() -> Close:
    """The end of a connection for which there is no room."""
    return Close("buffer_budget_used_up", "all clients together hold too many bytes")


class Partial(Pieces):
    """The pieces of one frame; empty while none is waited for.

    :param budget: bytes that all clients may hold together.
    """

    __slots__ = ("_need",)

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._need = 0

    def begin(self, piece: bytes, need: int) -> None:
        """Keep the start of a frame.

        :param piece: what has come of it.
        :param need: bytes that must be here before it is looked at again.
        :raises NoRoomError: if the budget is used up; the piece is not kept then.
        """
        self._need = need
        self.keep(piece)

    def add(self, piece: bytes) -> bytes | None:
        """Keep what comes next.

        :return: all that was kept, and no longer is, once it is as much as was needed; else None.
        :raises NoRoomError: if the budget is used up; the piece is not kept then.
        """
        self.keep(piece)
        if self.size < self._need:
            return None
        return self.all()
