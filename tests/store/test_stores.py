"""One suite for all policy stores, and what only a file can suffer."""

import multiprocessing
import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from tests.store.edits import edits
from tests.waiting import LONG_S

from sluicegate.model import Level, PolicyValue
from sluicegate.store import (
    Author,
    Key,
    MemoryStore,
    PolicyStore,
    SqliteStore,
    StoreError,
    sqlite_file,
)
from sluicegate.store.plugin import sluicegate_metadata_store
from sluicegate.store.policy_store import Row, layers_of
from sluicegate.testing.store_contract import PolicyStoreContract

RATE = "max_publish_rate"


@pytest.fixture(params=["memory", "sqlite", "etcd"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[PolicyStore]:
    url = f"sqlite:///{tmp_path}/p.db" if request.param == "sqlite" else "memory:"
    if request.param == "etcd":
        url = request.getfixturevalue("etcd_url")
    made = sluicegate_metadata_store(url=url)
    assert made is not None
    yield made
    made.close()


class TestEachStore(PolicyStoreContract):
    """What all of them do, also those of others."""

    @pytest.mark.seed("S1-010")
    def test_settings_come_back_as_layers_in_the_order_of_the_levels(self, store: PolicyStore) -> None:
        super().test_settings_come_back_as_layers_in_the_order_of_the_levels(store)


actions = st.lists(
    st.tuples(
        st.sampled_from(Level),
        st.sampled_from(["", "a", "b*"]),
        st.sampled_from([RATE, "ceiling." + RATE, "on_limit." + RATE]),
        st.none() | st.integers(0, 3) | st.booleans(),
    ),
    max_size=20,
)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=25, deadline=None)
@given(actions)
def test_both_stores_hold_what_was_set_last(
    tmp_path_factory: pytest.TempPathFactory, done: list[tuple[Level, str, str, PolicyValue | None]]
) -> None:
    stores = MemoryStore(), SqliteStore(tmp_path_factory.mktemp("both") / "p.db")
    expected: dict[tuple[Level, str, str], tuple[PolicyValue, int]] = {}
    last = 0
    for level, name, field, value in done:
        # 1 == True in Python, but not in a policy.
        if repr(expected.get((level, name, field), (None, 0))[0]) != repr(value):
            last += 1
            expected.pop((level, name, field), None)
            if value is not None:
                expected[level, name, field] = value, last
        for store in stores:
            if value is None:
                assert store.unset(level, name, field, "x") == last
            else:
                assert store.set(level, name, field, value, "x") == last
    rows = [Row(Key(*key), *held) for key, held in expected.items()]
    for store in stores:
        assert repr(store.layers()) == repr((last, layers_of(rows)))
        store.close()


def set_from_another_process(path: str, name: str, count: int) -> None:
    sqlite_file._BUSY_S = LONG_S  # another one may stall while it has the lock
    store = SqliteStore(path)
    for number in range(count):
        store.set(Level.TOPIC, name, RATE, number + 1, "child")
    store.close()


def in_processes(*calls: tuple[str, str, int]) -> None:
    spawn = multiprocessing.get_context("spawn")
    children = [spawn.Process(target=set_from_another_process, args=call) for call in calls]
    for child in children:
        child.start()
    for child in children:
        child.join()
    assert [child.exitcode for child in children] == [0] * len(calls)


def test_a_change_by_another_process_is_seen_by_the_next_look(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "p.db")
    assert store.version() == 0
    in_processes((str(tmp_path / "p.db"), "t", 3))
    assert store.version() == 3
    _, [layer] = store.layers()
    assert layer.settings[RATE].value == 3
    store.close()


def test_processes_that_create_and_write_one_file_together_lose_nothing(tmp_path: Path) -> None:
    path = str(tmp_path / "new" / "p.db")
    in_processes(*((path, f"t{n}", 10) for n in range(3)))
    store = SqliteStore(path)
    version, layers = store.layers()
    assert version == 30
    assert [(layer.name, layer.settings[RATE].value) for layer in layers] == [
        ("t0", 10),
        ("t1", 10),
        ("t2", 10),
    ]
    store.close()


def test_everything_is_still_there_after_a_restart(tmp_path: Path) -> None:
    first = SqliteStore(tmp_path / "p.db")
    first.set(Level.BROKER, "", RATE, 7, "ann")
    first.put_fact("k", "v")
    before = first.layers()
    first.close()
    again = SqliteStore(tmp_path / "p.db")
    assert again.layers() == before
    assert again.facts("k").get("k") == "v"
    again.close()


def damage_bytes(path: Path) -> None:
    path.write_bytes(b"this is no database " * 400)


def damage_schema(path: Path) -> None:
    with sqlite3.connect(path) as connection:
        connection.execute("PRAGMA user_version = 99")
    connection.close()


def damage_counter(path: Path) -> None:
    store = SqliteStore(path)
    store.close()
    with sqlite3.connect(path) as connection:
        connection.execute("DELETE FROM counter")
    connection.close()


def damage_kind(path: Path) -> None:
    path.mkdir()


@pytest.mark.parametrize(
    ("damage", "remedy"),
    [
        (damage_bytes, "restore it from a backup"),
        (damage_schema, "restore it from a backup"),
        (damage_counter, "restore it from a backup"),
        (damage_kind, "check the path"),
    ],
)
def test_a_file_that_is_no_store_is_refused_with_a_remedy(
    tmp_path: Path, damage: Callable[[Path], None], remedy: str
) -> None:
    damage(tmp_path / "p.db")
    with pytest.raises(StoreError, match=r"p\.db") as refused:
        SqliteStore(tmp_path / "p.db").version()
    assert refused.value.remedy.startswith(remedy)


def test_a_locked_store_refuses_writes_and_recovers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.store.sqlite_file._BUSY_S", 0.01)
    store = SqliteStore(tmp_path / "p.db")
    other = sqlite3.connect(tmp_path / "p.db", isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(StoreError, match="is locked by another process"):
        store.set(Level.BROKER, "", RATE, 1, "ann")
    assert store.version() == 0
    other.execute("ROLLBACK")
    other.close()
    assert store.set(Level.BROKER, "", RATE, 1, "ann") == 1
    store.close()


def test_of_a_change_that_cannot_be_written_nothing_is_stored(tmp_path: Path) -> None:
    store = SqliteStore(tmp_path / "p.db")
    with closing(sqlite3.connect(tmp_path / "p.db")) as other:
        other.execute(
            "CREATE TRIGGER full BEFORE INSERT ON setting WHEN NEW.field = 'second' "
            "BEGIN SELECT RAISE(ABORT, 'database or disk is full'); END"
        )
    with pytest.raises(StoreError, match="disk is full"):
        store.change(edits(Level.TOPIC, "t", {"first": 1, "second": 2}), Author("ann"))
    assert store.layers() == (0, ())
    assert store.history(5) == []
    store.close()


def test_two_that_make_one_file_at_once_wait_for_each_other(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite does not wait by itself where one is to change how the file is kept."""
    monkeypatch.setattr("sluicegate.store.sqlite_file._BUSY_S", LONG_S)
    maker = sqlite3.connect(tmp_path / "p.db", isolation_level=None, check_same_thread=False)
    maker.execute("BEGIN IMMEDIATE")
    maker.execute("CREATE TABLE made_by_another (thing TEXT)")
    done = threading.Timer(0.1, maker.execute, ["COMMIT"])
    done.start()
    store = SqliteStore(tmp_path / "p.db")
    done.join()
    maker.close()
    assert store.version() == 0
    store.close()


def test_a_store_that_vanished_is_an_error_not_an_empty_store(tmp_path: Path) -> None:
    path = tmp_path / "p.db"
    store = SqliteStore(path)
    store.set(Level.BROKER, "", RATE, 1, "ann")
    kept = SqliteStore(tmp_path / "backup.db")
    kept.set(Level.BROKER, "", RATE, 5, "ann")
    kept.close()
    for file in tmp_path.glob("p.db*"):
        file.unlink()
    with pytest.raises(StoreError, match="it no longer exists"):
        store.version()
    assert not path.exists()
    os.rename(tmp_path / "backup.db", path)
    _, [layer] = store.layers()
    assert layer.settings[RATE].value == 5
    store.close()


def test_urls_choose_the_store(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    assert isinstance(sluicegate_metadata_store(url="memory:"), MemoryStore)
    for url, path in (
        ("sqlite:///state/p.db", tmp_path / "state/p.db"),
        (f"sqlite:///{tmp_path}/a%20b.db", tmp_path / "a b.db"),
    ):
        opened = sluicegate_metadata_store(url=url)
        assert isinstance(opened, SqliteStore)
        opened.close()
        assert path.is_file()
    assert sluicegate_metadata_store(url="postgres://a:1") is None
    assert sluicegate_metadata_store(url="sqlite:///") is None
