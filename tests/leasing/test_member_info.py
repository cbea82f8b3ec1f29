"""What members of a fleet know of each other."""

from collections.abc import Callable

from sluicegate.budgets import Member, MemoryBudgets, MemoryBudgetStore
from sluicegate.config.models import Budgets
from sluicegate.leasing.holder import Holder
from sluicegate.leasing.joining import holder_of
from sluicegate.leasing.member_info import NAME_IS_TAKEN, member_info


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


def test_what_another_version_tells_in_its_own_way_is_nothing() -> None:
    assert [member_info(Member("one", "main/0", "1", text)) for text in ("", "{", "[1]")] == [{}, {}, {}]
