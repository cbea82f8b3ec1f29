"""Tasks: a failing one is counted, logged and restarted, and the others continue."""

import asyncio
import logging
import re
import threading
import time
from collections.abc import Awaitable, Callable, Iterator

import pytest
from tests.waiting import LONG_S, until

from sluicegate.engine.task import Task
from sluicegate.runtime import tasks as module
from sluicegate.runtime.plugin_metrics import PluginMetrics
from sluicegate.runtime.shared_runs import TurnsElsewhere
from sluicegate.runtime.tasks import TaskThread


class Lab:
    """A thread of tasks, and what is told of them."""

    def __init__(self) -> None:
        self.metrics = PluginMetrics()
        self.failures: list[tuple[str, str]] = []
        self.threads: list[TaskThread] = []

    def start(self, *tasks: Task, turns: TurnsElsewhere | None = None) -> TaskThread:
        thread = TaskThread(
            [("mine", task) for task in tasks],
            self.metrics,
            lambda plugin, text: self.failures.append((plugin, text)),
            lambda: time.time_ns() // 1_000_000,
            turns=turns,
        )
        self.threads.append(thread)
        thread.start()
        return thread

    def value(self, metric: str, task: str) -> float:
        [found] = [each for each in self.metrics.snapshot() if each["name"] == metric]
        values = {labels[0]: value for labels, value in found["values"]}
        return float(values.get(task, 0.0))


@pytest.fixture
def lab() -> Iterator[Lab]:
    lab = Lab()
    yield lab
    for thread in lab.threads:
        thread.stop()


def task(run: Callable[[], Awaitable[None]], interval_ms: int = 10, name: str = "work") -> Task:
    return Task(name, lambda: interval_ms, run)


@pytest.mark.seed("S4-003")
def test_a_task_runs_periodically_in_its_own_thread(lab: Lab) -> None:
    threads = []

    async def run() -> None:
        threads.append(threading.current_thread())

    thread = lab.start(task(run))

    assert thread.wait_first()
    until(lambda: len(threads) >= 3)
    assert set(threads).isdisjoint({threading.main_thread()})
    assert lab.value("sluicegate_task_last_success_timestamp_seconds", "work") > 1e9
    assert lab.failures == []


@pytest.mark.seed("S4-003")
def test_a_task_that_raises_is_counted_logged_and_restarted(
    lab: Lab, caplog: pytest.LogCaptureFixture
) -> None:
    runs = {"bad": 0, "good": 0}

    async def bad() -> None:
        runs["bad"] += 1
        errors = SystemExit(3), KeyboardInterrupt(), GeneratorExit(), asyncio.CancelledError()
        raise dict(zip(range(2, 6), errors, strict=True)).get(runs["bad"], ValueError("no disk"))

    async def good() -> None:
        runs["good"] += 1

    with caplog.at_level(logging.ERROR):
        thread = lab.start(task(bad, name="bad"), task(good, name="good"))
        assert thread.wait_first()
        until(lambda: runs["bad"] >= 7 and runs["good"] >= 7)

    assert ("mine", "task bad: ValueError: no disk") in lab.failures
    for text in ("raised SystemExit(3)", "raised KeyboardInterrupt()", "raised GeneratorExit()"):
        assert ("mine", f"task bad: RuntimeError: {text}") in lab.failures
    assert ("mine", "task bad: RuntimeError: it cancelled itself") in lab.failures
    assert lab.value("sluicegate_task_failures", "bad") >= 3
    assert lab.value("sluicegate_task_failures", "good") == 0
    assert lab.value("sluicegate_task_last_attempt_timestamp_seconds", "bad") > 1e9
    assert lab.value("sluicegate_task_last_success_timestamp_seconds", "bad") == 0
    [record, *_] = [record for record in caplog.records if "no disk" in record.getMessage()]
    assert record.getMessage() == "task bad of plugin mine failed: ValueError: no disk"
    assert record.exc_info is not None
    told = [record for record in caplog.records if "no disk" in record.getMessage()]
    assert len(told) < runs["bad"]  # one line a second at most


