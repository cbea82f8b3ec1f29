"""Stores for policies that are set at run time, and for facts."""

from sluicegate.store.memory import MemoryStore
from sluicegate.store.policy_store import (
    Author,
    Change,
    Edit,
    Key,
    PolicyStore,
    Revision,
    Row,
    StoreConflictError,
    StoreError,
    StoreUnavailableError,
    differences,
    layers_of,
)
from sluicegate.store.sqlite import SqliteStore

__all__ = [
    "Author",
    "Change",
    "Edit",
    "Key",
    "MemoryStore",
    "PolicyStore",
    "Revision",
    "Row",
    "SqliteStore",
    "StoreConflictError",
    "StoreError",
    "StoreUnavailableError",
    "differences",
    "layers_of",
]
