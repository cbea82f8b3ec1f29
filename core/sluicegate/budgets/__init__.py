"""Limits that several holders share: tokens that are leased, and places that are taken."""

from sluicegate.budgets.budget_store import TAKEN, BudgetStore, BudgetStoreError, Grant, Limit, Place, Request
from sluicegate.budgets.in_memory import MemoryBudgets, MemoryBudgetStore

__all__ = [
    "TAKEN",
    "BudgetStore",
    "BudgetStoreError",
    "Grant",
    "Limit",
    "MemoryBudgetStore",
    "MemoryBudgets",
    "Place",
    "Request",
]
