"""The suite that every budget store passes, for stores of your own too."""

from abc import ABC, abstractmethod

import pytest

from sluicegate.budgets import TAKEN, BudgetStore, Limit, Place, Request

LEASE_S = 0.1
"""How long leased tokens can be spent, in the stores under test."""
PLACE_LEASE_S = 1.0
"""How long a place is held without being renewed."""


class BudgetsUnderTest(ABC):
    """One set of budgets, for the suite: all its stores share them. Their time stands until it is turned."""

    @abstractmethod
    async def open(self, holder: str) -> BudgetStore:
        """A store for one holder; they are closed by the fixture that made this."""

    @abstractmethod
    def turn(self, seconds: float) -> None:
        """Let time pass for the stores, in seconds; nothing waits."""

    @abstractmethod
    async def lose(self) -> None:
        """Lose all that the stores keep, as by a restart without data."""


class BudgetStoreContract:
    """Tests of a `BudgetStore`; a class that derives from it gives them a fixture `budgets`.

    The fixture gives an empty `BudgetsUnderTest`, whose time has begun a while ago.
    """

    LIMIT = Limit("orders", rate=100, burst=50)

    async def reserved(
        self, store: BudgetStore, want: float, kept: float = 0, need: float = 0, known: bool = True
    ) -> float:
        """Tokens of one request."""
        [grant] = await store.reserve([Request(self.LIMIT, want, kept, need, known)])
        return grant.tokens

    async def test_a_limit_that_nobody_has_used_is_full(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(10)
        assert await self.reserved(await budgets.open("a"), 80, known=False) == 50
        assert await self.reserved(await budgets.open("b"), 80) == 0

    async def test_what_holders_spend_comes_back_at_the_rate(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(10)
        store = await budgets.open("a")
        await self.reserved(store, 50, known=False)
        assert await self.reserved(store, 50) == 0
        budgets.turn(0.05)
        assert await self.reserved(store, 50) == pytest.approx(5)

    async def test_what_is_kept_stays_and_what_is_not_wanted_goes_back(
        self, budgets: BudgetsUnderTest
    ) -> None:
        budgets.turn(10)
        one, other = await budgets.open("a"), await budgets.open("b")
        assert await self.reserved(one, 50, known=False) == 50
        assert await self.reserved(one, 20, kept=50) == 20
        assert await self.reserved(other, 30) == 30
        assert await self.reserved(one, 0, kept=20) == 0
        assert await self.reserved(other, 50, kept=30) == 50

    async def test_nothing_refills_beside_what_is_leased(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(10)
        one, other = await budgets.open("a"), await budgets.open("b")
        assert await self.reserved(one, 50, known=False) == 50
        budgets.turn(LEASE_S / 2)
        assert await self.reserved(other, 50) == 0

    async def test_a_lease_ends_by_itself_and_nothing_of_it_comes_back(
        self, budgets: BudgetsUnderTest
    ) -> None:
        budgets.turn(10)
        one, other = await budgets.open("a"), await budgets.open("b")
        assert await self.reserved(one, 50, known=False) == 50
        budgets.turn(LEASE_S + 0.05)
        assert await self.reserved(other, 50) == pytest.approx(5)
        assert await self.reserved(one, 50, kept=50) == 0

    async def test_a_limit_is_shared_by_need_and_each_gets_something(self, budgets: BudgetsUnderTest) -> None:
        stores = [await budgets.open(name) for name in ("a", "b", "c")]
        wants, got = (1.0, 50.0, 50.0), [0.0, 0.0, 0.0]
        for turn in range(40):
            budgets.turn(0.01)
            index = turn % 3
            got[index] += await self.reserved(stores[index], wants[index])
        assert got[0] == pytest.approx(13, abs=1)
        assert got[1] == pytest.approx(got[2], rel=0.2)
        assert sum(got) == pytest.approx(40, abs=2)

    async def test_parts_of_a_token_add_up(self, budgets: BudgetsUnderTest) -> None:
        store = await budgets.open("a")
        kept = 0.0
        for _ in range(4):
            budgets.turn(0.004)
            kept = await self.reserved(store, 1, kept)
        assert kept == 1

    async def test_a_need_above_the_burst_waits_until_the_bucket_is_full(
        self, budgets: BudgetsUnderTest
    ) -> None:
        budgets.turn(10)
        store = await budgets.open("a")
        assert await self.reserved(store, 20, known=False) == 20
        assert await self.reserved(store, 70, need=70) == 30
        budgets.turn(0.09)
        assert await self.reserved(store, 70, kept=30, need=70) < 70
        kept = 30.0
        for _ in range(3):
            budgets.turn(0.09)
            kept = await self.reserved(store, 70, kept, need=70)
        assert kept == 70
        budgets.turn(0.09)
        assert await self.reserved(store, 1) == 0, "it has left a debt"

    async def test_the_lower_limit_wins_while_holders_differ(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(10)
        one, other = await budgets.open("a"), await budgets.open("b")
        assert await self.reserved(one, 1, known=False) == 1
        lower = Limit("orders", rate=10, burst=5)
        [grant] = await other.reserve([Request(lower, 50, known=True)])
        assert grant.tokens == 4
        budgets.turn(LEASE_S + 0.1)
        assert 0 < await self.reserved(one, 50) <= 1

    async def test_a_lost_bucket_begins_empty(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(10)
        one, other = await budgets.open("a"), await budgets.open("b")
        assert await self.reserved(one, 50, known=False) == 50
        await budgets.lose()
        assert await self.reserved(one, 50) == 0
        assert await self.reserved(other, 50, known=False) == 0
        budgets.turn(0.05)
        assert await self.reserved(other, 50, known=False) == pytest.approx(5)

    async def test_many_limits_are_asked_at_once(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(10)
        one, other = await budgets.open("a"), await budgets.open("b")
        limits = [Limit(f"limit {number}", 10, 1 + number) for number in range(20)]
        grants = await one.reserve([Request(limit, 100, known=False) for limit in limits])
        assert [grant.tokens for grant in grants] == [1 + number for number in range(20)]
        [grant, _] = await other.reserve([Request(limit, 5, known=True) for limit in limits[:2]])
        assert (grant.holders, grant.demand) == (2, 105)
        assert await one.reserve([]) == []

    async def test_places_are_given_up_to_the_most(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        places = [Place("producers", f"p{number}", 2) for number in range(3)]
        assert await one.hold(places) == [TAKEN, TAKEN, 2]
        assert await other.hold([places[2], Place("others", "p", 2)]) == [2, TAKEN]
        await one.release(places[:1])
        assert await other.hold([places[2]]) == [TAKEN]

    async def test_a_place_ends_unless_it_is_renewed(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        first, second, third = (Place("producers", f"p{number}", 2) for number in range(3))
        assert await one.hold([first, second]) == [TAKEN, TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await one.hold([first]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.6)
        assert await other.hold([third]) == [TAKEN]
        assert await one.hold([Place("producers", "p1", 2, known=True)]) == [2]

    async def test_a_place_can_be_taken_over(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        one, other = await budgets.open("a"), await budgets.open("b")
        place = Place("producers", "p", 1)
        assert await one.hold([place]) == [TAKEN]
        assert await other.hold([place]) == [TAKEN]
        await one.release([place])
        assert await one.hold([Place("producers", "q", 1)]) == [1]

    async def test_after_a_loss_places_are_for_those_who_had_them(self, budgets: BudgetsUnderTest) -> None:
        budgets.turn(PLACE_LEASE_S)
        store = await budgets.open("a")
        had = Place("producers", "p", 2)
        assert await store.hold([had]) == [TAKEN]
        await budgets.lose()
        assert await store.hold([Place("producers", "new", 2)]) == [0]
        assert await store.hold([Place("producers", "p", 2, known=True)]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.9)
        assert await store.hold([Place("producers", "p", 2, known=True)]) == [TAKEN]
        budgets.turn(PLACE_LEASE_S * 0.1)
        assert await store.hold([Place("producers", "new", 2)]) == [TAKEN]
