"""The part of the budget stores' suite that is about tasks which one holder does for all."""

import pytest

from sluicegate.budgets import MOST_TOLD
from sluicegate.testing.budgets_under_test import BudgetsUnderTest


class LedTaskContract:
    """Tests of `BudgetStore.attend` and `publish`; see `BudgetStoreContract`."""

    async def test_one_holder_leads_a_task_until_its_lease_ends(self, budgets: BudgetsUnderTest) -> None:
        one, other = await budgets.open("a"), await budgets.open("b")
        assert (await one.attend("t", "", 5)).leads
        assert (await other.attend("another", "", 5)).leads
        assert not (await other.attend("t", "", 5)).leads
        budgets.turn(4)
        assert (await one.attend("t", "", 5)).leads
        budgets.turn(4.9)
        assert not (await other.attend("t", "", 5)).leads
        budgets.turn(0.1)
        assert (await other.attend("t", "", 5)).leads
        assert not (await one.attend("t", "", 5)).leads

    async def test_who_leaves_leads_no_longer_and_tells_nothing(self, budgets: BudgetsUnderTest) -> None:
        one, other = await budgets.open("a"), await budgets.open("b")
        assert (await one.attend("t", "mine", 5)).leads
        await other.attend("t", "yours", 5)
        await one.leave()
        turn = await other.attend("t", "yours", 5)
        assert (turn.leads, turn.reports) == (True, {})
        await one.leave()
        assert not (await one.attend("t", "", 5)).leads, "who does not lead ends nothing by leaving"

    async def test_the_leader_alone_hears_what_others_tell_within_a_lease(
        self, budgets: BudgetsUnderTest
    ) -> None:
        one, other, third = [await budgets.open(name) for name in "abc"]
        assert (await one.attend("t", "1", 5)).reports == {}
        assert (await other.attend("t", "2", 5)).reports == {}
        budgets.turn(3)
        assert (await third.attend("t", "\n", 5)).reports == {}
        assert (await one.attend("t", "1", 5)).reports == {"b": "2", "c": "\n"}
        assert (await one.attend("another", "1", 5)).reports == {}
        budgets.turn(2)
        assert (await one.attend("t", "1", 5)).reports == {"c": "\n"}
        await third.attend("t", "", 5)
        assert (await one.attend("t", "1", 5)).reports == {}

    async def test_what_was_found_stays_with_its_age(self, budgets: BudgetsUnderTest) -> None:
        one, other = await budgets.open("a"), await budgets.open("b")
        turn = await one.attend("t", "", 5)
        assert (turn.findings, turn.age) == ("", 0)
        assert await one.publish("t", "{}\u00e9")
        budgets.turn(1.5)
        turn = await other.attend("t", "", 5)
        assert (turn.leads, turn.findings, turn.age) == (False, "{}\u00e9", 1.5)
        await one.leave()
        budgets.turn(100)
        turn = await other.attend("t", "", 5)
        assert (turn.leads, turn.findings, turn.age) == (True, "{}\u00e9", 101.5)
        assert await other.publish("t", "2")
        assert (await other.attend("t", "", 5)).findings == "2"

    async def test_a_leader_that_was_away_changes_nothing(self, budgets: BudgetsUnderTest) -> None:
        one, other = await budgets.open("a"), await budgets.open("b")
        assert (await one.attend("t", "", 5)).leads
        budgets.turn(5)
        assert await one.publish("t", "late, but nobody else leads")
        assert (await other.attend("t", "", 5)).leads
        assert await other.publish("t", "new")
        assert not await one.publish("t", "old")
        await other.leave()
        assert not await one.publish("t", "old")
        assert (await one.attend("t", "", 5)).findings == "new"

    async def test_after_a_loss_another_leads_at_once(self, budgets: BudgetsUnderTest) -> None:
        one, other = await budgets.open("a"), await budgets.open("b")
        assert (await one.attend("t", "mine", 5)).leads
        assert await one.publish("t", "found")
        await budgets.lose()
        turn = await other.attend("t", "", 5)
        assert (turn.leads, turn.findings, turn.reports) == (True, "", {})
        assert not await one.publish("t", "found")
        assert not (await one.attend("t", "", 5)).leads

    async def test_texts_of_tasks_are_bounded(self, budgets: BudgetsUnderTest) -> None:
        store = await budgets.open("a")
        await store.attend("t", "\u00e9" * (MOST_TOLD // 2), 5)
        assert await store.publish("t", "x" * MOST_TOLD)
        with pytest.raises(ValueError, match="task t tells 262146 bytes, expected at most 262144"):
            await store.attend("t", "\u00e9" * (MOST_TOLD // 2 + 1), 5)
        with pytest.raises(ValueError, match="task t tells 262145 bytes"):
            await store.publish("t", "x" * (MOST_TOLD + 1))
