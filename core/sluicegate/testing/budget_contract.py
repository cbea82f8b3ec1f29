"""The suite that every budget store passes, for stores of your own too."""

from collections.abc import Sequence
from dataclasses import dataclass
from random import Random

import pytest

from sluicegate.budgets import (
    NOT_YET,
    TAKEN,
    BudgetStore,
    Grant,
    Limit,
    Member,
    Place,
    Request,
    SameNameError,
)
from sluicegate.testing.budgets_under_test import LEASE_S, PERIOD_S, PLACE_LEASE_S, BudgetsUnderTest
from sluicegate.testing.led_task_contract import LedTaskContract

__all__ = ["LEASE_S", "PERIOD_S", "PLACE_LEASE_S", "BudgetStoreContract", "BudgetsUnderTest"]

ORDERS = Limit("orders", rate=100, burst=50)


@dataclass
class HolderUnderTest:
    """One that asks for a limit every 50 ms, and tells what it holds.

    :param store: its own.
    """

    store: BudgetStore
    limit: Limit = ORDERS
    last: Grant | None = None

    async def ask(self, want: float, kept: float = 0, need: float = 0, known: bool = True) -> float:
        """Tokens of one request."""
        request = Request(self.limit, want, PERIOD_S, kept, self.last, need, known)
        [self.last] = await self.store.reserve([request])
        return self.last.tokens


