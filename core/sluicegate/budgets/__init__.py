"""Limits that several holders share: tokens that are leased, and places that are taken."""

from sluicegate.budgets.budget_store import (
    TAKEN,
    BudgetStore,
    BudgetStoreError,
    Grant,
    Limit,
    Member,
    Place,
    Request,
    SameNameError,
    Standing,
)
from sluicegate.budgets.in_memory import MemoryBudgets, MemoryBudgetStore

__all__ = [
    "TAKEN",
    "BudgetStore",
    "BudgetStoreError",
    "Grant",
    "Limit",
    "Member",
    "MemoryBudgetStore",
    "MemoryBudgets",
    "Place",
    "Request",
    "SameNameError",
    "Standing",
]
