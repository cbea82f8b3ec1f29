"""A store that is corrupt, locked, read-only or full: the last good policies hold, and facts wait."""

import sqlite3
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from tests.gateway.test_watching import Lab

from sluicegate.model import Level
from sluicegate.runtime import policies_in_force
from sluicegate.runtime.plugins import CHOICE
from sluicegate.store import SqliteStore
from sluicegate.store.sqlite_file import SqliteFile

SECOND = 1_000_000_000
BIG = "x" * 60_000
"""A fact that needs further pages."""


class Clock:
    """The monotonic clock of the watch."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = SECOND
        monkeypatch.setattr(policies_in_force, "monotonic_ns", lambda: self.now_ns)


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    return Clock(monkeypatch)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv(CHOICE, "")
    monkeypatch.setattr("sluicegate.store.sqlite_file._BUSY_S", 0.01)
    lab = Lab(tmp_path)
    other = SqliteStore(tmp_path / "policies.db")
    other.set(Level.BROKER, "", "max_message_size", 50, "test")
    other.close()
    assert lab.watch.check() is True
    return lab


Repair = Callable[[], None]


def locked(lab: Lab, _: pytest.MonkeyPatch) -> Repair:
    holder = sqlite3.connect(lab.directory / "policies.db", isolation_level=None)
    holder.execute("BEGIN IMMEDIATE")
    return holder.close


def forget_connection(store: SqliteStore) -> None:
    """Have the store open its file anew."""
    assert isinstance(store._file, SqliteFile)
    store._file.disconnect()


def reopened(lab: Lab, monkeypatch: pytest.MonkeyPatch, uri: str, pragma: str) -> Repair:
    """Have the store open its file again, in another way."""
    connect = sqlite3.connect

    def open_so(path: Path, **options: Any) -> sqlite3.Connection:
        connection: sqlite3.Connection = connect(f"file:{path}{uri}", uri=True, **options)
        connection.execute(pragma)
        return connection

    monkeypatch.setattr(sqlite3, "connect", open_so)
    store = lab.watch._store
    assert isinstance(store, SqliteStore)
    forget_connection(store)

    def repair() -> None:
        monkeypatch.setattr(sqlite3, "connect", connect)
        forget_connection(store)

    return repair


def read_only(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Repair:
    return reopened(lab, monkeypatch, "?mode=ro", "PRAGMA cache_size")


def full(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> Repair:
    return reopened(lab, monkeypatch, "", "PRAGMA max_page_count = 1")


@pytest.mark.parametrize(
    ("trouble", "told"), [(locked, "locked"), (read_only, "readonly"), (full, "disk is full")]
)
def test_an_unwritable_store_is_still_read_and_gets_its_facts_later(
    lab: Lab,
    clock: Clock,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
    trouble: Callable[[Lab, pytest.MonkeyPatch], Repair],
    told: str,
) -> None:
    repair = trouble(lab, monkeypatch)
    for node in range(20):
        lab.watch.keep_fact("b1", f"node.{node}", f"{BIG}:{node}")
        assert lab.watch.check() is False
    assert (lab.size(), lab.watch.successful) == ([100, 50], True)
    assert (lab.watch.facts_waiting, lab.watch.facts_lost) == (20, 0)
    [line] = [line for line in caplog.messages if "store cannot be written" in line]
    assert told in line

    repair()
    clock.now_ns += 10 * SECOND
    assert lab.watch.check() is False
    assert lab.watch.facts_waiting == 0
    assert lab.watch.facts("b1") == {f"node.{node}": f"{BIG}:{node}" for node in range(20)}
    assert "store is written again: 20 facts kept, 0 lost" in caplog.text
    lab.watch.close()


def test_a_store_that_is_damaged_while_the_gateway_runs_keeps_the_last_good_policies(
    lab: Lab, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    live = lab.directory / "policies.db"
    store = lab.watch._store
    assert isinstance(store, SqliteStore)
    forget_connection(store)
    good = live.read_bytes()
    live.write_bytes(b"this is no database " * 400)

    for _ in range(4):
        lab.watch.keep_fact("b1", "node.1", "kafka:9092")
        assert lab.watch.check() is False
    assert (lab.size(), lab.watch.successful, lab.watch.failures) == ([100, 50], False, 1)
    assert "not a database" in caplog.text

    live.write_bytes(good)
    clock.now_ns += 10 * SECOND
    assert lab.watch.check() is False  # nothing has changed
    assert (lab.size(), lab.watch.successful) == ([100, 50], True)
    assert lab.watch.facts("b1") == {"node.1": "kafka:9092"}
    lab.watch.close()


def test_pending_facts_are_bounded_and_dropped_ones_are_counted(
    lab: Lab, clock: Clock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(policies_in_force, "_FACTS_LIMIT", 5)
    repair = locked(lab, monkeypatch)
    for node in range(8):
        lab.watch.keep_fact("b1", f"node.{node}", "a")
    assert (lab.watch.facts_waiting, lab.watch.facts_lost) == (5, 3)
    repair()
    lab.watch.close()  # what waits is offered once more
    again = SqliteStore(lab.directory / "policies.db")
    assert sorted(again.facts("b1/")) == [f"b1/node.{node}" for node in range(3, 8)]
    again.close()
