"""The watchdog names what holds the event loop, in the log and in a metric."""

import asyncio
import logging
import sys
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from threading import Event

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.bench import Bench
from tests.waiting import LONG_S, until_so

from sluicegate.engine.check import Check
from sluicegate.engine.gate import GateFaults, compile_gate
from sluicegate.engine.holders import OTHER, Holder, holder_of
from sluicegate.metrics.exposition import GatewayCollector
from sluicegate.model import Decision, Operation, OperationKind
from sluicegate.processes import loop_holders, watchdog
from sluicegate.processes.interrupting import interrupt_main, interrupt_nobody, interruption
from sluicegate.processes.watchdog import MOST_NAMES, RunDelay, Watchdog
from sluicegate.testing import NullSink

MS = 1_000_000
loop_holders.enter()


class Lab:
    """A watchdog whose clock, kernel and loop are turned by hand."""

    def __init__(self) -> None:
        self.now = 1_000 * MS
        self.starved = 0
        self.calls: list[Callable[[], object]] = []
        self.dog = Watchdog(
            self,
            100 * MS,
            clock=lambda: self.now,
            starved=lambda: self.starved,
            interrupt=interrupt_nobody,
        )

    def call_soon_threadsafe(self, callback: Callable[[], object]) -> None:
        """The loop is to call something."""
        self.calls.append(callback)

    def turn(self) -> None:
        """The loop does what it is to do."""
        calls, self.calls = self.calls, []
        for call in calls:
            call()

    def hold(self, ms: int) -> None:
        """The loop is held for so long, with a look every 50 ms, then answers."""
        self.dog.look()
        for _ in range(ms // 50):
            self.now += 50 * MS
            self.dog.look()
        self.now += ms % 50 * MS
        self.turn()


class Stacks:
    """A gateway with a slow check, which keeps what the watchdog would tell in the middle of it."""

    def __init__(self) -> None:
        self.seen: list[Holder] = []
        gate = Bench().gates.get("orders", False, 0)
        kinds = (OperationKind.PUBLISH, OperationKind.DISPATCH)
        check = Check("vip_only", kinds, self._slow, plugin="acme")
        self.gate = compile_gate(
            gate.topic, gate.policies, gate.state, [check], None, NullSink(), GateFaults(), exempt=False
        )

    def _slow(self, op: Operation, now_ns: int) -> Decision | None:
        self.seen.append(holder_of(sys._getframe()))
        return None


def test_a_responsive_loop_is_not_sampled(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab()
    for _ in range(10):
        lab.dog.look()
        assert len(lab.calls) == 1
        lab.now += 99 * MS
        lab.turn()
    assert lab.dog.holds() == {}
    assert not caplog.records


def test_the_frame_that_blocks_the_loop_is_named_meanwhile(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab()
    lab.dog.look()
    lab.now += 100 * MS
    lab.dog.look()
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    assert line.getMessage().startswith("event loop held for 100 ms so far by ")
    assert lab.dog.holds() == {}
    lab.now += 50 * MS
    lab.turn()
    ((count, seconds),) = lab.dog.holds().values()
    assert (count, seconds) == (1, 0.15)


def test_policy_plugin_and_topic_are_read_from_the_stack() -> None:
    stacks = Stacks()
    publish = Operation(OperationKind.PUBLISH, "orders", messages=1)
    stacks.gate.publish(publish, 0)
    stacks.gate.dispatch(Operation(OperationKind.DISPATCH, "orders", messages=1), 0)
    stacks.gate.judge(publish, 0)
    assert [holder.held_by for holder in stacks.seen] == ["policy vip_only"] * 3
    for holder in stacks.seen:
        assert holder.details == {"policy": "vip_only", "plugin": "acme", "topic": "orders"}


def test_unknown_stacks_are_attributed_to_other(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab()
    lab.hold(250)
    assert lab.dog.holds() == {OTHER: (1, 0.25)}
    assert len(caplog.records) == 1


def test_time_without_a_cpu_does_not_count(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab()
    lab.dog.look()
    lab.now += 500 * MS
    lab.starved += 450 * MS
    lab.dog.look()
    lab.turn()
    assert lab.dog.holds() == {}
    assert not caplog.records


def test_late_scheduler_statistics_do_not_count(
    caplog: pytest.LogCaptureFixture,
) -> None:
    lab = Lab()

    def look(_: object) -> None:
        lab.starved += 130 * MS

    lab.dog = Watchdog(lab, 100 * MS, clock=lambda: lab.now, starved=lambda: lab.starved, interrupt=look)
    lab.hold(120)
    assert caplog.messages == []
    assert lab.dog.holds() == {}


def test_lines_are_limited_and_count_the_suppressed_ones(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab()
    for _ in range(20):
        lab.hold(150)
    assert len(caplog.records) == 1
    lab.now += 11_000 * MS
    lab.hold(150)
    assert len(caplog.records) == 2
    assert caplog.records[1].__dict__["left_out"] > 0
    assert lab.dog.holds()[OTHER][0] == 21


def test_the_number_of_names_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    lab = Lab()
    names: Iterator[int] = iter(range(10_000))
    monkeypatch.setattr(watchdog, "holder_of", lambda frame: Holder(f"api {next(names)}"))
    for _ in range(MOST_NAMES + 50):
        lab.hold(100)
    holds = lab.dog.holds()
    assert len(holds) == MOST_NAMES + 1
    assert holds[OTHER][0] == 50


def test_the_metric_has_few_labels() -> None:
    snapshot: Mapping[str, object] = {
        "broker": "main",
        "topics": {},
        "counters": {},
        "gauges": {},
        "front": {},
        "plugin_faults": {},
        "decision_log": {},
        "plugin_metrics": [],
        "loop_holds": {"policy vip_only": (2, 0.5)},
        "tls": [],
    }
    registry = CollectorRegistry()
    registry.register(GatewayCollector(lambda: [snapshot]))
    text = generate_latest(registry).decode()
    assert 'sluicegate_event_loop_holds_total{broker="main",held_by="policy vip_only"} 2.0' in text
    assert 'sluicegate_event_loop_held_seconds_total{broker="main",held_by="policy vip_only"} 0.5' in text


async def test_a_thread_watches_a_real_loop() -> None:
    named = Event()

    class Tell(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            named.set()

    handler = Tell()
    logging.getLogger(watchdog.__name__).addHandler(handler)
    dog = Watchdog(asyncio.get_running_loop(), 10 * MS)
    dog.start()
    try:
        asyncio.get_running_loop().call_soon(named.wait, LONG_S)  # held until the watchdog has told
        await asyncio.sleep(0)
        assert named.is_set()
        await until_so(dog.holds)
    finally:
        await asyncio.to_thread(dog.stop)
        logging.getLogger(watchdog.__name__).removeHandler(handler)


@pytest.mark.parametrize("sleeps", [False, True], ids=["runs", "sleeps"])
async def test_a_real_loop_samples_its_own_stack(caplog: pytest.LogCaptureFixture, sleeps: bool) -> None:
    """Code of Python is named while it runs, a call that waits in C once it is over."""
    dog = Watchdog(asyncio.get_running_loop(), 10 * MS)

    def check(op: Operation, now_ns: int) -> Decision | None:
        while sleeps and dog._look is None:
            time.sleep(0.2)
        while not sleeps and "vip_only" not in caplog.text:
            pass
        return None

    kinds = (OperationKind.PUBLISH,)
    gate = Bench().gates.get("orders", False, 0)
    checks = [Check("vip_only", kinds, check, plugin="acme")]
    slow = compile_gate(
        gate.topic, gate.policies, gate.state, checks, None, NullSink(), GateFaults(), exempt=False
    )
    dog.start()
    try:
        asyncio.get_running_loop().call_soon(slow.publish, Operation(OperationKind.PUBLISH, "orders"), 0)
        await until_so(lambda: "policy vip_only" in dog.holds())
    finally:
        await asyncio.to_thread(dog.stop)
    assert "by policy vip_only" in caplog.text


def test_only_the_main_thread_is_sampled() -> None:
    with ThreadPoolExecutor(1) as pool:
        assert pool.submit(interruption).result() is interrupt_nobody
    assert interruption() is interrupt_main


def test_scheduler_statistics_may_be_missing() -> None:
    assert RunDelay(0)() == 0
