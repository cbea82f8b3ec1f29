"""Bytes that a client sent after a held request: received, not yet parsed."""

from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import Pieces

_LIMIT = 256 * 1024
"""Bytes that are read ahead, so that a client that hangs up is noticed."""


class ReadAhead(Pieces):
    """Bytes of one client that wait for their turn.

    :param budget: bytes that all clients may hold together.
    """

    __slots__ = ("is_paused",)

    def __init__(self, budget: Budget) -> None:
        super().__init__(budget)
        self.is_paused = False
        """Whether the client is not read from any more."""

    @property
    def is_enough(self) -> bool:
        """Whether reading should pause."""
        return self.size >= _LIMIT
