"""Where policies that were set at run time are kept, and small facts beside them."""

from sluicegate.store.memory import MemoryStore
from sluicegate.store.policy_store import Change, PolicyStore, StoreError
from sluicegate.store.sqlite import SqliteStore

__all__ = ["Change", "MemoryStore", "PolicyStore", "SqliteStore", "StoreError"]
