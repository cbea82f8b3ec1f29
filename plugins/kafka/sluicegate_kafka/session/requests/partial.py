"""A partial frame that is needed whole."""

from sluicegate.broker import Close
from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import Pieces


def no_room() -> Close:
    """Close a connection for lack of memory."""
    return Close("buffer_budget_used_up", "all clients together hold too many bytes")


class Partial(Pieces):
    """The pieces of one partial frame; empty if there is none.

    :param budget: bytes that all clients may hold together.
    """

    __slots__ = ("_need",)

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self._need = 0

    def begin(self, piece: bytes, need: int) -> None:
        """Keep the start of a frame.

        :param piece: the bytes received so far.
        :param need: bytes needed before it is parsed again.
        :raises NoRoomError: if the budget is used up; the piece is not kept then.
        """
        self._need = need
        self.keep(piece)

    def add(self, piece: bytes) -> bytes | None:
        """Add the next bytes.

        :return: all bytes, which are then released, once there are enough; else None.
        :raises NoRoomError: if the budget is used up; the piece is not kept then.
        """
        self.keep(piece)
        if self.size < self._need:
            return None
        return self.all()
