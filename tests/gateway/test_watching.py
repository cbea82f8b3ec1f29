import os
import sqlite3
from contextlib import closing
from datetime import timedelta
from pathlib import Path

import pytest
from tests.gateway.certificates import Authority

from sluicegate.config.load import load
from sluicegate.model import Level
from sluicegate.runtime.plugins import CHOICE, load_plugins
from sluicegate.runtime.policies_in_force import PolicyWatch
from sluicegate.store import SqliteStore, StoreError

SECOND = 1_000_000_000
GOOD = """\
brokers:
  - {{name: b1, system: echo, bootstrap: ["127.0.0.1:1"], listen: {{port: 0}}{broker}}}
state_dir: {state}
policies:
  broker: {{max_message_size: {size}}}
"""


class Lab:
    """A file that can be changed, and its watch."""

    def __init__(self, directory: Path, text: str = GOOD) -> None:
        self.directory = directory
        self.path = directory / "gateway.yaml"
        self.changes = 0
        self.write(text=text)
        plugins = load_plugins(["tests.gateway.echo_plugin"])
        loaded = load(self.path, plugins.policy_models, plugins.broker_models, {})
        self.watch = PolicyWatch(self.path, loaded, plugins, {})

    def write(self, *, size: str = "100", broker: str = "", text: str = GOOD) -> None:
        self.path.write_text(text.format(size=size, state=self.directory, broker=broker))
        self.changes += 1
        os.utime(self.path, ns=(self.changes, self.changes))  # coarse file systems see every change

    def size(self) -> object:
        layers = self.watch.policies("b1").layers
        return [layer.settings["max_message_size"].value for layer in layers if layer.settings]


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Lab:
    monkeypatch.setenv(CHOICE, "")
    return Lab(tmp_path)


def test_unchanged_file_is_no_change(lab: Lab) -> None:
    assert lab.watch.check() is False
    assert lab.watch.check(force=True) is False
    lab.write()  # the same text, a new time
    assert lab.watch.check() is False
    assert lab.watch.changes == 0
    lab.watch.close()


@pytest.mark.seed("S1-024")
def test_changed_file_makes_a_new_version(lab: Lab) -> None:
    lab.write(size="200")
    assert lab.watch.check() is True
    assert (lab.watch.changes, lab.size()) == (1, [200])
    lab.watch.close()


