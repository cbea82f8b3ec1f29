"""What clients see when a process dies in the middle of their work."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import create_topic, read_topic
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import Entry, Stored, Verdict, judge
from tests.kafka.real.support.raw import RawClient
from tests.kafka.real.support.steady import SteadyProducer

_POLICIES = {"max_producers_per_topic": 10, "max_publish_rate": 100_000, "max_message_size": "1MiB"}
_KINDS: Mapping[str, Mapping[str, Any]] = {
    # Nothing may be stored twice.
    "idempotent": {"enable_idempotence": True},
    # What was under way may be stored twice: one request, as there is never more than one.
    "plain": {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1},
}


@contextmanager
def producing(bootstrap: str, topics: Sequence[str]) -> Iterator[list[SteadyProducer]]:
    """One steady producer of each kind, in the order of `_KINDS`."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(SteadyProducer(bootstrap, topic, topic, **settings))
            for topic, settings in zip(topics, _KINDS.values(), strict=True)
        ]


def assert_clean(kind: str, verdict: Verdict, stored: list[Stored]) -> None:
    """Nothing that was confirmed is lost, nothing out of order, and no more twice than `kind` allows."""
    if kind == "plain":
        assert is_one_run(verdict.duplicated, stored)
        verdict = Verdict(
            lost=verdict.lost,
            duplicated=[],
            reordered=verdict.reordered,
            errored_but_stored=verdict.errored_but_stored,
            misplaced=verdict.misplaced,
            foreign=verdict.foreign,
        )
    verdict.assert_clean()


def is_one_run(duplicated: list[Entry], stored: list[Stored]) -> bool:
    """Whether all that is stored twice was one batch: consecutive, and stored again as it was."""
    numbers = sorted(entry.number for entry in duplicated)
    if numbers != list(range(numbers[0], numbers[-1] + 1) if numbers else []):
        return False
    copies = [Entry.parse(one.value).number for one in stored]
    return all(copies.count(number) == 2 for number in numbers)


# -- the broker ---------------------------------------------------------------------------------------


@pytest.fixture
def mortal(kafka_libs: None, tmp_path: Path) -> Iterator[KafkaBroker]:
    """A node that may come back soon after it was killed: its old registration ends early."""
    lines = {"broker.session.timeout.ms": "2000", "broker.heartbeat.interval.ms": "500"}
    with KafkaBroker(tmp_path / "node", properties=lines) as node:
        yield node


def test_broker_killed_while_clients_produce(mortal: KafkaBroker, tmp_path: Path) -> None:
    """The same run direct and through the gate, with one kill for both: both histories are as good."""
    direct = [f"direct-{kind}" for kind in _KINDS]
    through = [f"through-{kind}" for kind in _KINDS]
    for topic in (*direct, *through):
        create_topic(mortal.bootstrap, topic)
    with (
        Gate(tmp_path / "gate", mortal.bootstrap, _POLICIES) as gate,
        producing(mortal.bootstrap, direct) as directly,
        producing(gate.bootstrap, through) as gated,
    ):
        mortal.kill()
        with RawClient(gate.bootstrap) as raw:
            assert raw.rest() == b"", "a client that comes while the broker is down is told so by a close"
        gate.eventually(lambda: gate.metric("sluicegate_upstream_unreachable_total") > 0, "it is counted")
        assert f"cannot reach broker at {mortal.bootstrap}" in gate.output()
        mortal.start()
        for producer in (*directly, *gated):
            producer.goes_on(100)
    for kind, control, producer in zip(_KINDS, directly, gated, strict=True):
        assert not producer.log.errored
        assert not producer.log.unanswered
        control_stored = read_topic(mortal.bootstrap, f"direct-{kind}")
        assert_clean(kind, judge(control.log, control_stored), control_stored)
        stored = read_topic(mortal.bootstrap, f"through-{kind}")
        assert_clean(kind, judge(producer.log, stored), stored)


# -- the gate -----------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def gate(kafka: KafkaBroker, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gate]:
    """In front of the session's broker."""
    with Gate(tmp_path_factory.mktemp("gate"), kafka.bootstrap, _POLICIES) as gate:
        yield gate


def worker_pids(gate: Gate) -> list[int]:
    """The processes that serve clients."""
    found = []
    for process in gate.processes()[1:]:
        with suppress(psutil.NoSuchProcess):  # it has ended meanwhile, or is about to
            if "sluicegate.gateway.worker_main" in process.cmdline():
                found.append(process.pid)
    return found


def kill_worker(gate: Gate, producers: Sequence[SteadyProducer]) -> None:
    """End the worker alone: the supervisor starts another one."""
    before = worker_pids(gate)
    assert len(before) == 1
    os.kill(before[0], signal.SIGKILL)
    gate.eventually(
        lambda: gate.get("/readyz")[0] == 200 and worker_pids(gate) not in ([], before), "there is a new one"
    )
    assert gate.metric("sluicegate_worker_restarts_total") >= 1
    assert "worker ended, starting it again" in gate.output()


def kill_supervisor(gate: Gate, producers: Sequence[SteadyProducer]) -> None:
    """End the supervisor alone: the worker goes on until it is replaced."""
    os.kill(gate.pid, signal.SIGKILL)
    gate.eventually(lambda: "no supervisor any more" in gate.output(), "the worker says so")
    for producer in producers:
        producer.goes_on(100)
    gate.restart()


def kill_both(gate: Gate, producers: Sequence[SteadyProducer]) -> None:
    """End supervisor and worker, and start again after a while."""
    gate.kill9()
    time.sleep(0.5)
    gate.start()


def drain(gate: Gate, producers: Sequence[SteadyProducer]) -> None:
    """Restart as operators do."""
    gate.restart()


@pytest.mark.parametrize("mishap", [kill_worker, kill_supervisor, kill_both, drain])
def test_gate_ends_while_clients_produce(
    gate: Gate,
    kafka: KafkaBroker,
    new_topic: NewTopic,
    mishap: Callable[[Gate, Sequence[SteadyProducer]], None],
) -> None:
    topics = [new_topic(kind) for kind in _KINDS]
    with producing(gate.bootstrap, topics) as producers:
        mishap(gate, producers)
        for producer in producers:
            producer.goes_on(100)
    for kind, topic, producer in zip(_KINDS, topics, producers, strict=True):
        assert not producer.log.errored
        assert not producer.log.unanswered
        stored = read_topic(kafka.bootstrap, topic)
        assert_clean(kind, judge(producer.log, stored), stored)
