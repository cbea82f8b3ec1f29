"""A store in memory, for tests, demos and gateways without a state directory."""

from sluicegate.store.sqlite import SCHEMA, SqliteStore
from sluicegate.store.sqlite_file import SqliteMemory


class MemoryStore(SqliteStore):
    """A `PolicyStore` in an in-memory SQLite database."""

    def __init__(self) -> None:
        self._file = SqliteMemory(SCHEMA)
