"""One worker of a fleet runs a shared task, the others take over what it found."""

import asyncio
import json
from collections.abc import Callable, Iterator, Mapping

import pytest
from tests.loops import LoopThread
from tests.runtime.test_tasks import Lab
from tests.waiting import LONG_S, until

from sluicegate.budgets import MOST_TOLD, BudgetStoreError, MemoryBudgets, MemoryBudgetStore, Turn
from sluicegate.engine.task import SharedTask, Task
from sluicegate.runtime.shared_runs import SharedRuns, TurnsElsewhere

LIMIT_S = 5.0


class Store(MemoryBudgetStore):
    """A store that can be away."""

    is_away = False

    async def attend(self, task: str, report: str, lease: float) -> Turn:
        self._fail()
        return await super().attend(task, report, lease)

    async def publish(self, task: str, findings: str) -> bool:
        self._fail()
        return await super().publish(task, findings)

    def _fail(self) -> None:
        if self.is_away:
            raise BudgetStoreError("away")


class Share(SharedTask):
    """Records what is asked of it."""

    def __init__(self, name: str) -> None:
        self.name = name
        self.calls: list[object] = []
        self.runs = 0
        self.unreadable = False
        self.on_run: Callable[[], None] = lambda: None

    async def tell(self) -> str:
        return self.name

    def hear(self, reports: Mapping[str, str] | None) -> None:
        self.calls.append(None if reports is None else dict(reports))

    async def run(self) -> None:
        self.runs += 1
        self.calls.append("run")
        self.on_run()

    def findings(self) -> str:
        return f"{self.name} {self.runs}"

    def take(self, findings: str, age_s: float) -> None:
        if self.unreadable:
            raise ValueError("of another version")
        self.calls.append((findings, age_s))


class Same(TurnsElsewhere):
    """Turns on the loop that also runs the tasks."""

    def __init__(self, store: Store) -> None:
        super().__init__(store, asyncio.get_running_loop())


class Worker:
    """One that shares a task; its time is the fleet's."""

    def __init__(self, fleet: "Fleet", name: str) -> None:
        self.store = Store(fleet.budgets, name)
        self.share = Share(name)
        self.leads: list[bool] = []
        task = Task("work", lambda: 1000, self.share.run, self.share)
        self.runs = SharedRuns(task, self.share, "main|work", Same(self.store), self.leads.append)

    async def turn(self) -> list[object]:
        """Run once, and return what was asked of the task."""
        self.share.calls.clear()
        await self.runs.run(LIMIT_S, 1.0)
        return self.share.calls


class Fleet:
    """Workers of one store."""

    def __init__(self, *names: str) -> None:
        self.now_us = 10**12
        self.budgets = MemoryBudgets(200_000, 3_000_000, lambda: self.now_us)
        self.workers = [Worker(self, name) for name in names]

    def wait(self, seconds: float) -> None:
        self.now_us += round(seconds * 1e6)


async def test_one_runs_for_all_and_hears_what_they_tell() -> None:
    fleet = Fleet("a", "b")
    one, other = fleet.workers
    assert await one.turn() == [{}, "run"]
    fleet.wait(0.5)
    assert await other.turn() == [("a 1", 0.5)]
    fleet.wait(0.5)
    assert await one.turn() == [{"b": "b"}, "run"]
    assert await other.turn() == [("a 2", 0)]
    assert (set(one.leads), set(other.leads)) == ({True}, {False})


async def test_another_goes_on_with_what_was_found_when_the_leader_dies() -> None:
    fleet = Fleet("a", "b", "c")
    one, other, third = fleet.workers
    for worker in fleet.workers:
        await worker.turn()
    fleet.wait(LIMIT_S - 0.1)
    assert await other.turn() == [("a 1", 4.9)]
    fleet.wait(0.1)
    assert await third.turn() == [("a 1", 5), {"b": "b"}, "run"]
    assert await third.turn() == [{"b": "b"}, "run"], "it has led already"
    assert await other.turn() == [("c 2", 0)]
    assert await one.turn() == [("c 2", 0)], "that was stopped, not dead"
    assert one.leads[-1] is False


