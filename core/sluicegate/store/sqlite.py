"""The default store: one SQLite file in WAL mode, shared by the gateway and the command line."""

import json
import sqlite3
from collections.abc import Mapping
from pathlib import Path

from sluicegate.model import Level, PolicyLayer, PolicyValue
from sluicegate.store.policy_store import Change, PolicyStore, Row, differences, layers_of
from sluicegate.store.sqlite_file import SqliteFile, SqliteMemory

SCHEMA_VERSION = 1
_DAMAGED = "restore it from a backup, or move it away: the file's policies remain in effect"
_KEPT_CHANGES = 10_000
SCHEMA = """
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


class SqliteStore(PolicyStore):
    """A `PolicyStore` in a SQLite file; `SqliteFile` describes how processes share it.

    :raises StoreError: if the file cannot be opened, or is not such a database.
    """

    def __init__(self, path: str | Path) -> None:
        file = SqliteFile(path, "policy store", SCHEMA, SCHEMA_VERSION, _DAMAGED)
        file.do(lambda connection: None)
        self._file: SqliteFile | SqliteMemory = file

    @property
    def openings(self) -> int:
        """How often the file was opened; more than once if it was replaced or could not be used."""
        return self._file.openings

    def layers(self) -> tuple[int, tuple[PolicyLayer, ...]]:
        """Read all settings and their version as one snapshot."""

        def read(connection: sqlite3.Connection) -> tuple[int, tuple[PolicyLayer, ...]]:
            connection.execute("BEGIN")
            try:
                version = _version(connection)
                rows = connection.execute("SELECT level, name, field, value, version FROM setting").fetchall()
            finally:
                connection.execute("ROLLBACK")
            return version, layers_of(Row(Level(r[0]), r[1], r[2], json.loads(r[3]), r[4]) for r in rows)

        return self._file.do(read)

    def version(self) -> int:
        """Number of the last change by any process."""
        return self._file.do(_version)

    def change(self, level: Level, name: str, changes: Mapping[str, PolicyValue | None], actor: str) -> int:
        """Set and remove fields in one transaction."""
        query = "SELECT field, value FROM setting WHERE level = ? AND name = ?"

        def write(connection: sqlite3.Connection) -> int:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                found = connection.execute(query, (int(level), name))
                old = {field: json.loads(value) for field, value in found}
                version = _version(connection)
                for entry in differences(level, name, changes, old, version, actor):
                    _apply(connection, entry)
                    version = entry.version
                return version

        return self._file.do(write)

    def history(self, limit: int) -> list[Change]:
        """The last changes, newest first."""
        query = (
            "SELECT version, level, name, field, value, actor, at FROM change ORDER BY version DESC LIMIT ?"
        )
        rows = self._file.do(lambda connection: connection.execute(query, (limit,)).fetchall())
        return [
            Change(r[0], Level(r[1]), r[2], r[3], None if r[4] is None else json.loads(r[4]), r[5], r[6])
            for r in rows
        ]

    def get_fact(self, key: str) -> str | None:
        """Read a fact."""
        query = "SELECT value FROM fact WHERE key = ?"
        row = self._file.do(lambda connection: connection.execute(query, (key,)).fetchone())
        return None if row is None else str(row[0])

    def put_fact(self, key: str, value: str) -> None:
        """Store a fact, or remove it."""
        statement = "INSERT OR REPLACE INTO fact VALUES (?, ?)" if value else "DELETE FROM fact WHERE key = ?"
        arguments = (key, value) if value else (key,)
        self._file.do(lambda connection: connection.execute(statement, arguments))

    def claim_fact(self, key: str, value: str) -> str:
        """Store a fact unless its key exists."""

        def claim(connection: sqlite3.Connection) -> str:
            connection.execute("INSERT OR IGNORE INTO fact VALUES (?, ?)", (key, value))
            return str(connection.execute("SELECT value FROM fact WHERE key = ?", (key,)).fetchone()[0])

        return self._file.do(claim)

    def facts(self, prefix: str) -> Mapping[str, str]:
        """Read all facts whose keys start with a prefix."""
        query = "SELECT key, value FROM fact WHERE substr(key, 1, length(?)) = ?"
        return dict(self._file.do(lambda connection: connection.execute(query, (prefix, prefix)).fetchall()))

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def _version(connection: sqlite3.Connection) -> int:
    row = connection.execute("SELECT version FROM counter").fetchone()
    if row is None:
        raise ValueError("its version is missing")
    return int(row[0])


def _apply(connection: sqlite3.Connection, entry: Change) -> None:
    version, key = entry.version, (int(entry.level), entry.name, entry.field)
    value = None if entry.value is None else json.dumps(entry.value)
    connection.execute("UPDATE counter SET version = ?", (version,))
    if value is None:
        connection.execute("DELETE FROM setting WHERE level = ? AND name = ? AND field = ?", key)
    else:
        connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?, ?, ?, ?)", (*key, value, version))
    row = (version, *key, value, entry.actor, entry.at)
    connection.execute("INSERT INTO change VALUES (?, ?, ?, ?, ?, ?, ?)", row)
    connection.execute("DELETE FROM change WHERE version <= ?", (version - _KEPT_CHANGES,))
