"""Databases switch to WAL mode, also while another process makes them."""

import sqlite3
from contextlib import closing
from pathlib import Path

import pytest

from sluicegate.host.sqlite_wal import use_wal


def test_a_database_gets_a_write_ahead_log(tmp_path: Path) -> None:
    with closing(sqlite3.connect(tmp_path / "any.db")) as connection:
        use_wal(connection, 1)
        assert connection.execute("PRAGMA journal_mode").fetchone() == ("wal",)


def test_a_database_that_stays_locked_is_an_error(tmp_path: Path) -> None:
    path = tmp_path / "any.db"
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("CREATE TABLE any (value)")
        other.execute("BEGIN EXCLUSIVE")
        with (
            closing(sqlite3.connect(path, timeout=0)) as connection,
            pytest.raises(sqlite3.OperationalError, match="locked"),
        ):
            use_wal(connection, 0.02)
