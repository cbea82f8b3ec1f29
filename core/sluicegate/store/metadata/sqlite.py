"""A metadata store in a SQLite file, for the processes of one host."""

import asyncio
import sqlite3
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic_ns

from sluicegate.store.metadata import sqlite_keys as keys
from sluicegate.store.metadata.tables import KEPT, Action, Result, TableMetadata
from sluicegate.store.policy_store import StoreError
from sluicegate.store.sqlite_file import SqliteFile

_POLL_S = 0.05
_BOOT = Path("/proc/sys/kernel/random/boot_id")
_DAMAGED = "restore it from a backup, or move it away to start with an empty one"


class SqliteMetadata(TableMetadata):
    """A `MetadataStore` in a file. Watches poll for changes of other processes twenty times a second.

    Leases use the host's monotonic clock, which all its processes share, and end when the host restarts.

    :param path: the database file; a missing directory is created.
    :param now_ns: the clock.
    :param kept: number of revisions whose changes are kept for watches.
    """

    def __init__(self, path: str | Path, now_ns: Callable[[], int] = monotonic_ns, kept: int = KEPT) -> None:
        super().__init__(now_ns, kept, _POLL_S, set())
        self._file = SqliteFile(path, "metadata store", keys.SCHEMA, keys.SCHEMA_VERSION, _DAMAGED)
        self._name = str(path)
        self._thread = ThreadPoolExecutor(1, "metadata store")
        self._boot = _boot()
        self._is_prepared = False

    async def close(self) -> None:
        """Close the file and end watches."""
        if not self._is_closed:
            self._is_closed = True
            self._notify_watches()
            await asyncio.get_running_loop().run_in_executor(self._thread, self._file.close)
            self._thread.shutdown(wait=False)

    async def _do(self, action: Action[Result]) -> Result:
        if self._is_closed:
            raise StoreError(f"the metadata store {self._name!r} was closed", "open it again")

        def do(connection: sqlite3.Connection) -> Result:
            if not self._is_prepared:
                connection.execute("BEGIN IMMEDIATE")
                with connection:
                    keys.note_boot(connection, self._boot, self._kept)
                self._is_prepared = True
            return action(connection)

        return await asyncio.get_running_loop().run_in_executor(self._thread, self._file.do, do)


def _boot() -> str:
    """An identifier of this boot of the host; a constant where the system has none."""
    try:
        return _BOOT.read_text().strip()
    except OSError:
        return "unknown"
