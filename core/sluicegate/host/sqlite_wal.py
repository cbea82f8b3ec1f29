"""SQLite's write-ahead log, in which readers do not wait for a writer."""

import sqlite3
import time

_RETRY_S = 0.005


def use_wal(connection: sqlite3.Connection, busy_s: float) -> None:
    """Switch a database to WAL mode.

    SQLite itself does not wait when several processes make the file at once.

    :param busy_s: longest time to wait for another process.
    :raises sqlite3.OperationalError: if the database is still locked then, or cannot be used.
    """
    deadline = time.monotonic() + busy_s
    while True:
        try:
            connection.execute("PRAGMA journal_mode = WAL")
        except sqlite3.OperationalError as error:
            if error.sqlite_errorcode != sqlite3.SQLITE_BUSY or time.monotonic() > deadline:
                raise
            time.sleep(_RETRY_S)
        else:
            return
