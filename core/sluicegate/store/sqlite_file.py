"""Connections to SQLite: a file in WAL mode that processes of one host share, or a database in memory."""

import sqlite3
import threading
import weakref
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import TypeVar
from urllib.parse import unquote

from sluicegate.host.private_files import make_database, make_folder
from sluicegate.host.sqlite_wal import use_wal
from sluicegate.store.policy_store import StoreError

_BUSY_S = 1.0
Result = TypeVar("Result")


def sqlite_path(url: str) -> str | None:
    """The path in a `sqlite:///` URL; None for other URLs."""
    path = unquote(url.removeprefix("sqlite:///"))
    return path if url.startswith("sqlite:///") and path else None


def is_missing(url: str) -> bool:
    """Whether a URL stands for a file that does not exist yet; False if that cannot be seen."""
    path = sqlite_path(url)
    try:
        return path is not None and not Path(path).exists()
    except OSError:  # opening it tells why
        return False


def is_memory(url: str) -> bool:
    """Whether a URL stands for a store in memory."""
    return url in ("memory:", "memory://")


class SqliteFile:
    """A thread-safe connection to a file.

    Writers never block readers; a writer waits at most a second for another one. If the file is replaced, for
    instance restored from a backup, the connection reopens it. A file that disappears is an error.

    :param path: the database file; a missing directory is created.
    :param name: kind of database, for errors.
    :param schema: statements that create the tables.
    :param version: version of the schema; files with another one are refused.
    :param damaged: the remedy for a damaged file.
    """

    def __init__(self, path: str | Path, name: str, schema: str, version: int, damaged: str) -> None:
        self._path = Path(path)
        self._name = name
        self._schema = schema
        self._version = version
        self._damaged = damaged
        self._lock = threading.Lock()
        self._connection: sqlite3.Connection | None = None
        self._file: tuple[int, int] | None = None
        self.openings = 0
        """How often the file was opened."""

    def close(self) -> None:
        """Close the file."""
        with self._lock:
            self.disconnect()

    def do(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run one action on the connection, which is reopened if the file was replaced.

        :raises StoreError: if the file cannot be used.
        """
        with self._lock:
            try:
                identity = self._identity()
                if identity is None and self._file is not None:
                    # A new, empty file in its place would silently remove all policies.
                    raise FileNotFoundError("it no longer exists")
                if self._connection is None or self._file != identity:
                    self.disconnect()
                    self._connect()
                assert self._connection is not None  # noqa: S101 - _connect sets it or raises
                return action(self._connection)
            except (sqlite3.Error, OSError, ValueError) as error:
                self.disconnect()
                raise self._explain(error) from error

    def _connect(self) -> None:
        make_folder(self._path.parent)
        make_database(self._path)
        # With isolation_level None we begin transactions ourselves: the module would begin them too late.
        self._connection = sqlite3.connect(
            self._path, timeout=_BUSY_S, isolation_level=None, check_same_thread=False
        )
        version = self._connection.execute("PRAGMA user_version").fetchone()[0]
        if version not in (0, self._version):
            raise ValueError(f"its schema has version {version}, this program knows {self._version}")
        use_wal(self._connection, _BUSY_S)
        if version == 0:
            self._connection.executescript(
                f"BEGIN IMMEDIATE; {self._schema} PRAGMA user_version = {self._version}; COMMIT;"
            )
        self._file = self._identity()
        self.openings += 1

    def disconnect(self) -> None:
        """Close the connection; the next action reopens the file. The caller holds the lock."""
        connection, self._connection = self._connection, None
        if connection is not None:
            with closing(connection):
                pass

    def _identity(self) -> tuple[int, int] | None:
        try:
            status = self._path.stat()
        except FileNotFoundError:
            return None
        return (status.st_dev, status.st_ino)

    def _explain(self, error: Exception) -> StoreError:
        store = f"{self._name} {str(self._path)!r}"
        text = str(error)
        if "locked" in text or "busy" in text:
            return StoreError(
                f"{store} is locked by another process", "try again, or end the program that holds the lock"
            )
        if isinstance(error, PermissionError):
            return StoreError(
                f"{store} cannot be used ({text})",
                "check its permissions, or run the command as the user of the gateway, who keeps it",
            )
        if isinstance(error, sqlite3.OperationalError | OSError):
            return StoreError(
                f"{store} cannot be used ({text})", "check the path, its permissions and free space"
            )
        return StoreError(
            f"{store} is damaged or not such a database ({text})",
            self._damaged,
        )


class SqliteMemory:
    """A thread-safe connection to a database in memory, which exists as long as this object.

    :param schema: statements that create the tables.
    """

    openings = 1

    def __init__(self, schema: str) -> None:
        self._connection = sqlite3.connect(":memory:", isolation_level=None, check_same_thread=False)
        self._connection.executescript(schema)
        self._lock = threading.Lock()
        weakref.finalize(self, self._connection.close)

    def close(self) -> None:
        """Do nothing: other clients may share the database."""

    def do(self, action: Callable[[sqlite3.Connection], Result]) -> Result:
        """Run one action on the connection."""
        with self._lock:
            return action(self._connection)
