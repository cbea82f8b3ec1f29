"""Policy changes while clients work: they reach live topics at once and cause no error."""

import os
import signal
import subprocess
import sys
from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest
from kio.schema.errors import ErrorCode
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import read_topic, send_with_confluent
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.raw import RawClient
from tests.kafka.real.support.steady import SteadyProducer
from tests.kafka.session.messages import batch, outcome, produce
from tests.waiting import until

_SMALL, _LARGE = "1000B", "9000B"
_BETWEEN = b"v" * 5000
"""A message that one of the two sizes lets pass."""
_KEPT = "the last good policies stay in force"
_FROM_ELSEWHERE = """
import sys
from sluicegate.model import Level
from sluicegate.store import SqliteStore
SqliteStore(sys.argv[1]).set(Level.TOPIC, sys.argv[2], "max_message_size", int(sys.argv[3]), "test")
print("done", flush=True)
"""


@pytest.fixture(scope="module")
def started(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """One gate for all tests."""
    directory = tmp_path_factory.mktemp("gate")
    with Gate(directory, kafka.bootstrap, {"max_message_size": _LARGE}, {"max_hold": "1h"}) as gate:
        gate.eventually(lambda: "listener='node-1'" in gate.output(), "the node is listened for")
        yield gate


@pytest.fixture
def gate(started: Gate) -> Iterator[Gate]:
    """The gateway with the file that it began with."""
    policies, broker, text = started.policies, started.broker, started.file.read_text()
    yield started
    started.broker = broker
    if started.file.read_text() != text:
        started.apply(policies)


class Probe:
    """Tells which size is in force for a topic, by a message between the two."""

    def __init__(self, gate: Gate, topic: str) -> None:
        self._raw = RawClient(f"127.0.0.1:{gate.port + 2}")
        self._topic = topic

    @property
    def passes(self) -> bool:
        """Whether the message is accepted."""
        self._raw.send(produce({self._topic: batch(_BETWEEN)}, acks=1))
        code, _ = outcome(self._raw.frame())[self._topic, 0]
        assert code in (ErrorCode.none, ErrorCode.message_too_large)
        return code == ErrorCode.none

    def until(self, passes: bool) -> None:
        """Return once the message is accepted, or refused."""
        until(lambda: self.passes is passes, "the change is in force")

    def close(self) -> None:
        """End the connection."""
        self._raw.socket.close()


@pytest.fixture
def topic(new_topic: NewTopic) -> str:
    """The topic that is probed."""
    return new_topic("changing")


@pytest.fixture
def probe(gate: Gate, topic: str) -> Iterator[Probe]:
    """A probe on that topic."""
    probe = Probe(gate, topic)
    yield probe
    probe.close()


def change_file(gate: Gate, topic: str, size: str) -> None:
    """Replace the file, as editors do."""
    draft = gate.file.with_suffix(".new")
    draft.write_text(gate.file.read_text().replace(_LARGE, size).replace(_SMALL, size))
    draft.replace(gate.file)


def change_file_unseen_and_tell(gate: Gate, topic: str, size: str) -> None:
    """Write the file so that it looks unchanged (same length, time and inode), and send SIGHUP."""
    before = gate.file.stat()
    text = gate.file.read_text().replace(_LARGE, size).replace(_SMALL, size)
    with gate.file.open("r+") as file:
        file.write(text)
        file.flush()
        os.utime(file.fileno(), ns=(before.st_atime_ns, before.st_mtime_ns))
    os.utime(gate.file, ns=(before.st_atime_ns, before.st_mtime_ns))
    os.kill(gate.pid, signal.SIGHUP)


def change_store(gate: Gate, topic: str, size: str) -> None:
    """Set the field for the topic in the store, from another process."""
    store = gate.directory / "state" / "policies.db"
    command = [sys.executable, "-c", _FROM_ELSEWHERE, os.fspath(store), topic, size.removesuffix("B")]
    with subprocess.Popen(command, stdout=subprocess.PIPE) as writer:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"done\n"


@pytest.mark.seed("S1-125")
@pytest.mark.parametrize("change", [change_file, change_file_unseen_and_tell, change_store])
def test_a_change_takes_effect_while_clients_work(
    gate: Gate, kafka: KafkaBroker, topic: str, probe: Probe, change: Callable[[Gate, str, str], None]
) -> None:
    assert probe.passes
    with SteadyProducer(gate.bootstrap, topic, "steady") as steady:
        for size, passes in ((_SMALL, False), (_LARGE, True), (_SMALL, False)):
            change(gate, topic, size)
            probe.until(passes)
            steady.goes_on()
    assert not steady.log.errored
    stored = [one for one in read_topic(kafka.bootstrap, topic) if one.value != _BETWEEN]
    judge(steady.log, stored).assert_clean()


@pytest.mark.seed("S1-043")
def test_counts_are_kept(gate: Gate, kafka: KafkaBroker, topic: str) -> None:
    """Producers that were there before the limit count against it, and go on."""
    with (
        SteadyProducer(gate.bootstrap, topic, "first") as first,
        SteadyProducer(gate.bootstrap, topic, "second") as second,
    ):
        gate.apply({"max_producers_per_topic": 2})
        refused = send_with_confluent(gate.bootstrap, topic, 1, lane="third", settings={"client.id": "third"})
        assert len(refused.errored) == 1
        gate.apply({"max_producers_per_topic": 1})
        refused = send_with_confluent(gate.bootstrap, topic, 1, lane="fourth", settings={"client.id": "4th"})
        assert len(refused.errored) == 1
        rows = gate.decided(2, policy="max_producers_per_topic")
        assert [(row["current"], row["limit"]) for row in rows] == [(2, 2), (2, 1)]
        for producer in (first, second):
            producer.goes_on()
    logs = first.log.merged(second.log)
    assert not logs.errored
    judge(logs, read_topic(kafka.bootstrap, topic)).assert_clean()


@pytest.mark.parametrize("text", ["policies: {broker: {max_publish_rte: 5}}\n", "a: [b\n"])
def test_a_broken_file_keeps_the_last_good_policies(gate: Gate, topic: str, probe: Probe, text: str) -> None:
    change_file(gate, topic, _SMALL)
    probe.until(passes=False)
    good = gate.file.read_text()
    said = gate.output().count(_KEPT)
    with SteadyProducer(gate.bootstrap, topic, "steady") as steady:
        gate.file.write_text(text)
        gate.eventually(lambda: gate.output().count(_KEPT) > said, "the gate says so")
        gate.eventually(
            lambda: gate.metric("sluicegate_config_last_reload_successful") == 0, "metrics tell, too"
        )
        assert not probe.passes
        steady.goes_on()
        gate.file.write_text(good.replace(_SMALL, _LARGE))
        probe.until(passes=True)
        gate.eventually(lambda: gate.metric("sluicegate_config_last_reload_successful") == 1, "all is well")
    assert not steady.log.errored


_TIGHT = {"max_publish_rate": 1, "burst_seconds": 1.0}
_WAYS: Mapping[str, tuple[Mapping[str, Any], Mapping[str, Any]]] = {
    "whole gate": (_TIGHT, {"observe_only": True}),
    "one policy": ({**_TIGHT, "mode": {"max_publish_rate": "observe"}}, {}),
}


@pytest.mark.seed("S1-144")
@pytest.mark.parametrize("way", _WAYS)
def test_observe_only_releases_held_requests(gate: Gate, topic: str, probe: Probe, way: str) -> None:
    gate.apply(_TIGHT)
    with RawClient(f"127.0.0.1:{gate.port + 2}") as raw:
        for number in range(2):
            # The first one passes on a full bucket, into a debt of half an hour.
            raw.send(produce({topic: batch(*[b"x"] * 1_800)}, acks=1, correlation_id=number))
        assert outcome(raw.frame())[topic, 0][0] == 0
        assert gate.decided(policy="max_publish_rate", action="delay", topic=topic)
        policies, entry = _WAYS[way]
        gate.broker = {**gate.broker, **entry}
        gate.change(policies)
        assert outcome(raw.frame())[topic, 0][0] == 0
