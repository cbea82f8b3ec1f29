"""Stores for policies that are set at run time, and for facts."""

from sluicegate.store.memory import MemoryStore
from sluicegate.store.policy_store import Author, Change, Edit, Key, PolicyStore, Revision, StoreError
from sluicegate.store.sqlite import SqliteStore

__all__ = [
    "Author",
    "Change",
    "Edit",
    "Key",
    "MemoryStore",
    "PolicyStore",
    "Revision",
    "SqliteStore",
    "StoreError",
]
