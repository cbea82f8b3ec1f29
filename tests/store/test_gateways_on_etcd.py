"""What a gateway and the command line make of policies in etcd."""

from pathlib import Path

import pytest
from benchmarks.harness.etcd import Etcd
from tests.gateway.test_watching import GOOD, Lab
from tests.waiting import until

from sluicegate.cli.opening import open_desk, read_facts, read_store
from sluicegate.gateway.plugins import CHOICE
from sluicegate.model import Level


def lab_on(directory: Path, url: str) -> Lab:
    """A gateway's watch of its file and its store; the file leads to the store alone."""
    directory.mkdir()
    return Lab(directory, f"{GOOD}store: {url}\nplugins: [tests.gateway.echo_plugin]\n")


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")
    monkeypatch.setattr("sluicegate.store.replica._CONFIRM_S", 0.05)


def test_policies_of_a_fleet(own_etcd: Etcd, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """By the command line on one gateway; in force on both; kept while etcd is away."""
    url = f"{own_etcd.url}/fleet?timeout=500ms"
    one, two = lab_on(tmp_path / "one", url), lab_on(tmp_path / "two", url)
    desk = open_desk(str(one.path))
    desk.change(Level.BROKER, "", {"max_message_size": 50})
    for lab in (one, two):
        until(lab.watch.check)
        assert lab.size() == [100, 50]
    one.watch.keep_fact("b1", "node.1", "kafka:9092")
    assert two.watch.facts("b1") == {"node.1": "kafka:9092"}
    assert read_facts(desk._opened, "b1") == {"node.1": "kafka:9092"}
    assert read_store(desk._opened)[0] == 1

    own_etcd.kill()
    until(lambda: not (two.watch.check() or two.watch.successful))
    assert two.size() == [100, 50]
    assert "the last good policies stay in force: policy store in etcd is away" in caplog.text
    two.watch.keep_fact("b1", "node.2", "kafka:9093")
    assert two.watch.facts_waiting == 1

    own_etcd.start()
    until(lambda: two.watch.check() or two.watch.successful)
    desk.change(Level.BROKER, "", {"max_message_size": 60})
    until(two.watch.check)
    assert two.size() == [100, 60]
    until(lambda: two.watch.check() or not two.watch.facts_waiting)
    until(lambda: one.watch.facts("b1") == {"node.1": "kafka:9092", "node.2": "kafka:9093"})
    one.watch.close()
    two.watch.close()
