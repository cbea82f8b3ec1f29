"""Stores for policies that are set at run time, and for facts."""

from sluicegate.store.memory import MemoryStore
from sluicegate.store.policy_store import Change, PolicyStore, StoreError
from sluicegate.store.sqlite import SqliteStore

__all__ = ["Change", "MemoryStore", "PolicyStore", "SqliteStore", "StoreError"]
