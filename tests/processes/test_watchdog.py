"""The watchdog names what holds the event loop, in the log and in a metric."""

import asyncio
import logging
import re
import time
from collections.abc import Callable, Mapping, Sequence
from threading import Event

import pytest
from prometheus_client import CollectorRegistry, generate_latest
from tests.bench import Bench
from tests.waiting import LONG_S, until_so

from sluicegate.engine.check import Check
from sluicegate.engine.compiling import compile_gate
from sluicegate.engine.gate import GateFaults
from sluicegate.metrics.exposition import GatewayCollector
from sluicegate.model import Decision, Operation, OperationKind
from sluicegate.processes import watchdog
from sluicegate.processes.watchdog import MOST_NAMES, OTHER, RunDelay, Watchdog
from sluicegate.testing import NullSink

MS = 1_000_000


class Lab:
    """A watchdog whose clock, kernel and loop are turned by hand."""

    def __init__(self) -> None:
        self.now = 1_000 * MS
        self.starved = 0
        self.calls: list[Callable[[], object]] = []
        self.stack: Sequence[str] = ()
        self.dog = Watchdog(
            self,
            100 * MS,
            clock=lambda: self.now,
            starved=lambda: self.starved,
            sample=lambda: self.stack,
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
    lab.stack = ["acme.checks.vip_only:12", "sluicegate.engine.gate.publish:80"]
    lab.dog.look()
    lab.now += 100 * MS
    lab.dog.look()
    (line,) = caplog.records
    assert line.levelno == logging.WARNING
    message = "event loop held for 100 ms so far by acme.checks.vip_only:12; all clients wait"
    assert line.getMessage() == message
    assert vars(line)["stack"] == "acme.checks.vip_only:12, sluicegate.engine.gate.publish:80"
    assert lab.dog.holds() == {}
    lab.now += 50 * MS
    lab.turn()
    assert lab.dog.holds() == {"acme.checks": (1, 0.15)}
    lab.stack = ()
    lab.hold(100)
    assert lab.dog.holds() == {"acme.checks": (1, 0.15), OTHER: (1, 0.1)}


def test_the_first_sample_that_names_something_counts() -> None:
    lab = Lab()
    lab.dog.look()
    for stack in ((), ("acme.check:1",), ("sluicegate.engine.gate.publish:80",)):
        lab.now += 100 * MS
        lab.stack = stack
        lab.dog.look()
    lab.turn()
    assert lab.dog.holds() == {"acme": (1, 0.3)}


def test_an_answer_during_the_sample_ends_the_hold(caplog: pytest.LogCaptureFixture) -> None:
    lab = Lab()

    def sample() -> Sequence[str]:
        lab.turn()
        return ("acme.check:1",)

    lab.dog = Watchdog(lab, 100 * MS, clock=lambda: lab.now, starved=lambda: 0, sample=sample)
    lab.hold(100)
    assert caplog.messages == []
    assert lab.dog.holds() == {OTHER: (1, 0.1)}


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

    def sample() -> Sequence[str]:
        lab.starved += 130 * MS
        return ()

    lab.dog = Watchdog(lab, 100 * MS, clock=lambda: lab.now, starved=lambda: lab.starved, sample=sample)
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


def test_the_number_of_names_is_bounded() -> None:
    lab = Lab()
    for number in range(MOST_NAMES + 50):
        lab.stack = [f"acme.part_{number}.check:1"]
        lab.hold(100)
    holds = lab.dog.holds()
    assert len(holds) == MOST_NAMES + 1
    assert holds[OTHER][0] == 50


def test_the_metric_has_few_labels() -> None:
    snapshot: Mapping[str, object] = {
        "broker": "main",
        "topics": {},
        "use": {},
        "principals": {},
        "clients": {},
        "counters": {},
        "gauges": {},
        "front": {},
        "plugin_faults": {},
        "plugin_calls": [],
        "decision_log": {},
        "rollouts": [],
        "plugin_metrics": [],
        "loop_holds": {"acme.checks": (2, 0.5)},
        "tls": [],
    }
    registry = CollectorRegistry()
    registry.register(GatewayCollector(lambda: [snapshot]))
    text = generate_latest(registry).decode()
    assert 'sluicegate_event_loop_holds_total{broker="main",module="acme.checks"} 2.0' in text
    assert 'sluicegate_event_loop_held_seconds_total{broker="main",module="acme.checks"} 0.5' in text


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


def spins() -> None:
    pass


def sleeps() -> None:
    time.sleep(0.2)


def computes() -> None:
    """In C, and without giving the interpreter lock away."""
    sum(range(2_000_000))


@pytest.mark.parametrize("work", [spins, sleeps, computes])
async def test_a_check_of_a_plugin_is_named_and_no_policy_beside_it(
    caplog: pytest.LogCaptureFixture, work: Callable[[], None]
) -> None:
    """The policy `max_message_size` is one that the gate asks first."""
    dog = Watchdog(asyncio.get_running_loop(), 10 * MS, {"tests"})

    def stacks() -> list[str]:
        return [found for line in caplog.records if __name__ in (found := str(vars(line).get("stack")))]

    def check(op: Operation, now_ns: int) -> Decision | None:
        while not stacks():
            work()
        enough_s = time.thread_time() + 0.03  # what it waited for a processor does not count
        while time.thread_time() < enough_s:
            pass
        return None

    gate = Bench(max_message_size=100).gates.get("orders", False, 0)
    checks = [*(entry.check for entry in gate._checks[OperationKind.PUBLISH])]
    checks.append(Check("vip_only", (OperationKind.PUBLISH,), check, plugin="acme"))
    slow = compile_gate(
        gate.topic, gate.policies, gate.state, checks, None, NullSink(), GateFaults(), exempt=False
    )
    dog.start()
    try:
        asyncio.get_running_loop().call_soon(slow.publish, Operation(OperationKind.PUBLISH, "orders"), 0)
        await until_so(lambda: __name__ in dog.holds())
    finally:
        await asyncio.to_thread(dog.stop)
    assert re.match(rf"{re.escape(__name__)}\.({work.__name__}|check|stacks):\d+, ", stacks()[0])
    assert ", sluicegate.engine.gate.publish:" in stacks()[0]


def test_scheduler_statistics_may_be_missing() -> None:
    assert RunDelay(0)() == 0
