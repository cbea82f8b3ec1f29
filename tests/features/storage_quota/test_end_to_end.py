"""A gate of a configuration file, over a real file system that fills: ramp, pause, recovery."""

import json
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest
from tests.real.volumes import MIB
from tests.waiting import until

from sluicegate.embedded import PolicyEngine
from sluicegate.model import Action, Level, Operation, OperationKind
from sluicegate.runtime.plugins import CHOICE
from sluicegate.store.sqlite import SqliteStore
from sluicegate.testing import RecordingSink

RATE = 1_000_000
FILE = """
brokers:
  - name: shop
    system: service
    exempt: {{ principals: [root] }}
    storage: {{ source: path, paths: ["{volume}"], interval: 100ms }}
state_dir: {state}
policies:
  broker:
    publish_quota_bytes: 1MB/s
    storage_soft_min_free_ratio: 75%
    storage_hard_min_free_bytes: 1MiB
    {more}
"""


class Lab:
    """An engine, and a topic on which somebody publishes."""

    def __init__(self, engine: PolicyEngine, sink: RecordingSink, volume: Path) -> None:
        self.engine = engine
        self.sink = sink
        self._volume = volume
        self._now_ns = time.monotonic_ns()

    @property
    def factor(self) -> float:
        [factor] = [each for each in self.engine.context.factors if each.name == "storage_quota"]
        return factor.value

    def fill(self, used: int) -> None:
        (self._volume / "log").write_bytes(bytes(used))

    def until_factor(self, value: float) -> None:
        """Wait until the factor is so large."""
        until(lambda: self.factor == pytest.approx(value))

    def publish(self, principal: str = "User:a") -> tuple[Action, int]:
        op = Operation(
            OperationKind.PUBLISH, "orders.eu", principal=principal, messages=1, bytes=10_000, largest=10_000
        )
        with self.engine.lock:
            gate = self.engine.gate("orders.eu", principal == "root", self._now_ns)
            decision = gate.publish(op, self._now_ns)
            if decision is None:
                return Action.ALLOW, 0
            gate.abandon(op, self._now_ns)
        return decision.action, decision.delay_ns

    def admitted(self, seconds: int) -> int:
        """Bytes per second that pass at most, over so many seconds of the gate's time."""
        end_ns, admitted = self._now_ns + seconds * 10**9, 0
        while self._now_ns < end_ns:
            action, wait_ns = self.publish()
            admitted += 10_000 if action is Action.ALLOW else 0
            self._now_ns += wait_ns
        return round(admitted / seconds)


@contextmanager
def engine(directory: Path, volume: Path, more: str = "") -> Iterator[Lab]:
    file = directory / "gateway.yaml"
    file.write_text(FILE.format(volume=volume, state=directory / "state", more=more))
    sink = RecordingSink()
    made = PolicyEngine.from_file(file, sink=sink)
    try:
        yield Lab(made, sink, volume)
    finally:
        made.close()


@pytest.fixture(autouse=True)
def no_entry_points(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "")


@pytest.fixture
def lab(tmp_path: Path, small_volume: Path) -> Iterator[Lab]:
    with engine(tmp_path, small_volume) as it:
        yield it


