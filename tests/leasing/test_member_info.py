"""What members of a fleet know of each other."""

from collections.abc import Callable

import pytest

from sluicegate.budgets import BudgetStoreError, Member, MemoryBudgets, MemoryBudgetStore
from sluicegate.config.models import Budgets
from sluicegate.leasing.holder import Holder
from sluicegate.leasing.joining import UnusableStore, holder_of
from sluicegate.leasing.member_info import LED, NAME_IS_TAKEN, member_info


def _start(budgets: MemoryBudgets, gateway: str, policies: Callable[[], str]) -> Holder:
    def open_store(_: Budgets, holder: str) -> MemoryBudgetStore:
        return MemoryBudgetStore(budgets, holder)

    return holder_of(Budgets(url="mine:", gateway=gateway), "main", open_store, policies)


def _budgets() -> MemoryBudgets:
    return MemoryBudgets(200_000, 3_000_000, lambda: 10**12)


async def test_a_member_says_that_its_name_is_taken() -> None:
    budgets = _budgets()
    one, same = _start(budgets, "one", str), _start(budgets, "one", str)
    for each in (one, same, one, same, one):
        await each.join()
    await same.join()
    [member] = await MemoryBudgetStore(budgets, "status").members()
    assert member_info(member)[NAME_IS_TAKEN] is True


async def test_a_member_counts_others_with_other_policies() -> None:
    budgets = _budgets()
    versions = {"one": "v1", "two": "v1", "three": "v2"}
    holders = [_start(budgets, name, lambda name=name: versions[name]) for name in versions]  # type: ignore[misc]
    for each in holders:
        await each.join()
    assert [each.snapshot()["other_policies"] for each in holders] == [None] * 3
    for each in holders:
        await each.compare()
    assert [each.snapshot()["other_policies"] for each in holders] == [1, 1, 2]

    versions["three"] = "v1"
    await holders[2].join()
    await holders[0].compare()
    assert holders[0].snapshot()["other_policies"] == 0


async def test_a_member_says_which_tasks_it_does_for_all() -> None:
    budgets = _budgets()
    one, other = _start(budgets, "one", str), _start(budgets, "two", str)
    with pytest.raises(BudgetStoreError, match="this worker ends"):
        await one.attend("main|t", "", 5)
    for each in (one, other):
        each.start()
    assert (await one.attend("main|t", "", 5)).leads
    assert (await one.attend("main|s", "", 5)).leads
    assert not (await other.attend("main|t", "", 5)).leads
    for each in (one, other):
        await each.join()
    status = MemoryBudgetStore(budgets, "status")
    assert [member_info(each).get(LED) for each in await status.members()] == [["main|s", "main|t"], None]

    await one.close()
    with pytest.raises(BudgetStoreError, match="this worker ends"):
        await one.publish("main|t", "found")
    assert (await other.attend("main|t", "", 5)).leads
    await other.join()
    assert [member_info(each)[LED] for each in await status.members()] == [["main|t"]]
    await other.close()


async def test_who_leads_a_task_no_longer_does_not_say_so() -> None:
    now_us = [10**12]
    budgets = MemoryBudgets(200_000, 3_000_000, lambda: now_us[0])
    one, other = _start(budgets, "one", str), _start(budgets, "two", str)
    for each in (one, other):
        each.start()
    await one.attend("main|t", "", 5)
    now_us[0] += 5_000_000
    assert (await other.attend("main|t", "", 5)).leads
    assert one.led == {"main|t"}, "it does not know yet"
    assert not await one.publish("main|t", "found")
    assert (one.led, other.led) == (set(), {"main|t"})
    for each in (one, other):
        await each.close()


async def test_a_store_that_cannot_be_opened_leads_no_task() -> None:
    store = UnusableStore(BudgetStoreError("no such host"))
    with pytest.raises(BudgetStoreError, match="no such host"):
        await store.attend("t", "", 5)
    with pytest.raises(BudgetStoreError, match="no such host"):
        await store.publish("t", "found")


def test_what_another_version_tells_in_its_own_way_is_nothing() -> None:
    assert [member_info(Member("one", "main/0", "1", text)) for text in ("", "{", "[1]")] == [{}, {}, {}]
