"""Adaptive throttling in a whole engine: thread, file, store and metrics; in real time, as threads are."""

import asyncio
import json
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from time import monotonic_ns
from typing import Any

import pytest
from tests.waiting import until

from sluicegate import hookimpl
from sluicegate.broker import BrokerContext
from sluicegate.embedded import PolicyEngine
from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.features.adaptive.controller import AdaptiveController
from sluicegate.model import Decision, Operation, OperationKind
from sluicegate.runtime import tasks
from sluicegate.runtime.plugins import CHOICE
from sluicegate.testing import RecordingSink

TOPIC = "orders.eu"
FILE = """
brokers: [{{name: shop, system: service, pressure: {{memory: []}}}}]
state_dir: {directory}
policies:
  broker:
    adaptivePublisherThrottlingEnabled: {enabled}
    adaptivePublisherThrottlingObserveOnly: {observe}
    adaptivePublisherThrottlingIntervalMs: 20
    adaptivePublisherThrottlingPerTopicMetricsEnabled: true
"""


class Broker:
    """A plugin: the backlogs of a broker, as the test wants them."""

    def __init__(self) -> None:
        self.share = 0.0

    async def read(self) -> Mapping[str, Backlog]:
        return {TOPIC: Backlog(self.share * 1000, 1000)}

    @hookimpl
    def sluicegate_pressure_sources(self, context: BrokerContext) -> Sequence[PressureSource]:
        return [PressureSource("backlog", "backlog", self.read)]


class Lab:
    def __init__(self, directory: Path, *, enabled: bool = True, observe: bool = False) -> None:
        self.file = directory / "gateway.yaml"
        self.directory = directory
        self.write(enabled=enabled, observe=observe)
        self.broker = Broker()
        self.sink = RecordingSink()
        self.engine = PolicyEngine.from_file(self.file, plugins=[self.broker], environ={}, sink=self.sink)

    def write(self, *, enabled: bool = True, observe: bool = False) -> None:
        text = FILE.format(
            directory=self.directory, enabled=str(enabled).lower(), observe=str(observe).lower()
        )
        self.file.write_text(text)

    def publish(self) -> Decision | None:
        op = Operation(OperationKind.PUBLISH, TOPIC, messages=1, bytes=100, largest=100)
        with self.engine.lock:
            gate = self.engine.gate(TOPIC, False, monotonic_ns())
            decision = gate.publish(op, monotonic_ns())
            gate.abandon(op, monotonic_ns())
        return decision

    def learn(self) -> None:
        """Publish until the controller knows a natural rate."""
        until(lambda: self.publish() is None and self.value("natural_publish_rate") > 1)

    def holds(self) -> bool:
        """Publish more at once than any throttled rate lets through; True if one is held."""
        return any(self.publish() is not None for _ in range(1_000))

    def value(self, name: str) -> float:
        """A metric by the end of its name; -1 if it is not there."""
        for each in self.metrics():
            if each["name"].endswith(name):
                for _, value in each["values"]:
                    return float(value)
        return -1

    def metrics(self) -> list[dict[str, Any]]:
        return self.engine._host.context.metrics.snapshot()


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> Iterator[Callable[..., Lab]]:
    monkeypatch.setenv(CHOICE, "")
    labs: list[Lab] = []

    def make(**options: bool) -> Lab:
        labs.append(Lab(tmp_path, **options))
        return labs[-1]

    yield make
    for lab in labs:
        lab.engine.close()


@pytest.mark.seed("S5-041", "S5-042", "S5-051", "S5-082", "S5-085")
def test_from_pressure_to_release_and_observe_only_by_the_file(make: Callable[..., Lab]) -> None:
    lab = make()
    lab.learn()
    lab.broker.share = 0.95
    until(lab.holds)
    decision = lab.sink.decisions[-1]
    assert decision.reasons[0].policy == "adaptive_publish_throttling"
    assert 0 < decision.factor < 1
    # Metrics come at the end of the cycle that sets the limit.
    until(lambda: lab.value("active_topic_count") == lab.value("activation_count") == 1)
    lab.write(observe=True)
    until(lambda: lab.value("throttle_observe_only") == 1 and lab.value("would_throttle") == 1)
    assert all(lab.publish() is None for _ in range(1000))
    until(lambda: lab.value("active_topic_count") == 0)
    lab.write(observe=False)
    until(lab.holds)
    until(lambda: lab.value("activation_count") == 2)
    lab.broker.share = 0.0
    until(lambda: lab.value("active_topic_count") == 0)
    assert all(lab.publish() is None for _ in range(1000))
    status = json.loads(lab.engine.context.recall("adaptive.")["adaptive.status"])
    assert status["sources"] == {"backlog": "known"}


@pytest.mark.seed("S5-063", "S5-085")
def test_all_six_are_published_and_the_timestamp_advances(make: Callable[..., Lab]) -> None:
    lab = make()
    names = {each["name"] for each in lab.metrics()}
    prefix = "pulsar_broker_adaptive_throttle_"
    assert {name.removeprefix(prefix) for name in names if name.startswith(prefix)} == {
        "memory_pressure",
        "active_topic_count",
        "activation_count",
        "controller_last_evaluation_timestamp",
        "controller_evaluation_duration",
        "controller_evaluation_failure_count",
    }
    first = lab.value("last_evaluation_timestamp")
    assert abs(first - time.time_ns() / 1e6) < 60_000
    until(lambda: lab.value("last_evaluation_timestamp") > first)


@pytest.mark.seed("S5-050", "S5-051", "S5-085")
def test_disabled_there_is_no_thread_and_nothing_is_registered(make: Callable[..., Lab]) -> None:
    before = threading.active_count()
    lab = make(enabled=False)
    lab.publish()
    assert "sluicegate-tasks" not in {thread.name for thread in threading.enumerate()}
    assert not [each for each in lab.metrics() if "adaptive" in each["name"]]
    assert lab.engine.gates.states[TOPIC].limiters == {}
    lab.engine.close()
    enabled = make()
    assert "sluicegate-tasks" in {thread.name for thread in threading.enumerate()}
    enabled.engine.close()
    assert "sluicegate-tasks" not in {thread.name for thread in threading.enumerate()}
    assert threading.active_count() <= before


@pytest.mark.seed("S5-055", "S5-056", "S5-092")
def test_a_controller_that_hangs_or_dies_is_run_again_and_limits_stay_meanwhile(
    make: Callable[..., Lab], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tasks, "LEAST_LIMIT_S", 0.2)
    lab = make()
    lab.learn()
    lab.broker.share = 0.95
    until(lab.holds)
    real = AdaptiveController._cycle
    seen: list[int] = []

    async def sick(self: AdaptiveController, began_ns: int) -> None:
        seen.append(len(seen))
        if len(seen) == 1:
            await asyncio.sleep(3600)
        if len(seen) == 2:
            raise asyncio.CancelledError
        if len(seen) == 3:
            raise SystemExit("gone")
        await real(self, began_ns)

    monkeypatch.setattr(AdaptiveController, "_cycle", sick)
    while len(seen) < 4:
        until(lab.holds)
    failures = [each for each in lab.metrics() if each["name"] == "sluicegate_task_failures"]
    [count] = [value for _, value in failures[0]["values"]]
    assert count >= 3
    lab.broker.share = 0.0
    monkeypatch.setattr(AdaptiveController, "_cycle", real)
    until(lambda: lab.publish() is None and lab.value("active_topic_count") == 0)