def test_broken_file_keeps_the_last_good_policies_and_says_so(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    lab.write(size="-5")
    assert lab.watch.check() is False
    assert (lab.size(), lab.watch.changes) == ([100], 0)
    assert (lab.watch.successful, lab.watch.failures) == (False, 1)
    assert "the last good policies stay in force" in caplog.text
    assert "'-5' is negative" in caplog.text or "-5 is negative" in caplog.text
    lab.path.unlink()
    assert lab.watch.check() is False
    assert lab.size() == [100]
    lab.write(size="300")
    assert lab.watch.check() is True
    assert (lab.size(), lab.watch.successful) == ([300], True)
    lab.watch.close()


def test_change_of_the_store_by_another_process_is_seen(lab: Lab) -> None:
    other = SqliteStore(lab.directory / "policies.db")
    other.set(Level.BROKER, "", "max_message_size", 50, "test")
    assert lab.watch.check() is True
    assert lab.size() == [100, 50]
    other.put_fact("something", "else")
    assert lab.watch.check() is False
    other.close()
    lab.watch.close()


@pytest.mark.parametrize(("changes", "force"), [(2, False), (1, True)], ids=["another version", "SIGHUP"])
def test_a_store_that_is_restored_in_place_is_taken_over(lab: Lab, changes: int, force: bool) -> None:
    live, copy = lab.directory / "policies.db", lab.directory / "copy.db"
    for path, value in ((live, 50), (copy, 60)):
        store = SqliteStore(path)
        for number in range(1 if path == live else changes):
            store.set(Level.BROKER, "", "max_message_size", value + number, "test")
        store.close()
    assert lab.watch.check() is True

    with closing(sqlite3.connect(copy)) as source, closing(sqlite3.connect(live)) as target:
        source.backup(target)

    assert lab.watch.check(force=force) is True
    assert lab.size() == [100, 59 + changes]
    lab.watch.close()


def test_broken_store_keeps_the_last_good_policies(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    other = SqliteStore(lab.directory / "policies.db")
    other.set(Level.BROKER, "", "max_message_size", 50, "test")
    lab.watch.check()

    def locked(self: SqliteStore) -> int:
        raise StoreError("database is locked", "close the other program")

    with monkeypatch.context() as broken:
        broken.setattr(SqliteStore, "version", locked)
        assert lab.watch.check() is False
        assert lab.watch.check() is False
        assert (lab.size(), lab.watch.successful, lab.watch.failures) == ([100, 50], False, 1)
    assert lab.watch.check() is False  # readable again, and unchanged
    assert lab.watch.successful is True
    other.close()
    lab.watch.close()


def test_removed_broker_is_refused_and_the_rest_needs_a_restart(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    lab.write(text=GOOD.replace("name: b1", "name: b2"))
    assert lab.watch.check() is False
    assert "broker 'b1' is missing" in caplog.text
    lab.write(broker=", max_hold: 5s, observe_only: true")
    assert lab.watch.check() is True
    assert "restart the gateway to bring into force: brokers.b1.max_hold" in caplog.text
    assert lab.watch.policies("b1").observe_only is True
    lab.watch.close()


def test_unusable_tls_files_keep_the_last_good_policies(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    cert, key = Authority(lab.directory).issue("gate", "localhost")
    lab.write(size="200", broker=f", tls: {{client: {{cert: none.pem, key: {key}}}}}")
    assert lab.watch.check() is False
    assert (lab.size(), lab.watch.successful) == ([100], False)
    assert "cannot read 'none.pem': No such file" in caplog.text
    assert "gateway.yaml:2:" in caplog.text
    assert "(brokers.0.tls.client.cert)" in caplog.text
    in_force = f", tls: {{client: {{cert: {cert}, key: {key}}}}}"
    lab.write(size="300", broker=in_force)
    assert lab.watch.check() is True
    # Files that are named already may be about to be renewed: policies change meanwhile.
    Path(cert).unlink()
    lab.write(size="400", broker=in_force)
    assert lab.watch.check() is True
    assert lab.size() == [400]
    lab.watch.close()


def test_a_change_is_applied_once_its_tls_files_are_there(
    lab: Lab, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    now_ns = [SECOND]
    monkeypatch.setattr("sluicegate.runtime.policies_in_force.monotonic_ns", lambda: now_ns[0])
    cert, key = Authority(lab.directory).issue("gate", "localhost")
    Path(cert).rename(lab.directory / "later.pem")
    lab.write(size="200", broker=f", tls: {{client: {{cert: {cert}, key: {key}}}}}")
    for _ in range(20):
        assert lab.watch.check() is False
        now_ns[0] += SECOND
    assert lab.watch.failures == caplog.text.count("the last good policies stay in force") == 1
    (lab.directory / "later.pem").rename(cert)
    checked = [lab.watch.check()]
    for _ in range(5):
        now_ns[0] += SECOND
        checked.append(lab.watch.check())
    assert checked.count(True) == 1
    assert (lab.size(), lab.watch.successful) == ([200], True)
    lab.watch.close()


def test_an_expired_certificate_is_logged(lab: Lab, caplog: pytest.LogCaptureFixture) -> None:
    cert, key = Authority(lab.directory).issue("old", "localhost", shifted_by=-timedelta(days=9))
    lab.write(broker=f", tls: {{client: {{cert: {cert}, key: {key}}}}}")
    assert lab.watch.check() is True
    [warning] = [record for record in caplog.records if "expired on" in record.getMessage()]
    assert warning.levelname == "WARNING"
    assert "gateway.yaml:2:" in warning.getMessage()
    lab.watch.close()


def test_facts_belong_to_a_broker(lab: Lab) -> None:
    lab.watch.keep_fact("b1", "node.1", "kafka:9092")
    lab.watch.keep_fact("b10", "node.1", "other:9092")
    assert lab.watch.facts("b1") == {"node.1": "kafka:9092"}
    lab.watch.close()
