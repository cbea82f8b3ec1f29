"""Limits that several holders share: tokens that are leased, and places that are taken."""

from sluicegate.budgets.budget_store import (
    MOST_TOLD,
    NOT_YET,
    OFF_PATH_S,
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
    Turn,
    check_size,
)
from sluicegate.budgets.in_memory import MemoryBudgets, MemoryBudgetStore

__all__ = [
    "MOST_TOLD",
    "NOT_YET",
    "OFF_PATH_S",
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
    "Turn",
    "check_size",
]