async def test_while_the_store_is_away_each_runs_for_itself() -> None:
    fleet = Fleet("a", "b")
    one, other = fleet.workers
    for worker in fleet.workers:
        await worker.turn()
        worker.store.is_away = True
    assert [await worker.turn() for worker in fleet.workers] == [[None, "run"]] * 2
    assert [one.leads[-1], other.leads[-1]] == [False, False]
    one.store.is_away = other.store.is_away = False
    assert await one.turn() == [{"b": "b"}, "run"], "what it found itself is no news"
    assert await other.turn() == [("a 3", 0)]


async def test_a_store_that_goes_away_during_a_run() -> None:
    fleet = Fleet("a", "b")
    one, other = fleet.workers
    await one.turn()
    one.share.on_run = lambda: setattr(one.store, "is_away", True)
    assert await one.turn() == [{}, "run"]
    assert one.leads[-1] is False
    assert await other.turn() == [("a 1", 0)]


async def test_a_leader_that_was_stopped_in_its_run_changes_nothing() -> None:
    fleet = Fleet("a", "b")
    one, other = fleet.workers
    await one.turn()
    turns: list[object] = []

    async def run() -> None:
        fleet.wait(LIMIT_S)
        turns.extend(await other.turn())

    one.runs = SharedRuns(
        Task("work", lambda: 1000, run, one.share), one.share, "main|work", Same(one.store), one.leads.append
    )
    await one.turn()
    assert turns == [("a 1", LIMIT_S), {}, "run"]
    assert one.leads[-1] is False
    assert await one.turn() == [("b 1", 0)]


async def test_what_cannot_be_told_fails_and_each_runs_for_itself() -> None:
    fleet = Fleet("a", "b")
    one, other = fleet.workers
    one.share.name = "x" * (MOST_TOLD + 1)
    with pytest.raises(ValueError, match=r"task main\|work tells 262145 bytes"):
        await one.turn()
    assert one.share.calls == [None, "run"]
    assert await other.turn() == [{}, "run"]
    other.share.findings = lambda: "x" * (MOST_TOLD + 1)  # type: ignore[method-assign]
    with pytest.raises(ValueError, match=r"task main\|work tells 262145 bytes"):
        await other.turn()
    assert other.share.calls == [{}, "run"]


async def test_what_cannot_be_read_fails_and_each_runs_for_itself() -> None:
    fleet = Fleet("a", "b")
    one, other = fleet.workers
    await one.turn()
    other.share.unreadable = True
    with pytest.raises(ValueError, match="another version"):
        await other.turn()
    assert other.share.calls == [None, "run"]
    fleet.wait(LIMIT_S)
    with pytest.raises(ValueError, match="another version"):
        await other.turn()
    assert other.share.calls == [{}, "run"], "it leads nevertheless"
    assert await one.turn() == [("b 2", 0)]
    assert await other.turn() == [{"a": "a"}, "run"], "and fails once only"


async def test_who_does_not_lead_looks_soon_after_the_leader_has_run() -> None:
    fleet = Fleet("a", "b")
    one, other = fleet.workers
    assert await one.runs.run(180, 60) == 60
    fleet.wait(50)
    assert await one.runs.run(180, 60) == 60
    fleet.wait(2)
    assert await other.runs.run(180, 60) == pytest.approx(59, abs=0.5)
    fleet.wait(1)
    assert await other.runs.run(180, 10) == pytest.approx(8, abs=0.5)
    fleet.wait(7.1)
    assert await other.runs.run(180, 10) == pytest.approx(1, abs=0.5), "the leader is a little late"
    fleet.wait(2)
    assert await other.runs.run(180, 10) == pytest.approx(2.1, abs=0.5)
    fleet.wait(50)
    assert await other.runs.run(180, 10) == pytest.approx(2.5, abs=0.5), "it may be gone"


async def test_a_worker_that_starts_waits_for_what_the_leader_finds_first() -> None:
    fleet = Fleet("a", "b")
    one, other = fleet.workers
    began, goes_on = asyncio.Event(), asyncio.Event()

    async def run() -> None:
        began.set()
        await goes_on.wait()

    one.runs = SharedRuns(
        Task("work", lambda: 1000, run, one.share), one.share, "main|work", Same(one.store), one.leads.append
    )
    leading = asyncio.ensure_future(one.turn())
    await began.wait()
    following = asyncio.ensure_future(other.turn())
    await asyncio.sleep(0.3)
    assert not following.done()
    goes_on.set()
    await leading
    assert await asyncio.wait_for(following, LONG_S) == [("a 0", 0)]


