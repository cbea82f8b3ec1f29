"""Workers share the supervisor's budgets over their lines as they would share any other store."""

import asyncio
from collections.abc import Callable, Mapping
from typing import Any

import orjson
import pytest
from tests.budgets.conftest import LEASE_US, PLACE_LEASE_US
from tests.waiting import LONG_S

from sluicegate.budgets import BudgetStore, BudgetStoreError, Limit, MemoryBudgets, MemoryBudgetStore, Request
from sluicegate.processes import messages
from sluicegate.processes.budget_line import BudgetServer, LineBudgetStore, store_of
from sluicegate.testing.budget_contract import BudgetStoreContract, BudgetsUnderTest

Hear = Callable[[dict[str, Any]], None]
REQUEST = Request(Limit("orders", 100, 50), 10, 0.1)


def line(to: Hear) -> Callable[..., None]:
    """Sends messages as the line between the processes does."""

    def send(kind: str, **content: object) -> None:
        to(orjson.loads(messages.encode(kind, **content)))

    return send


class OverLines(BudgetsUnderTest):
    """Budgets of this process, each holder behind a line of its own."""

    def __init__(self) -> None:
        self._now_us = 10**12
        self._budgets = MemoryBudgets(LEASE_US, PLACE_LEASE_US, lambda: self._now_us)
        self._answering: set[asyncio.Task[None]] = set()

    async def open(self, holder: str) -> BudgetStore:
        def ask(message: dict[str, Any]) -> None:
            task = asyncio.ensure_future(server.answer(message))
            self._answering.add(task)
            task.add_done_callback(self._answering.discard)

        store = LineBudgetStore(line(ask), LONG_S)
        server = BudgetServer(MemoryBudgetStore(self._budgets, holder), line(store.hear))
        return store

    def turn(self, seconds: float) -> None:
        self._now_us += round(seconds * 1e6)

    async def lose(self) -> None:
        self._budgets.forget()


class TestLines(BudgetStoreContract):
    @pytest.fixture
    def budgets(self) -> BudgetsUnderTest:
        return OverLines()


async def test_an_answer_that_comes_too_late_is_dropped() -> None:
    asked: list[dict[str, Any]] = []
    store = LineBudgetStore(line(asked.append), 0.001)
    with pytest.raises(BudgetStoreError, match="the supervisor did not answer within 1 ms"):
        await store.reserve([REQUEST])
    store.hear({"number": asked[0]["number"], "answer": []})
    with pytest.raises(BudgetStoreError, match="did not answer"):
        await store.reserve([REQUEST])
    assert asked[0]["number"] != asked[1]["number"]


async def test_without_a_supervisor_calls_fail_at_once() -> None:
    asked: list[dict[str, Any]] = []
    store = LineBudgetStore(line(asked.append), LONG_S)
    waiting = asyncio.ensure_future(store.members())
    await asyncio.sleep(0)
    store.lost()
    with pytest.raises(BudgetStoreError, match="the supervisor of this worker is gone"):
        await waiting
    with pytest.raises(BudgetStoreError, match="the supervisor of this worker is gone"):
        await store.leave()
    assert len(asked) == 1


async def test_a_worker_that_has_ended_leads_no_task_and_is_no_member() -> None:
    budgets = MemoryBudgets(LEASE_US, PLACE_LEASE_US)
    answers: list[dict[str, Any]] = []
    server = BudgetServer(MemoryBudgetStore(budgets, "0/1"), line(answers.append))
    await server.answer({"number": 1, "call": "attend", "given": ["t", "", 60]})
    member = {"gateway": "g", "worker": "main/0", "instance": "x", "info": ""}
    await server.answer({"number": 2, "call": "join", "given": [member]})
    assert (answers[0]["answer"]["leads"], answers[1]["answer"]) == (True, 1)
    await server.ended()
    other = MemoryBudgetStore(budgets, "1/2")
    assert (await other.attend("t", "", 60)).leads
    assert await other.members() == []


async def test_a_call_that_no_store_has_is_refused() -> None:
    server = BudgetServer(
        MemoryBudgetStore(MemoryBudgets(LEASE_US, PLACE_LEASE_US), "h"), line(lambda message: None)
    )
    with pytest.raises(ValueError, match="call 'close' of a budget store, expected one of reserve, hold"):
        await server.answer({"number": 1, "call": "close", "given": []})


@pytest.mark.parametrize(
    ("start", "is_ours"),
    [
        ({"config": {}}, False),
        ({"workers": 2, "config": {}}, True),
        ({"workers": 2, "config": {"budgets": None}}, True),
        ({"workers": 2, "config": {"budgets": "redis://localhost"}}, False),
    ],
)
def test_only_workers_with_siblings_and_no_other_store_ask_the_supervisor(
    start: Mapping[str, Any], is_ours: bool
) -> None:
    assert (store_of(start, line(lambda message: None)) is not None) == is_ours
