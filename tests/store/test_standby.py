"""A gateway starts while its store is away: the local copy stands for the store until that answers."""

import json
import logging
import os
import stat
from dataclasses import replace
from pathlib import Path

import pytest
from tests.gateway.test_watching import Lab
from tests.waiting import until

from sluicegate.model import Level
from sluicegate.runtime.plugins import CHOICE, Plugins
from sluicegate.store import MemoryStore, PolicyStore, StoreError
from sluicegate.store.local_copy import LocalCopy, StoreState
from sluicegate.store.policy_store import StoreUnavailableError
from sluicegate.store.standby import StandbyStore, is_remote

URL = "etcd://ann:s3cret@etcd-1:2379,etcd-2:2379/sluicegate/eu?password_file=/run/secret"
SECOND = 1_000_000_000
FLEET = """\
brokers:
  - {{name: b1, system: echo, bootstrap: ["127.0.0.1:1"], listen: {{port: 0}}{broker}}}
state_dir: {state}
store: etcd://fleet
policies:
  broker: {{max_message_size: {size}}}
"""


class Remote:
    """A store that can be away, and clocks turned by hand."""

    def __init__(self, directory: Path) -> None:
        self.store = MemoryStore()
        self.error: StoreError | None = None
        self.opened = 0
        self.now_ns = SECOND
        self.wall_s = 1_000_000.0
        self.copy = LocalCopy(directory / "state" / "store-copy.json", URL)

    def open(self) -> PolicyStore:
        self.opened += 1
        if self.error is not None:
            raise self.error
        return self.store

    def away(self) -> None:
        self.error = StoreUnavailableError("etcd cannot be reached", "start it")

    def standby(self) -> StandbyStore:
        return StandbyStore(self.open, self.copy, lambda: self.now_ns, lambda: self.wall_s)

    def run_once(self) -> None:
        """A gateway has run, and knows a policy, a ceiling and a fact."""
        store = self.standby()
        store.set(Level.BROKER, "", "max_message_size", 50, "ann")
        store.set(Level.TOPIC, "orders-*", "ceiling.max_publish_rate", 2.5, "ann")
        store.set(Level.NAMESPACE, "/n", "on_limit.max_publish_rate", "delay", "ann")
        store.put_fact("b1/broker.0", "10.0.0.1:6650")
        store.layers()
        store.close()


@pytest.fixture
def remote(tmp_path: Path) -> Remote:
    return Remote(tmp_path)


def test_the_copy_replaces_a_store_that_is_down(remote: Remote, caplog: pytest.LogCaptureFixture) -> None:
    remote.run_once()
    expected = remote.store.layers()
    remote.away()
    remote.wall_s += 3_600
    store = remote.standby()
    assert store.layers() == expected
    assert store.facts("b1/") == {"b1/broker.0": "10.0.0.1:6650"}
    assert store.facts("b2/") == {}
    assert store.copy_age_s == 3_600
    [line] = caplog.messages
    assert "etcd cannot be reached" in line
    assert "which is 3600 s old" in line
    for call in (
        store.version,
        lambda: store.history(9),
        lambda: store.put_fact("b1/broker.1", "x"),
        lambda: store.set(Level.BROKER, "", "max_message_size", 1, "ann"),
        lambda: store.unset(Level.BROKER, "", "max_message_size", "ann"),
    ):
        with pytest.raises(StoreUnavailableError, match="3600 s old"):
            call()


def test_the_store_takes_over_once_it_answers(remote: Remote) -> None:
    remote.run_once()
    remote.away()
    store = remote.standby()
    opened = remote.opened
    with pytest.raises(StoreUnavailableError):
        store.version()
    assert remote.opened == opened, "it is not asked at every look"
    remote.store.set(Level.BROKER, "", "max_message_size", 60, "bob")
    remote.error = None
    remote.now_ns += 10 * SECOND
    assert store.version() == remote.store.version()
    assert store.layers() == remote.store.layers()
    assert store.copy_age_s is None
    known = remote.copy.read()
    assert known is not None
    assert known.layers == remote.store.layers()[1]


def test_the_copy_says_when_it_was_up_to_date_although_nothing_changes(remote: Remote) -> None:
    remote.run_once()
    store = remote.standby()
    store.layers()
    for _ in range(3):
        remote.now_ns += 61 * SECOND
        remote.wall_s += 61
        store.version()
    known = remote.copy.read()
    assert known is not None
    assert known.at_s == remote.wall_s
    store.put_fact("b1/broker.1", "10.0.0.2:6650")
    store.version()
    known = remote.copy.read()
    assert known is not None
    assert known.facts["b1/broker.1"] == "10.0.0.2:6650", "a fact is copied at the next look"


def test_a_clock_that_was_set_back_makes_no_copy_younger_than_new(remote: Remote) -> None:
    remote.run_once()
    remote.away()
    remote.wall_s -= 1_000_000
    store = remote.standby()
    remote.now_ns += 5 * SECOND
    assert store.copy_age_s == 5


