"""The default store: one SQLite file in WAL mode, shared by the gateway and the command line."""

import json
import sqlite3
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import closing
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from sluicegate.model import Level, PolicyLayer, PolicyValue
from sluicegate.private_files import make_database, make_folder
from sluicegate.store.base import Change, Row, StoreError, layers_of

SCHEMA_VERSION = 1
_BUSY_S = 1.0
_KEPT_CHANGES = 10_000
_SCHEMA = """
CREATE TABLE IF NOT EXISTS setting (
  level INTEGER NOT NULL, name TEXT NOT NULL, field TEXT NOT NULL, value TEXT NOT NULL,
  version INTEGER NOT NULL, PRIMARY KEY (level, name, field)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS change (
  version INTEGER PRIMARY KEY, level INTEGER NOT NULL, name TEXT NOT NULL, field TEXT NOT NULL,
  value TEXT, actor TEXT NOT NULL, at TEXT NOT NULL);
CREATE TABLE IF NOT EXISTS fact (key TEXT PRIMARY KEY, value TEXT NOT NULL) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS counter (version INTEGER NOT NULL);
INSERT INTO counter SELECT 0 WHERE NOT EXISTS (SELECT 1 FROM counter);
"""

Result = TypeVar("Result")


class SqliteStore:
    """See `PolicyStore`.

    Readers are never blocked by writers; a writer waits at most a second for another one. If the file is
    replaced (restored from a backup, say), the new file is read from then on.

    :param path: the database file; its directory is made if it is missing.
    :raises StoreError: if the file cannot be opened or is no such database.
    """

    def __init__(self, path: str | Path) -> None:
        self._path = Path(path)
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self._do(lambda connection: None)

    def layers(self) -> tuple[int, tuple[PolicyLayer, ...]]:
        """Everything that is set, and the version it belongs to, read as one snapshot."""

        def read(connection: sqlite3.Connection) -> tuple[int, tuple[PolicyLayer, ...]]:
            connection.execute("BEGIN")
            try:
                version = _version(connection)
                rows = connection.execute("SELECT level, name, field, value, version FROM setting").fetchall()
            finally:
                connection.execute("ROLLBACK")
            return version, layers_of(Row(Level(r[0]), r[1], r[2], json.loads(r[3]), r[4]) for r in rows)

        return self._do(read)

    def version(self) -> int:
        """Number of the last change, by any process."""
        return self._do(_version)

    def set(self, level: Level, name: str, field: str, value: PolicyValue, actor: str) -> int:
        """Set one field."""
        return self._write(level, name, field, json.dumps(value), actor)

    def unset(self, level: Level, name: str, field: str, actor: str) -> int:
        """Take one field away."""
        return self._write(level, name, field, None, actor)

    def _write(self, level: Level, name: str, field: str, value: str | None, actor: str) -> int:
        key = (int(level), name, field)
        at = datetime.now(UTC).isoformat(timespec="seconds")

        def write(connection: sqlite3.Connection) -> int:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                old = connection.execute(
                    "SELECT value FROM setting WHERE level = ? AND name = ? AND field = ?", key
                ).fetchone()
                version = _version(connection)
                if (old[0] if old else None) == value:
                    return version
                version += 1
                connection.execute("UPDATE counter SET version = ?", (version,))
                if value is None:
                    connection.execute("DELETE FROM setting WHERE level = ? AND name = ? AND field = ?", key)
                else:
                    connection.execute(
                        "INSERT OR REPLACE INTO setting VALUES (?, ?, ?, ?, ?)", (*key, value, version)
                    )
                connection.execute(
                    "INSERT INTO change VALUES (?, ?, ?, ?, ?, ?, ?)", (version, *key, value, actor, at)
                )
                connection.execute("DELETE FROM change WHERE version <= ?", (version - _KEPT_CHANGES,))
                return version

        return self._do(write)

    def history(self, limit: int) -> list[Change]:
        """The last changes, newest first."""
        query = (
            "SELECT version, level, name, field, value, actor, at FROM change ORDER BY version DESC LIMIT ?"
        )
        rows = self._do(lambda connection: connection.execute(query, (limit,)).fetchall())
        return [
            Change(r[0], Level(r[1]), r[2], r[3], None if r[4] is None else json.loads(r[4]), r[5], r[6])
            for r in rows
        ]

    def get_fact(self, key: str) -> str | None:
        """A fact kept with `put_fact`."""
        query = "SELECT value FROM fact WHERE key = ?"
        row = self._do(lambda connection: connection.execute(query, (key,)).fetchone())
        return None if row is None else str(row[0])

    def put_fact(self, key: str, value: str) -> None:
        """Keep a small fact."""
        statement = "INSERT OR REPLACE INTO fact VALUES (?, ?)"
        self._do(lambda connection: connection.execute(statement, (key, value)))

    def facts(self, prefix: str) -> Mapping[str, str]:
        """All facts whose keys begin with a prefix."""
        query = "SELECT key, value FROM fact WHERE substr(key, 1, length(?)) = ?"
        return dict(self._do(lambda connection: connection.execute(query, (prefix, prefix)).fetchall()))

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self._disconnect()

    def _do(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run one action on the connection, opened anew if there is none or the file was replaced."""
        with self._lock:
            try:
                found = self._identity()
                if found is None and self._file is not None:
                    # A new, empty file in its place would silently take all policies back.
                    raise FileNotFoundError("it is gone")
                if self._connection is None or self._file != found:
                    self._disconnect()
                    self._connect()
                assert self._connection is not None  # noqa: S101 - _connect sets it or raises
                return action(self._connection)
            except (sqlite3.Error, OSError, ValueError) as error:
                self._disconnect()
                raise self._explain(error) from error

    def _connect(self) -> None:
        make_folder(self._path.parent)
        make_database(self._path)
        # Transactions are begun by hand (isolation_level None): the module would begin them too late.
        self._connection = sqlite3.connect(
            self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        found = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if found not in (0, SCHEMA_VERSION):
            raise ValueError(f"its schema has version {found}, this program knows {SCHEMA_VERSION}")
        _use_wal(self._connection)
        if found == 0:
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {_SCHEMA} PRAGMA user_version = {SCHEMA_VERSION}; COMMIT;"
            )
        self._file = self._identity()

    def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            with closing(connection):
                pass

    def _identity(self) -> tuple[int, int] | None:
        try:
            found = self._path.stat()
        except FileNotFoundError:
            return None
        return (found.st_dev, found.st_ino)

    def _explain(self, error: Exception) -> StoreError:
        store = f"policy store {str(self._path)!r}"
        text = str(error)
        if "locked" in text or "busy" in text:
            return StoreError(
                f"{store} is locked by another process", "try again; end the program that holds it"
            )
        if isinstance(error, sqlite3.OperationalError | OSError):
            return StoreError(
                f"{store} cannot be used ({text})", "check the path, its permissions and free space"
            )
        return StoreError(
            f"{store} is damaged or of another kind ({text})",
            "restore it from a backup, or move it away: policies of the file still hold",
        )


def _use_wal(connection: sqlite3.Connection) -> None:
    """Switch to WAL mode; SQLite does not wait by itself when several processes make the file at once."""
    deadline = time.monotonic() + _BUSY_S
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(0.005)
        else:
            return


def _version(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT version FROM counter").fetchone()
    if row is None:
        raise ValueError("its version is missing")
    return int(row[0])
