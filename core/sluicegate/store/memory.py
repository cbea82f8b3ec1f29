"""A store that lives as long as its process: for tests, demos and gateways without a state directory."""

from sluicegate.store.sqlite import SCHEMA, SqliteStore
from sluicegate.store.sqlite_file import SqliteMemory


class MemoryStore(SqliteStore):
    """See `PolicyStore`."""

    def __init__(self) -> None:
        self._file = SqliteMemory(SCHEMA)
