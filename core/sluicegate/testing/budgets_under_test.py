"""What the suites of a budget store need of the stores that they try."""

from abc import ABC, abstractmethod

from sluicegate.budgets import BudgetStore

LEASE_S = 0.2
"""How long leased tokens can be spent, in the stores under test."""
PERIOD_S = 0.05
"""How often holders ask."""
PLACE_LEASE_S = 1.0
"""How long a place is held without being renewed."""


class BudgetsUnderTest(ABC):
    """One set of budgets, for the suite: all its stores share them. Their time stands until it is turned."""

    @abstractmethod
    async def open(self, holder: str) -> BudgetStore:
        """A store for one holder; they are closed by the fixture that made this."""

    @abstractmethod
    def turn(self, seconds: float) -> None:
        """Let time pass for the stores, in seconds; nothing waits."""

    @abstractmethod
    async def lose(self) -> None:
        """Lose all that the stores keep, as by a restart without data."""