# -- the tasks' thread and the worker's event loop -----------------------------------------------------


@pytest.fixture
def main_loop() -> Iterator[LoopThread]:
    """As a worker's, which is another one than that of its tasks."""
    made = LoopThread("worker")
    yield made
    made.end()


@pytest.fixture
def lab(main_loop: LoopThread) -> Iterator[Lab]:  # its threads end before the loop that they call
    lab = Lab()
    yield lab
    for thread in lab.threads:
        thread.stop()


def test_of_two_threads_of_tasks_one_runs_a_shared_task(lab: Lab, main_loop: LoopThread) -> None:
    budgets = MemoryBudgets(200_000, 3_000_000)
    stores = [Store(budgets, name) for name in "ab"]
    shares = [Share(name) for name in "ab"]
    other_lab = Lab()
    labs = [lab, other_lab]
    try:
        for each, store, share in zip(labs, stores, shares, strict=True):
            task = Task("work", lambda: 10, share.run, share)
            thread = each.start(task, turns=TurnsElsewhere(store, main_loop.loop))
            assert thread.wait_first(LONG_S)
        until(lambda: shares[0].runs > 3 and len(shares[1].calls) > 3)
        assert shares[1].runs == 0
        assert [each.value("sluicegate_task_leads", "work") for each in labs] == [1, 0]
        lab.threads[0].stop()
        main_loop.run(stores[0].leave()).result(LONG_S)
        until(lambda: shares[1].runs > 0)
        assert other_lab.value("sluicegate_task_leads", "work") == 1
        assert labs[0].failures == labs[1].failures == []
    finally:
        other_lab.threads[0].stop()


def test_found_is_asked_once_what_the_run_applied_has_taken_effect(lab: Lab, main_loop: LoopThread) -> None:
    value = 0

    class Applied(Share):
        async def run(self) -> None:
            def apply() -> None:
                nonlocal value
                value += 1

            main_loop.loop.call_soon_threadsafe(apply)

        def findings(self) -> str:
            return json.dumps(value)

    budgets = MemoryBudgets(200_000, 3_000_000)
    share = Applied("a")
    turns = TurnsElsewhere(Store(budgets, "a"), main_loop.loop)
    assert lab.start(Task("work", lambda: 10_000, share.run, share), turns=turns).wait_first(LONG_S)
    turn = asyncio.run(Store(budgets, "b").attend("|work", "", 5))
    assert turn.findings == "1"


def test_a_worker_whose_loop_has_ended_runs_its_tasks_for_itself(lab: Lab, main_loop: LoopThread) -> None:
    main_loop.end()
    share = Share("a")
    store = Store(MemoryBudgets(200_000, 3_000_000), "a")
    lab.start(
        Task("work", lambda: 10, share.run, share), turns=TurnsElsewhere(store, main_loop.loop)
    ).wait_first(LONG_S)
    until(lambda: share.runs > 2)
    assert share.calls[:2] == [None, "run"]
    assert lab.failures == []


async def test_a_loop_that_ends_during_a_call_is_a_store_that_is_away(main_loop: LoopThread) -> None:
    class Hanging(Store):
        async def attend(self, task: str, report: str, lease: float) -> Turn:
            raise asyncio.CancelledError  # as a loop does to what runs on it when it ends

    turns = TurnsElsewhere(Hanging(MemoryBudgets(1, 1), "a"), main_loop.loop)
    with pytest.raises(BudgetStoreError, match="the worker has ended"):
        await turns.attend("t", "", 5)


def test_a_task_that_shares_nothing_runs_everywhere(lab: Lab, main_loop: LoopThread) -> None:
    runs = []

    async def run() -> None:
        runs.append(1)

    store = Store(MemoryBudgets(200_000, 3_000_000), "a")
    store.is_away = True
    lab.start(Task("work", lambda: 10, run), turns=TurnsElsewhere(store, main_loop.loop))
    until(lambda: len(runs) > 2)
    assert [each["name"] for each in lab.metrics.snapshot() if "leads" in each["name"]] == []
