"""Memory of one connection, charged to the budget of all sessions."""

from sluicegate.engine.budget import Budget
from sluicegate.sessions.pieces import NoRoomError


class Memory:
    """Bytes that rooms keep for one connection.

    :param budget: bytes that all sessions may hold together.
    """

    __slots__ = ("_budget", "nbytes")

    def __init__(self, budget: Budget) -> None:
        self._budget = budget
        self.nbytes = 0

    def take(self, size: int) -> bool:
        """Take memory; False if there is not enough."""
        if not self._budget.take(size):
            return False
        self.nbytes += size
        return True

    def keep(self, size: int) -> None:
        """Take memory for what cannot be refused.

        :raises NoRoomError: if there is not enough.
        """
        if not self.take(size):
            raise NoRoomError

    def charge(self, size: int) -> None:
        """Count memory that is used already; below 0 to give it back."""
        if size < 0:
            self.give(-size)
        else:
            self._budget.charge(size)
            self.nbytes += size

    def give(self, size: int) -> None:
        """Give memory back."""
        self._budget.give(size)
        self.nbytes -= size

    def count(self, size: int) -> None:
        """Count memory that another room charges to the budget; below 0 where it gives it back."""
        self.nbytes += size