class BudgetStoreContract(LedTaskContract):
    """Tests of a `BudgetStore`; a class that derives from it gives them a fixture `budgets`.

    The fixture gives an empty `BudgetsUnderTest`, whose time has begun a while ago.
    """

    async def holders(self, budgets: BudgetsUnderTest, *names: str) -> list[HolderUnderTest]:
        """Holders of one limit, which nobody has used and which is full."""
        budgets.turn(10)
        return [HolderUnderTest(await budgets.open(name)) for name in names]

    async def test_a_limit_that_nobody_has_used_is_full(self, budgets: BudgetsUnderTest) -> None:
        one, other = await self.holders(budgets, "a", "b")
        assert await one.ask(80, known=False) == 50
        assert await other.ask(80) == 0

    async def test_what_holders_spend_comes_back_at_the_rate(self, budgets: BudgetsUnderTest) -> None:
        [holder] = await self.holders(budgets, "a")
        await holder.ask(50, known=False)
        assert await holder.ask(50) == 0
        budgets.turn(0.05)
        assert await holder.ask(50) == pytest.approx(5)

    async def test_what_is_kept_stays_and_what_is_not_wanted_goes_back(
        self, budgets: BudgetsUnderTest
    ) -> None:
        one, other = await self.holders(budgets, "a", "b")
        assert await one.ask(50, known=False) == 50
        assert 20 <= await one.ask(20, kept=50) < 25
        assert 10 <= await other.ask(10) < 15
        assert await one.ask(0, kept=20) == 0
        assert await other.ask(50, kept=10) >= 20

    async def test_a_holder_has_a_reserve_while_there_is_plenty(self, budgets: BudgetsUnderTest) -> None:
        """What is spent varies: with no more than is spent at most, messages would wait again and again."""
        one, other = await self.holders(budgets, "a", "b")
        reserve = await one.ask(5, known=False) - 5
        assert 1 <= reserve <= 20
        assert await one.ask(30, kept=5 + reserve) >= 30
        assert await other.ask(5) == 5, "there is no plenty any more"
        assert await one.ask(0, kept=30) == 0

    async def test_nothing_refills_beside_what_is_leased(self, budgets: BudgetsUnderTest) -> None:
        one, other = await self.holders(budgets, "a", "b")
        assert await one.ask(50, known=False) == 50
        budgets.turn(LEASE_S / 2)
        assert await other.ask(50) == 0

    async def test_a_lease_ends_by_itself_and_nothing_of_it_comes_back(
        self, budgets: BudgetsUnderTest
    ) -> None:
        one, other = await self.holders(budgets, "a", "b")
        assert await one.ask(50, known=False) == 50
        budgets.turn(2 * LEASE_S + 0.05)
        assert 0 < await other.ask(50) <= 25
        assert await one.ask(50, kept=50) < 5

    async def test_parts_of_a_token_add_up(self, budgets: BudgetsUnderTest) -> None:
        holder = HolderUnderTest(await budgets.open("a"))
        budgets.turn(LEASE_S)
        kept = await holder.ask(0.1, known=False)
        for _ in range(4):
            budgets.turn(0.004)
            kept = await holder.ask(1, kept)
        assert kept == 1

    async def test_a_need_above_the_burst_waits_until_the_bucket_is_full(
        self, budgets: BudgetsUnderTest
    ) -> None:
        [holder] = await self.holders(budgets, "a")
        spent = await holder.ask(20, known=False)
        assert spent >= 20
        assert await holder.ask(70, need=70) == 0
        budgets.turn(spent / ORDERS.rate - 0.01)
        assert await holder.ask(70, need=70) == 0
        budgets.turn(0.01)
        assert await holder.ask(70, need=70) == 70
        budgets.turn(0.1)
        assert await holder.ask(1) == 0, "it has left a debt"
        budgets.turn(0.25)
        assert await holder.ask(1) == 1

    async def test_who_needs_more_than_the_burst_waits_for_what_others_hold(
        self, budgets: BudgetsUnderTest
    ) -> None:
        one, other, third = await self.holders(budgets, "a", "b", "c")
        assert await other.ask(20, known=False) >= 20
        budgets.turn(PERIOD_S)
        assert await one.ask(70, need=70) == 0, "others may spend 20 as well"
        assert await other.ask(30, kept=15) == 15, "who has some keeps it while one waits"
        assert await third.ask(70, need=70) == 0, "two that wait do not keep each other waiting"
        budgets.turn(PERIOD_S)
        assert await other.ask(0) == 0
        budgets.turn(0.25)
        assert await one.ask(70, need=70) == 70

    async def test_the_lower_limit_wins_while_holders_differ(self, budgets: BudgetsUnderTest) -> None:
        one, other = await self.holders(budgets, "a", "b")
        assert await one.ask(48, known=False) >= 48
        assert await one.ask(1, kept=10) == 1
        other.limit = Limit("orders", rate=10, burst=5)
        assert await other.ask(50) == 4
        budgets.turn(2 * LEASE_S + 0.1)
        assert 0 < await one.ask(50) <= 5

    async def test_a_lost_bucket_begins_empty(self, budgets: BudgetsUnderTest) -> None:
        one, other = await self.holders(budgets, "a", "b")
        assert await one.ask(50, known=False) == 50
        await budgets.lose()
        assert await other.ask(50, known=False) == 0, "what others had may still be spent"
        assert await one.ask(50, kept=40) == 40, "but is what who says so has"
        budgets.turn(0.05)
        assert 0 < await other.ask(50, known=False) <= 5

    async def test_nothing_is_refilled_for_the_time_away(self, budgets: BudgetsUnderTest) -> None:
        one, other = await self.holders(budgets, "a", "b")
        assert await one.ask(50, known=False) == 50
        budgets.turn(1)
        for holder in one, other:
            request = Request(holder.limit, 50, PERIOD_S, last=holder.last, known=True, away=0.95)
            [grant] = await holder.store.reserve([request])
            assert grant.tokens <= 5

    @pytest.mark.parametrize("count", [2, 8, 20])
    @pytest.mark.parametrize("busy", [0.5, 0.9])
    async def test_a_limit_is_used_and_shared_by_demand(
        self, budgets: BudgetsUnderTest, count: int, busy: float
    ) -> None:
        """Demand is twice the limit; one wants `busy` of it, and from 5 s on another one does."""
        budgets.turn(10)
        limit, random, got = Limit("orders", 1000, 1000), Random(count), [0.0] * count  # noqa: S311 - no secret
        holders = [HolderUnderTest(await budgets.open(f"holder {index}"), limit) for index in range(count)]
        for turn in range(round(11 / PERIOD_S)):
            seconds = turn * PERIOD_S
            if turn in (round(1 / PERIOD_S), round(7 / PERIOD_S)):
                got = [0.0] * count
            first = 0 if seconds < 5 else count - 1
            passed = 0.0
            for when, index in sorted((random.random() * PERIOD_S, index) for index in range(count)):
                budgets.turn(when - passed)
                passed = when
                demand = 2000 * (busy if index == first else (1 - busy) / (count - 1))
                got[index] += await holders[index].ask(demand * PERIOD_S)
            budgets.turn(PERIOD_S - passed)
            if turn + 1 in (round(5 / PERIOD_S), round(11 / PERIOD_S)):
                self._is_shared(got, busy, first)

    @staticmethod
    def _is_shared(got: Sequence[float], busy: float, first: int) -> None:
        assert sum(got) >= 0.99 * 1000 * 4
        others = 2000 * (1 - busy) / (len(got) - 1)
        fair = [min(others, 1000 / len(got))] * len(got)
        fair[first] = 1000 - sum(fair[1:])
        assert [each / 4 for each in got] == pytest.approx(fair, rel=0.1)

    async def test_many_limits_are_asked_at_once(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(10)
        one, other = await budgets.open("a"), await budgets.open("b")
        limits = [Limit(f"limit {number}", 10, 1 + number) for number in range(20)]
        grants = await one.reserve([Request(limit, 100, 1) for limit in limits])
        assert [grant.tokens for grant in grants] == [1 + number for number in range(20)]
        [grant, _] = await other.reserve([Request(limit, 5, 0.1, known=True) for limit in limits[:2]])
        assert (grant.holders, grant.demand) == (2, 150)
        assert await one.reserve([]) == []

    async def test_standings_tell_of_all_limits(self, budgets: BudgetsUnderTest) -> None:
        [holder] = await self.holders(budgets, "a")
        await holder.ask(20, known=False)
        await holder.store.reserve([Request(Limit("*", 10, 10), 10, 1)])
        [first, second] = await holder.store.standings()
        assert (first.limit, first.leased, first.level) == (Limit("*", 10, 10), 10, 0)
        assert (second.limit, second.holders, second.demand) == (holder.limit, 1, 400)
        budgets.turn(1)
        [_, second] = await holder.store.standings()
        assert (second.level, second.leased) == (50, 0)

    async def test_members_stay_as_long_as_they_join(self, budgets: BudgetsUnderTest) -> None:
        one, other = await budgets.open("a"), await budgets.open("b")
        first, second = Member("g1", "kafka/0", "x", "{}"), Member("g1", "kafka/1", "y", '{"a":\n1}')
        assert await other.join(second) == 1
        assert await one.join(first) == 2
        assert await one.members() == [first, second]
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await other.join(second) == 2
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await one.members() == [second]
        await other.leave()
        assert await one.members() == []
        assert await one.join(first) == 1

    async def test_two_members_of_one_name_are_told(self, budgets: BudgetsUnderTest) -> None:
        one, other = await budgets.open("a"), await budgets.open("b")
        before, after = Member("g1", "kafka/0", "x"), Member("g1", "kafka/0", "y")
        assert await one.join(before) == 1
        assert await other.join(after) == 1, "it may be its successor"
        assert await other.join(after) == 1
        with pytest.raises(SameNameError, match=r"'g1' too: give each its own name by `budgets.gateway`"):
            await one.join(before)
        with pytest.raises(SameNameError):
            await other.join(after)
        await one.leave()
        assert await one.members() == [after]

    async def test_places_are_given_up_to_the_most(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        places = [Place("producers", f"p{number}", 2) for number in range(3)]
        assert await one.hold(places) == [TAKEN, TAKEN, 2]
        assert await other.hold([places[2], Place("others", "p", 2)]) == [2, TAKEN]
        await one.release(places[:1])
        assert await other.hold([places[2]]) == [TAKEN]

    async def test_it_tells_how_many_places_are_taken(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        assert await one.taken(["producers"]) == [0]
        both = Place("producers", "both", 3)
        await one.hold([both, Place("producers", "p", 3), Place("others", "p", 3)])
        await other.hold([both])
        assert await other.taken(["others", "producers", "none"]) == [1, 2, 0]
        budgets.turn(PLACE_LEASE_S / 2)
        await other.hold([both])
        budgets.turn(PLACE_LEASE_S / 2 + 0.1)
        assert await one.taken(["producers", "others"]) == [1, 0]

    async def test_a_place_ends_unless_it_is_renewed(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        first, second, third = (Place("producers", f"p{number}", 2) for number in range(3))
        assert await one.hold([first, second]) == [TAKEN, TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await one.hold([first]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await other.hold([third]) == [TAKEN]
        assert await one.hold([second]) == [2]

    async def test_what_is_attached_has_its_place_beyond_the_most(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        assert await one.hold([Place("producers", "p", 1)]) == [TAKEN]
        assert await other.hold([Place("producers", "q", 1, known=True)]) == [TAKEN]
        await one.release([Place("producers", "p", 1)])
        assert await one.hold([Place("producers", "p", 1)]) == [1]

    async def test_a_place_lasts_until_all_that_hold_it_have_left(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        place, attached, new = (
            Place("producers", "p", 1),
            Place("producers", "p", 1, known=True),
            Place("producers", "q", 1),
        )
        for first, last in ((one, other), (other, one)):
            assert await one.hold([place]) == [TAKEN]
            assert await other.hold([place]) == [TAKEN]
            assert await one.hold([attached]) == [TAKEN]
            await first.release([place])
            await first.release([place])
            assert await first.hold([new]) == [1]
            await last.release([place])
            assert await first.hold([new]) == [TAKEN]
            await first.release([new])
            await first.release([new])  # as after a lost answer

    async def test_a_holder_that_is_gone_keeps_no_place_from_being_freed(
        self, budgets: BudgetsUnderTest
    ) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        place, new = Place("producers", "p", 1), Place("producers", "q", 1)
        assert await one.hold([place]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await other.hold([place]) == [TAKEN]
        await one.release([place])
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await one.hold([new]) == [1]
        assert await one.hold([place]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.6)
        await one.release([place])
        assert await one.hold([new]) == [TAKEN]

    async def test_the_lowest_most_counts_while_holders_differ(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        assert await one.hold([Place("producers", "p", 1)]) == [TAKEN]
        new = Place("producers", "q", 3)
        assert await other.hold([new, Place("others", "q", 3)]) == [1, TAKEN]
        assert await one.hold([Place("producers", "p", 2, known=True)]) == [TAKEN]
        assert await other.hold([new]) == [TAKEN], "it knows the raised limit"
        third = Place("producers", "r", 3)
        assert await other.hold([third]) == [2]
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await other.hold([new, third]) == [TAKEN, 2]
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await other.hold([third, Place("producers", "s", 3)]) == [TAKEN, TAKEN], "the first is gone"

    async def test_who_is_refused_has_a_say_as_well(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        had, new = Place("producers", "p", 2), Place("producers", "r", 2)
        assert await one.hold([had]) == [TAKEN]
        assert await other.hold([Place("producers", "q", 1)]) == [1]
        assert await one.hold([new]) == [1]
        budgets.turn(PLACE_LEASE_S / 2)
        assert await one.hold([had]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S / 2)
        assert await one.hold([new]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S)
        assert await other.hold([Place("producers", "q", 1)]) == [TAKEN], "all others have ended"

    async def test_after_a_loss_places_are_for_those_who_had_them(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        store = await budgets.open("a")
        had = Place("producers", "p", 2)
        assert await store.hold([had]) == [TAKEN]
        await budgets.lose()
        assert await store.hold([Place("producers", "new", 2)]) == [NOT_YET]
        assert await store.hold([Place("producers", "p", 2, known=True)]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.9)
        assert await store.hold([Place("producers", "p", 2, known=True)]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.1)
        assert await store.hold([Place("producers", "new", 2)]) == [TAKEN]