@pytest.mark.seed("S4-004", "S4-010", "S4-011", "S4-012", "S4-071", "X-04")
def test_publishing_slows_down_along_the_ramp_pauses_and_recovers(lab: Lab) -> None:
    assert lab.factor == 1.0
    lab.admitted(2)  # the burst
    for used, factor in ((0, 1.0), (3 * MIB // 2, 0.75), (2 * MIB, 0.5), (11 * MIB // 4, 0.125), (MIB, 1.0)):
        lab.fill(used)
        lab.until_factor(factor)
        lab.admitted(2)
        assert lab.admitted(50) == pytest.approx(RATE * factor, rel=0.02), factor


@pytest.mark.seed("S4-011", "S4-019")
def test_a_breach_pauses_and_nothing_passes_then(lab: Lab) -> None:
    lab.admitted(2)
    lab.fill(3 * MIB)
    lab.until_factor(0.0)
    before = len(lab.sink.allows)
    assert lab.admitted(20) == 0
    assert len(lab.sink.allows) == before
    told = lab.sink.decisions[-1]
    assert (told.action, told.factor, told.reasons[0].policy) == (Action.DELAY, 0.0, "storage_quota")
    assert "bytes used, hard limit at 3145728" in told.text
    with lab.engine.lock:
        gate = lab.engine.gate("orders.eu", False, lab._now_ns)
        assert gate.dispatch(Operation(OperationKind.DISPATCH, "orders.eu", messages=1), lab._now_ns) is None
    lab.fill(0)
    lab.until_factor(1.0)
    assert lab.publish()[0] is Action.ALLOW


@pytest.mark.seed("S4-018", "X-06")
def test_exempt_principals_publish_all_the_same(lab: Lab) -> None:
    lab.fill(3 * MIB)
    lab.until_factor(0.0)
    assert lab.publish()[0] is Action.DELAY
    assert lab.publish("root")[0] is Action.ALLOW


@pytest.mark.seed("X-07")
def test_what_is_only_observed_holds_nobody(tmp_path: Path, small_volume: Path) -> None:
    with engine(tmp_path, small_volume, "mode: { storage_quota: observe }") as lab:
        lab.fill(3 * MIB)
        lab.until_factor(0.0)
        assert lab.publish()[0] is Action.ALLOW
        assert [(each.action, each.observed) for each in lab.sink.decisions] == [(Action.DELAY, True)]


@pytest.mark.seed("S4-015")
def test_a_path_that_is_gone_pauses_from_the_first_request_on(tmp_path: Path) -> None:
    with engine(tmp_path, tmp_path / "absent") as lab:
        assert lab.publish()[0] is Action.DELAY
        assert "the usage of all volumes is unknown" in lab.sink.decisions[-1].text
        assert "No such file" in lab.sink.decisions[-1].text
    with engine(tmp_path, tmp_path / "absent", "on_unknown: { storage_quota: open }") as lab:
        assert lab.publish()[0] is Action.ALLOW


@pytest.mark.seed("S4-060", "S4-061", "S4-063")
def test_limits_and_their_metrics_change_at_run_time(lab: Lab, tmp_path: Path) -> None:
    file = tmp_path / "gateway.yaml"
    good = file.read_text()
    lab.fill(2 * MIB)
    lab.until_factor(0.5)
    file.write_text(good.replace("75%", "100%"))
    lab.until_factor(1 / 3)
    file.write_text(good.replace("storage_hard_min_free_bytes: 1MiB", "storage_quota: false"))
    lab.until_factor(1.0)
    file.write_text(good)
    lab.until_factor(0.5)
    metrics = json.dumps(lab.engine._host.context.metrics.snapshot())
    assert all(
        f"sluicegate_storage_{name}" in metrics for name in ("lack_of_data", "connected", "consumed_bytes")
    )


@pytest.mark.seed("S4-027")
def test_a_store_that_contradicts_the_file_changes_nothing_and_explain_says_so(
    tmp_path: Path, small_volume: Path
) -> None:
    with engine(tmp_path, small_volume, "storage_hard_min_free_ratio: 20%") as lab:
        lab.fill(2 * MIB)
        lab.until_factor(0.5)
        store = SqliteStore(tmp_path / "state" / "policies.db")
        try:
            store.set(Level.BROKER, "", "storage_soft_min_free_ratio", 0.1, actor="test")
        finally:
            store.close()
        problem = "storage_soft_min_free_ratio 0.1 would be reached after storage_hard_min_free_ratio 0.2"
        told = lab.engine.context
        until(lambda: problem in told.recall("factor.").get("factor.storage_quota", ""))
        assert lab.factor == pytest.approx(0.5)