def test_only_its_owner_reads_the_copy_and_it_holds_no_login(remote: Remote) -> None:
    old = os.umask(0)
    try:
        remote.run_once()
    finally:
        os.umask(old)
    assert stat.S_IMODE(remote.copy.path.stat().st_mode) == 0o600
    text = remote.copy.path.read_text()
    assert "s3cret" not in text
    assert "ann" not in text
    assert json.loads(text)["store"] == "etcd://etcd-1:2379,etcd-2:2379/sluicegate/eu"
    assert [each.name for each in remote.copy.path.parent.iterdir()] == ["store-copy.json"]


def test_without_a_copy_the_start_fails(remote: Remote) -> None:
    remote.away()
    with pytest.raises(
        StoreUnavailableError, match=r"cannot be reached, and there is no local copy .*start it"
    ):
        remote.standby()


def test_a_store_that_refuses_is_no_store_that_is_away(remote: Remote) -> None:
    remote.run_once()
    remote.error = StoreError("etcd refuses user or password", "correct them")
    with pytest.raises(StoreError, match="refuses user or password: correct them"):
        remote.standby()


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("", "Expecting value"),
        ("[]", "damaged"),
        ("{}", "damaged"),
        ('{"format": 2}', "its format is 2, expected 1"),
        (
            '{"format": 1, "store": "etcd://x/y", "at": 1, "version": 1, "settings": [], "facts": {}}',
            "to another store, 'etcd://x/y'",
        ),
        (
            '{"format": 1, "store": "", "at": 1, "version": 1, "facts": {}, '
            '"settings": [["broker", "", "", 0, "max_message_size", [], ""]]}',
            "'max_message_size' is not a setting",
        ),
        ('{"format": 1, "store": "", "at": 1, "version": 1, "facts": {}, "settings": [[1]]}', "missing 6"),
        ("[" * 100_000, "damaged"),
    ],
)
def test_a_copy_that_cannot_be_used(remote: Remote, text: str, told: str) -> None:
    remote.run_once()
    remote.away()
    remote.copy.path.write_text(text)
    with pytest.raises(StoreUnavailableError) as refused:
        remote.standby()
    assert "cannot be used" in refused.value.message
    assert told in refused.value.message


def test_a_copy_that_cannot_be_written_is_logged_once_and_stops_nothing(
    remote: Remote, caplog: pytest.LogCaptureFixture
) -> None:
    remote.copy.path.parent.write_text("in the way")
    store = remote.standby()
    for number in range(3):
        store.set(Level.BROKER, "", "max_message_size", number, "ann")
        store.layers()
        remote.now_ns += 61 * SECOND
        assert store.version() == number + 1
    [line] = caplog.messages
    assert "the local copy of the policy store cannot be written" in line


def test_a_write_that_fails_leaves_the_old_copy(remote: Remote, monkeypatch: pytest.MonkeyPatch) -> None:
    remote.run_once()
    before = remote.copy.read()
    assert before is not None

    def full(_: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(OSError, match="No space"):
        remote.copy.write(replace(before, version=99))
    assert remote.copy.read() == before
    assert [each.name for each in remote.copy.path.parent.iterdir()] == ["store-copy.json"]


def test_an_empty_store_has_a_copy_too(remote: Remote) -> None:
    remote.copy.write(StoreState(0, (), {}, 1.0))
    assert remote.copy.read() == StoreState(0, (), {}, 1.0)


def test_local_stores_need_no_copy() -> None:
    assert [is_remote(url) for url in (URL, "etcds://h", "consul://h")] == [True, True, True]
    assert [is_remote(url) for url in ("memory:", "memory://", "sqlite:///x.db")] == [False] * 3


def runs_on_copy(lab: Lab) -> bool:
    return lab.watch.copy_in_use


def test_a_gateway_starts_on_its_copy_and_continues_with_the_store(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    remote = Remote(tmp_path)
    monkeypatch.setenv(CHOICE, "")
    monkeypatch.setattr(Plugins, "open_store", lambda self, url: remote.open())
    lab = Lab(tmp_path, FLEET)
    remote.store.set(Level.BROKER, "", "max_message_size", 50, "ann")
    assert lab.watch.check() is True
    assert lab.size() == [100, 50]
    lab.watch.keep_fact("b1", "broker.0", "10.0.0.1:6650")
    lab.watch.check()

    remote.away()
    caplog.set_level(logging.INFO)
    again = Lab(tmp_path, FLEET)
    assert again.size() == [100, 50]
    assert again.watch.facts("b1") == {"broker.0": "10.0.0.1:6650"}
    assert runs_on_copy(again)
    assert again.watch.store_age_s >= 0
    again.watch.keep_fact("b1", "broker.1", "10.0.0.2:6650")
    assert again.watch.check() is False
    assert (again.watch.successful, again.watch.facts_waiting) == (False, 1)
    assert "the last good policies stay in force: etcd cannot be reached" in caplog.text

    remote.store.set(Level.BROKER, "", "max_message_size", 60, "bob")
    remote.error = None
    until(again.watch.check)
    assert again.size() == [100, 60]
    assert not runs_on_copy(again)
    until(lambda: again.watch.check() or not again.watch.facts_waiting)
    assert remote.store.facts("b1/") == {"b1/broker.0": "10.0.0.1:6650", "b1/broker.1": "10.0.0.2:6650"}