def test_a_task_that_hangs_is_cancelled_counted_and_restarted(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_LIMIT_S", 0.05)
    runs, cancelled = [], []

    async def hang() -> None:
        runs.append(1)
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            cancelled.append(1)
            raise

    lab.start(task(hang))

    until(lambda: len(runs) >= 3)
    assert len(cancelled) >= 2
    assert lab.failures[0] == ("mine", "task work: TimeoutError: took longer than 0.05 s")


def test_a_task_that_ignores_cancellation_never_runs_twice_at_once(
    lab: Lab, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "LEAST_LIMIT_S", 0.05)
    monkeypatch.setattr(module, "_CANCELLING_S", 0.05)
    running = []
    end = threading.Event()

    async def stubborn() -> None:
        running.append(1)
        while not end.is_set():
            try:
                await asyncio.sleep(0.01)
            except asyncio.CancelledError:
                continue

    lab.start(task(stubborn))

    until(lambda: any("still runs" in text for _, text in lab.failures))
    assert len(running) == 1
    end.set()
    until(lambda: len(running) >= 2)


def test_a_task_that_blocks_its_thread_is_reported_by_another_thread(lab: Lab) -> None:
    end = threading.Event()

    async def block() -> None:
        end.wait(LONG_S)  # what a task must not do

    thread = lab.start(task(block))
    until(lambda: lab.value("sluicegate_task_last_attempt_timestamp_seconds", "work") > 0)
    assert not thread.wait_first(0.01)

    for _ in range(3):
        thread.watch(time.monotonic_ns() + 8_000_000_000)

    end.set()
    [(_, text)] = lab.failures
    assert re.fullmatch(r"task work: blocks the thread of all tasks for \d+ s", text)
    assert int(text.split()[-2]) >= 8


def test_the_interval_may_change_while_a_task_waits(lab: Lab) -> None:
    interval_ms, runs = [60_000], []

    async def run() -> None:
        runs.append(1)

    thread = lab.start(Task("work", lambda: interval_ms[0], run))
    assert thread.wait_first()
    interval_ms[0] = 20

    until(lambda: len(runs) >= 3)


def test_an_interval_that_raises_is_counted_as_a_failure(lab: Lab) -> None:
    async def run() -> None:
        pass

    thread = lab.start(Task("work", lambda: 1 // 0, run))

    assert thread.wait_first()
    assert lab.failures[0] == (
        "mine",
        "task work: interval: ZeroDivisionError: integer division or modulo by zero",
    )


def test_a_task_that_returns_no_coroutine_is_a_failure(lab: Lab) -> None:
    thread = lab.start(Task("work", lambda: 10, lambda: None))  # type: ignore[arg-type,return-value]

    assert thread.wait_first()
    assert "TypeError" in lab.failures[0][1]


def test_stopping_cancels_running_tasks_and_ends_the_thread(lab: Lab) -> None:
    cancelled = []

    async def hang() -> None:
        try:
            await asyncio.Event().wait()
        finally:
            cancelled.append(1)

    thread = lab.start(task(hang))
    until(lambda: lab.value("sluicegate_task_last_attempt_timestamp_seconds", "work") > 0)

    thread.stop()
    thread.stop()

    assert cancelled == [1]
    assert lab.failures == []
    assert not [each for each in threading.enumerate() if each.name == "sluicegate-tasks"]


def test_a_thread_that_gets_no_event_loop_says_so(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    def none_left(*_: object) -> None:
        raise OSError(24, "Too many open files")

    async def run() -> None:
        pass

    monkeypatch.setattr(asyncio.events, "new_event_loop", none_left)
    raised = []

    def start() -> None:
        try:
            lab.start(task(run))
        except OSError as error:
            raised.append(error.strerror)

    starting = threading.Thread(target=start, daemon=True)
    starting.start()
    starting.join(LONG_S)
    assert raised == ["Too many open files"]
