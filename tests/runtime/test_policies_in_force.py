"""What a file and a store may suffer without a change of them being lost."""

import os
from pathlib import Path

import pytest
from tests.gateway.test_watching import GOOD, Lab

from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.model import Level
from sluicegate.runtime import policies_in_force
from sluicegate.runtime.plugins import CHOICE
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.store import SqliteStore

TWO = GOOD.replace(
    "state_dir",
    '  - {{name: extra, system: echo, bootstrap: ["127.0.0.1:1"], listen: {{port: 0}}}}\nstate_dir',
)


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv(CHOICE, "")
    return Lab(tmp_path)


def test_a_broker_that_never_ran_may_be_taken_back(lab: Lab) -> None:
    lab.write(text=TWO)
    assert lab.watch.check() is True
    lab.write(size="200")
    assert lab.watch.check() is True
    assert (lab.size(), lab.watch.successful) == ([200], True)
    lab.watch.close()


@pytest.mark.parametrize("there", [True, False])
def test_a_file_that_changes_while_the_store_is_opened_is_read(lab: Lab, there: bool) -> None:
    loaded = lab.watch.loaded
    lab.watch.close()
    lab.write(size="200")
    if not there:
        lab.path.unlink()
    lab.watch = PolicyWatch(lab.path, loaded, lab.watch.plugins, {})
    assert lab.watch.check() is there
    assert (lab.size(), lab.watch.successful) == ([200 if there else 100], there)
    lab.watch.close()


def test_a_file_that_keeps_size_time_and_inode_is_read(lab: Lab) -> None:
    lab.watch.check()
    before = os.stat(lab.path)
    lab.path.write_text(lab.path.read_text().replace("100", "200"))
    while os.stat(lab.path).st_ctime_ns == before.st_ctime_ns:  # the kernel's clock moves in ticks
        os.utime(lab.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(lab.path, ns=(before.st_atime_ns, before.st_mtime_ns))
    assert lab.watch.check() is True
    assert lab.size() == [200]
    lab.watch.close()


def test_a_file_that_may_be_read_at_last_is_read(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    lab.write(size="200")
    with monkeypatch.context() as forbidden:
        forbidden.setattr("sluicegate.config.load.read_text", unreadable)
        assert lab.watch.check() is False
        assert lab.watch.successful is False
    changed_ns = os.stat(lab.path).st_ctime_ns
    while os.stat(lab.path).st_ctime_ns == changed_ns:
        lab.path.chmod(0o644)
    assert lab.watch.check() is True
    assert (lab.size(), lab.watch.successful) == ([200], True)
    lab.watch.close()


def unreadable(file: str) -> str:
    """What `load` meets where the mode of a file forbids to read it, to all but root."""
    raise ConfigErrors([Finding(file, 0, 0, "", "cannot read it", "check its permissions")])


def test_a_store_that_replaces_another_of_the_same_version_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(CHOICE, "")
    live, other = tmp_path / "policies.db", tmp_path / "other.db"
    for path, size in ((live, 50), (other, 60)):
        store = SqliteStore(path)
        store.set(Level.BROKER, "", "max_message_size", size, "test")
        store.close()
    lab = Lab(tmp_path)
    assert lab.watch.check() is False
    os.replace(other, live)
    assert lab.watch.check() is True
    assert lab.size() == [100, 60]
    assert lab.watch.check() is False
    lab.watch.close()


class Still:
    """A kernel whose clock gives every change the same time, and the watch's own clock."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.now_ns = 1
        monkeypatch.setattr(policies_in_force, "monotonic_ns", lambda: self.now_ns)
        monkeypatch.setattr(PolicyWatch, "_file_mark", lambda watch: (1, 1, 1, 1))


def test_a_file_is_read_once_more_as_two_changes_may_look_like_one(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    still = Still(monkeypatch)
    assert lab.watch.check() is False
    lab.write(size="200")
    assert lab.watch.check() is False
    still.now_ns += 1_000_000_000
    assert lab.watch.check() is True
    assert lab.size() == [200]
    lab.path.unlink()
    still.now_ns += 9_000_000_000
    assert lab.watch.check() is False
    assert lab.watch.successful is True, "it is not read any more"
    lab.watch.close()


def test_a_mistake_that_is_read_once_more_is_told_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    still = Still(monkeypatch)
    lab.write(size="-5")
    for _ in range(2):
        assert lab.watch.check() is False
        still.now_ns += 1_000_000_000
    assert (lab.watch.successful, lab.watch.failures, len(caplog.records)) == (False, 1, 1)
    lab.watch.check(force=True)
    lab.write(size="-6")
    still.now_ns += 1_000_000_000
    lab.watch.check()
    assert (lab.watch.failures, len(caplog.records)) == (3, 3)
    lab.watch.close()


def test_a_restart_is_asked_for_only_while_something_waits_for_it(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    def told() -> list[str]:
        assert lab.watch.check()
        lines = [record.getMessage() for record in caplog.records]
        caplog.clear()
        return lines

    line = "restart the gateway to bring into force: brokers.b1.max_hold"
    lab.write(broker=", max_hold: 1s")
    assert told() == [line]
    lab.write(broker=", max_hold: 1s", size="200")
    assert told() == [line]
    lab.write(size="200")
    assert told() == []
    lab.watch.close()


def test_a_file_whose_text_is_the_same_is_not_parsed_again(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object) -> None:
        raise AssertionError("parsed")

    with monkeypatch.context() as forbidden:
        forbidden.setattr("sluicegate.config.load.parse", refuse)
        assert lab.watch.check() is False
        assert lab.watch.check(force=True) is False
    assert lab.watch.successful is True
    lab.write(size="200")
    assert lab.watch.check() is True
    lab.watch.close()
