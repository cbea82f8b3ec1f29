"""What a client sent behind a request that must wait: read, and not looked at yet."""

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
        """Whether no more should be read."""
        return self.size >= _LIMIT
