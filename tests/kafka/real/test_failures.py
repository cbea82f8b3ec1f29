"""What clients see when a process dies in the middle of their work."""

import os
import signal
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any

import psutil
import pytest
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import create_topic, read_topic
from tests.kafka.real.support.families import AiokafkaFamily, JavaFamily
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import Entry, Stored, judge
from tests.kafka.real.support.raw import RawClient, call
from tests.kafka.real.support.steady import Steady, SteadyAiokafka, SteadyJava, SteadyProducer

_POLICIES = {"max_producers_per_topic": 10, "max_publish_rate": 100_000, "max_message_size": "1MiB"}
_PLAIN: Mapping[str, Any] = {"enable_idempotence": False, "max_in_flight_requests_per_connection": 1}
"""What was under way may be stored twice: one request, as there is never more than one."""


class Producers:
    """Makes one steady producer of each kind; all but `plain` are idempotent: nothing may be stored twice."""

    kinds = ("librdkafka", "aiokafka", "java", "plain")

    def __init__(self, aiokafka: AiokafkaFamily, java: JavaFamily) -> None:
        self._aiokafka, self._java = aiokafka, java

    def _made(self, kind: str, bootstrap: str, topic: str) -> Steady:
        if kind == "aiokafka":
            return SteadyAiokafka(self._aiokafka, bootstrap, topic, topic)
        if kind == "java":
            return SteadyJava(self._java, bootstrap, topic, topic)
        return SteadyProducer(bootstrap, topic, topic, **(_PLAIN if kind == "plain" else {}))

    @contextmanager
    def sending(self, bootstrap: str, topics: Sequence[str]) -> Iterator[list[Steady]]:
        """Producers in the order of `kinds`, while they send, each to its topic."""
        with ExitStack() as stack:
            yield [
                stack.enter_context(self._made(kind, bootstrap, topic))
                for kind, topic in zip(self.kinds, topics, strict=True)
            ]


@pytest.fixture(scope="module")
def producers(aiokafka_family: AiokafkaFamily, java_family: JavaFamily) -> Producers:
    """Of all client families."""
    return Producers(aiokafka_family, java_family)


def assert_clean(kind: str, producer: Steady, stored: list[Stored], *, in_order: bool = True) -> None:
    """No send failed, nothing is lost or out of order, and no more is stored twice than `kind` allows.

    :param in_order: False where the client itself does not keep the order.
    """
    assert not producer.log.errored
    assert not producer.log.unanswered
    verdict = judge(producer.log, stored)
    if kind == "plain":
        assert is_one_run(verdict.duplicated, stored)
        verdict = replace(verdict, duplicated=[])
    if not in_order:
        verdict = replace(verdict, reordered=[])
    verdict.assert_clean()


def is_one_run(duplicated: list[Entry], stored: list[Stored]) -> bool:
    """Whether all that is stored twice was one batch: consecutive, and stored again as it was."""
    numbers = sorted(entry.number for entry in duplicated)
    if numbers != list(range(numbers[0], numbers[-1] + 1) if numbers else []):
        return False
    copies = [Entry.parse(one.value).number for one in stored]
    return all(copies.count(number) == 2 for number in numbers)


# -- the broker ---------------------------------------------------------------------------------------


def test_broker_killed_while_clients_produce(
    own_kafka: KafkaBroker, producers: Producers, tmp_path: Path
) -> None:
    """The same run direct and through the gateway, with one kill for both: both histories are as good."""
    direct = [f"direct-{kind}" for kind in producers.kinds]
    through = [f"through-{kind}" for kind in producers.kinds]
    for topic in (*direct, *through):
        create_topic(own_kafka.bootstrap, topic)
    with (
        Gate(tmp_path / "gate", own_kafka.bootstrap, _POLICIES) as gate,
        producers.sending(own_kafka.bootstrap, direct) as directly,
        producers.sending(gate.bootstrap, through) as gated,
    ):
        own_kafka.kill()
        with RawClient(gate.bootstrap) as raw:
            raw.post(call("api_versions", 3, client_software_name="raw", client_software_version="1"))
            assert raw.rest() == b"", "a client that comes while the broker is down is told so by a close"
        gate.eventually(lambda: gate.metric("sluicegate_upstream_unreachable_total") > 0, "it is counted")
        gate.eventually(
            lambda: f"cannot reach broker at {own_kafka.bootstrap}" in gate.output(), "it is told"
        )
        own_kafka.start()
        for producer in (*directly, *gated):
            producer.goes_on(100)
    for kind, control, producer in zip(producers.kinds, directly, gated, strict=True):
        for one in (control, producer):
            # Where it is not idempotent, librdkafka may send again behind what came later, directly too.
            in_order = kind != "plain"
            assert_clean(kind, one, read_topic(own_kafka.bootstrap, one.topic), in_order=in_order)


# -- the gateway -----------------------------------------------------------------------------------------


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
            if "sluicegate.processes.worker_main" in process.cmdline():
                found.append(process.pid)
    return found


def kill_worker(gate: Gate, producers: Sequence[Steady]) -> None:
    """End the worker alone: the supervisor starts another one."""
    before = worker_pids(gate)
    assert len(before) == 1
    os.kill(before[0], signal.SIGKILL)
    gate.eventually(
        lambda: gate.get("/readyz")[0] == 200 and worker_pids(gate) not in ([], before), "there is a new one"
    )
    assert gate.metric("sluicegate_worker_restarts_total") >= 1
    assert "worker ended, starting it again" in gate.output()


def kill_supervisor(gate: Gate, producers: Sequence[Steady]) -> None:
    """End the supervisor alone: the worker goes on until the next one takes over from it."""
    gate.take_over(from_workers=True)


def kill_both(gate: Gate, producers: Sequence[Steady]) -> None:
    """End supervisor and worker, and start again after a while."""
    gate.kill9()
    time.sleep(0.5)
    gate.start()


def drain(gate: Gate, producers: Sequence[Steady]) -> None:
    """Restart as operators do."""
    gate.restart()


def take_over(gate: Gate, producers: Sequence[Steady]) -> None:
    """Have another gateway take over, as an upgrade does."""
    gate.take_over()


@pytest.mark.parametrize(
    "mishap",
    [
        *(pytest.param(each, marks=pytest.mark.longer) for each in (kill_worker, kill_supervisor, drain)),
        kill_both,
        take_over,
    ],
)
def test_the_gateway_ends_while_clients_produce(
    gate: Gate,
    kafka: KafkaBroker,
    new_topic: NewTopic,
    producers: Producers,
    mishap: Callable[[Gate, Sequence[Steady]], None],
) -> None:
    topics = [new_topic(kind) for kind in producers.kinds]
    with producers.sending(gate.bootstrap, topics) as sending:
        mishap(gate, sending)
        for producer in sending:
            producer.goes_on(100)
    for kind, producer in zip(producers.kinds, sending, strict=True):
        assert_clean(kind, producer, read_topic(kafka.bootstrap, producer.topic))
