"""The default store: one SQLite file in WAL mode, shared by the gateway and the command line."""

import json
import sqlite3
from collections.abc import Mapping, Sequence
from pathlib import Path

from sluicegate.model import Level, PolicyLayer, PolicyValue
from sluicegate.store.policy_store import (
    Author,
    Change,
    Edit,
    Key,
    PolicyStore,
    Revision,
    Row,
    differences,
    layers_of,
    now_text,
    refuse_conflict,
)
from sluicegate.store.records import decoded_revision, encoded_revision
from sluicegate.store.sqlite_file import SqliteFile, SqliteMemory

SCHEMA_VERSION = 2
_DAMAGED = "restore it from a backup, or move it away: the file's policies remain in effect"
_KEPT_CHANGES = 10_000
_NO_BOUND = 2**62
_KEY = "level = ? AND name = ? AND field = ? AND broker = ?"
_PARTS = 4
"""Parts of a key that the table has: the store sets nothing for a scope."""
SCHEMA = """
CREATE TABLE IF NOT EXISTS setting (
  level INTEGER NOT NULL, name TEXT NOT NULL, field TEXT NOT NULL, broker TEXT NOT NULL, value TEXT NOT NULL,
  version INTEGER NOT NULL, PRIMARY KEY (level, name, field, broker)) WITHOUT ROWID;
CREATE TABLE IF NOT EXISTS revision (version INTEGER PRIMARY KEY, content TEXT NOT NULL);
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
            # One snapshot, so that the version is that of the settings.
            connection.execute("BEGIN")
            try:
                version = _version(connection)
                rows = connection.execute("SELECT * FROM setting").fetchall()
            finally:
                connection.execute("ROLLBACK")
            return version, layers_of(Row(Key(Level(r[0]), *r[1:4]), json.loads(r[4]), r[5]) for r in rows)

        return self._file.do(read)

    def version(self) -> int:
        """Number of the last change by any process."""
        return self._file.do(_version)

    def change(
        self, edits: Sequence[Edit], author: Author, expected: int | None = None, policies: str = ""
    ) -> int:
        """Set and remove fields in one transaction."""

        def write(connection: sqlite3.Connection) -> int:
            # Locks before the first read: a transaction that has read cannot write once another one has.
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                version = _version(connection)
                refuse_conflict(expected, version)
                changes = differences(edits, lambda key: _value(connection, key))
                if not changes:
                    return version
                for change in changes:
                    _apply(connection, change, version + 1)
                return _note(connection, Revision(version + 1, author, now_text(), changes, policies))

        return self._file.do(write)

    def record(self, author: Author, changes: Sequence[Change], policies: str) -> int:
        """Note in the history that a configuration file changed."""

        def write(connection: sqlite3.Connection) -> int:
            connection.execute("BEGIN IMMEDIATE")
            with connection:
                number = _version(connection) + 1
                revision = Revision(number, author, now_text(), tuple(changes), policies, is_of_file=True)
                return _note(connection, revision)

        return self._file.do(write)

    def history(self, limit: int, before: int | None = None) -> list[Revision]:
        """The last revisions, newest first."""
        query = "SELECT content FROM revision WHERE version < ? ORDER BY version DESC LIMIT ?"
        arguments = (_NO_BOUND if before is None else before, limit)
        rows = self._file.do(lambda connection: connection.execute(query, arguments).fetchall())
        return [decoded_revision(content) for (content,) in rows]

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
        # No LIKE or GLOB, as a prefix may have their wildcards in it.
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


def _value(connection: sqlite3.Connection, key: Key) -> PolicyValue | None:
    query = f"SELECT value FROM setting WHERE {_KEY}"  # noqa: S608 - a constant
    row = connection.execute(query, key[:_PARTS]).fetchone()
    value: PolicyValue | None = None if row is None else json.loads(row[0])
    return value


def _apply(connection: sqlite3.Connection, change: Change, version: int) -> None:
    if change.new is None:
        statement = f"DELETE FROM setting WHERE {_KEY}"  # noqa: S608 - a constant
        connection.execute(statement, change.key[:_PARTS])
    else:
        row = (*change.key[:_PARTS], json.dumps(change.new), version)
        connection.execute("INSERT OR REPLACE INTO setting VALUES (?, ?, ?, ?, ?, ?)", row)


def _note(connection: sqlite3.Connection, revision: Revision) -> int:
    number = revision.number
    connection.execute("UPDATE counter SET version = ?", (number,))
    connection.execute("INSERT INTO revision VALUES (?, ?)", (number, encoded_revision(revision).decode()))
    connection.execute("DELETE FROM revision WHERE version <= ?", (number - _KEPT_CHANGES,))
    return number
