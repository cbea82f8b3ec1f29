"""What a gateway and the command line make of policies in etcd."""

from pathlib import Path

import pytest
from benchmarks.harness.etcd import Etcd
from tests.gateway.test_watching import GOOD, Lab
from tests.store.conftest import Clock
from tests.waiting import until

from sluicegate.cli.opening import open_desk, read_facts, read_store
from sluicegate.model import Level
from sluicegate.runtime.plugins import CHOICE
from sluicegate.store import StoreError


def lab_on(directory: Path, url: str) -> Lab:
    """A gateway's watch of its file and its store; the file leads to the store alone."""
    directory.mkdir()
    return Lab(directory, file_on(url))


def file_on(url: str) -> str:
    """The text of such a file."""
    return f"{GOOD}store: {url}\nplugins: [tests.gateway.echo_plugin]\n"


@pytest.fixture(autouse=True)
def few_plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


def test_policies_of_a_fleet(
    own_etcd: Etcd, clock: Clock, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """By the command line on one gateway; in force on both; kept while etcd is away."""
    url = f"{own_etcd.url}/fleet"
    one, two = lab_on(tmp_path / "one", url), lab_on(tmp_path / "two", url)
    desk = open_desk(str(one.path))
    desk.change([""], Level.BROKER, "", {"max_message_size": 50})
    for lab in (one, two):
        until(lab.watch.check)
        assert lab.size() == [100, 50]
    one.watch.keep_fact("b1", "node.1", "kafka:9092")
    assert two.watch.facts("b1") == {"node.1": "kafka:9092"}
    assert read_facts(desk._opened, "b1") == {"node.1": "kafka:9092"}
    assert read_store(desk._opened)[0] == 1

    own_etcd.kill()
    clock.turn()
    until(lambda: not (two.watch.check() or two.watch.successful))
    assert two.size() == [100, 50]
    assert "the last good policies stay in force: policy store in etcd does not respond" in caplog.text
    two.watch.keep_fact("b1", "node.2", "kafka:9093")
    assert two.watch.facts_waiting == 1

    own_etcd.start()
    until(lambda: two.watch.check() or two.watch.successful)
    desk.change([""], Level.BROKER, "", {"max_message_size": 60})
    until(two.watch.check)
    assert two.size() == [100, 60]
    until(lambda: two.watch.check() or not two.watch.facts_waiting)
    until(lambda: one.watch.facts("b1") == {"node.1": "kafka:9092", "node.2": "kafka:9093"})
    one.watch.close()
    two.watch.close()


def runs_on_copy(lab: Lab) -> bool:
    return lab.watch.copy_in_use


def test_a_gateway_that_starts_while_etcd_is_down(own_etcd: Etcd, clock: Clock, tmp_path: Path) -> None:
    """On its local copy; what etcd holds is in force once it is back."""
    url = f"{own_etcd.url}/fleet"
    first = lab_on(tmp_path / "one", url)
    desk = open_desk(str(first.path))
    desk.change([""], Level.BROKER, "", {"max_message_size": 50})
    until(first.watch.check)
    first.watch.close()
    own_etcd.kill()

    with pytest.raises(StoreError, match="there is no local copy"):
        lab_on(tmp_path / "two", url)
    (tmp_path / "one" / "gateway.yaml").unlink()
    again = Lab(tmp_path / "one", file_on(url))
    assert again.size() == [100, 50]
    assert runs_on_copy(again)
    assert [again.watch.check(), again.watch.successful] == [False, False]

    own_etcd.start()
    desk.change([""], Level.BROKER, "", {"max_message_size": 60})
    until(again.watch.check)
    assert again.size() == [100, 60]
    assert again.watch.successful
    assert not runs_on_copy(again)
    again.watch.close()
