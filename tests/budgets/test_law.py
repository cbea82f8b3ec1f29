"""The law of leased budgets in every window, whatever holders and the network do."""

import asyncio
from dataclasses import dataclass, field

import pytest
from benchmarks.harness.redis import RedisServer
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.budgets.conftest import LEASE_US, InMemory, InRedis

from sluicegate.budgets import BudgetStore, Grant, Limit, Request
from sluicegate.testing.budget_contract import BudgetsUnderTest

RATE, BURST = 1000, 300
LIMIT = Limit("orders", RATE, BURST)
HOLDERS = 3
NEED = BURST + RATE * LEASE_US // 1_000_000
"""An operation larger than a full bucket; a lease refills its debt, as a store that is lost forgets debts."""

_US = st.sampled_from(
    [0, 1, 999, 10_000, 50_000, LEASE_US // 2, LEASE_US - 1, LEASE_US, LEASE_US + 1, 2_000_000]
)
_WHO = st.integers(0, HOLDERS - 1)
_STEPS = st.one_of(
    st.tuples(st.just("pass"), _US),
    st.tuples(
        st.just("ask"), _WHO, st.sampled_from([0, 1, 40, 299, 300, 1000]), st.sampled_from([0, 0, 1, NEED])
    ),
    st.tuples(st.just("serve"), _WHO),
    st.tuples(st.just("hear"), _WHO),
    st.tuples(st.just("miss"), _WHO),
    st.tuples(st.just("late"), _WHO),
    st.tuples(st.just("spend"), _WHO, st.sampled_from([1, 7, 1000])),
    st.tuples(st.just("die"), _WHO),
    st.tuples(st.just("lose")),
)


@dataclass
class Holder:
    """One that spends what it has, at once, and whose requests and answers may be late or lost."""

    store: BudgetStore
    offset_us: int
    """Of its own clock."""
    tokens: float = 0
    until_us: int = 0
    last: Grant | None = None
    rest: list[list[float]] = field(default_factory=list)
    """What it may still spend of leases before a call that failed, and their ends."""
    request: tuple[Request, int] | None = None
    """On its way, with the time of asking by its clock."""
    answer: tuple[Request, Grant, int] | None = None
    """On its way back, with the end of the lease."""
    late: list[Request] = field(default_factory=list)
    """Given up by the holder, but not lost."""
    known: bool = False


@dataclass
class World:
    """Holders around one limit."""

    budgets: BudgetsUnderTest
    now_us: int = 0
    holders: list[Holder] = field(default_factory=list)
    spent: list[tuple[int, float]] = field(default_factory=list)
    """Times and tokens."""
    largest: float = BURST
    """The largest grant, or a full bucket."""

    async def enter(self, index: int) -> None:
        store = await self.budgets.open(f"holder {index}")
        holder = Holder(store, offset_us=index * 3_600_000_000)
        self.holders[index : index + 1] = [holder]

    async def step(self, what: str, *arguments: int) -> None:
        if what == "pass":
            self.now_us += arguments[0]
            self.budgets.turn(arguments[0] / 1e6)
        elif what == "lose":
            await self.budgets.lose()
        elif what == "die":
            await self.enter(arguments[0])
        else:
            holder = self.holders[arguments[0]]
            await getattr(self, what)(holder, holder.offset_us + self.now_us, *arguments[1:])

    async def ask(self, holder: Holder, clock_us: int, want: int, need: int = 0) -> None:
        await self.miss(holder, clock_us)
        kept = holder.tokens if clock_us < holder.until_us else 0
        request = Request(LIMIT, want, 0.05, kept, holder.last, need, holder.known)
        holder.tokens, holder.last = request.renewed if kept else 0, None
        holder.request = request, clock_us

    async def serve(self, holder: Holder, clock_us: int) -> None:
        if holder.request is not None:
            request, asked_us = holder.request
            [grant] = await holder.store.reserve([request])
            holder.request, holder.known = None, True
            holder.answer = request, grant, asked_us + LEASE_US
            self.largest = max(self.largest, grant.tokens)

    async def hear(self, holder: Holder, clock_us: int) -> None:
        if holder.answer is not None:
            request, holder.last, until_us = holder.answer
            holder.tokens = max(0, holder.tokens + holder.last.tokens - request.renewed)
            holder.until_us, holder.answer = until_us, None

    async def miss(self, holder: Holder, clock_us: int) -> None:
        if holder.request is not None:
            holder.late.append(holder.request[0])
        if holder.request is not None or holder.answer is not None:
            holder.rest.append([holder.tokens, holder.until_us])
            holder.tokens = 0
        holder.request = holder.answer = None

    async def late(self, holder: Holder, clock_us: int) -> None:
        if holder.late:
            await holder.store.reserve([holder.late.pop(0)])

    async def spend(self, holder: Holder, clock_us: int, most: int) -> None:
        purses = [*holder.rest, [holder.tokens, holder.until_us]]
        for purse in purses:
            tokens = min(most, purse[0]) if clock_us < purse[1] else 0
            purse[0] -= tokens
            self.spent.append((self.now_us, tokens))
        holder.rest, holder.tokens = purses[:-1], purses[-1][0]

    def excess(self) -> float:
        """The most that any window had above the law."""
        return max(
            (
                sum(tokens for _, tokens in self.spent[first : last + 1])
                - RATE * (self.spent[last][0] - self.spent[first][0]) / 1e6
                - self.largest
                for first in range(len(self.spent))
                for last in range(first, len(self.spent))
            ),
            default=-self.largest,
        )


async def played(budgets: BudgetsUnderTest, steps: list[tuple[str, int]]) -> World:
    """What came of some steps."""
    world = World(budgets)
    budgets.turn(10)
    for index in range(HOLDERS):
        await world.enter(index)
    for step in steps:
        await world.step(*step)
    return world


HOARDING = [
    *(("pass", 2_000_000), ("ask", 0, 300), ("serve", 0), ("hear", 0), ("pass", 99_999)),
    *(("ask", 1, 300), ("serve", 1), ("hear", 1), ("ask", 0, 0), ("serve", 0), ("ask", 2, 300), ("serve", 2)),
    *(("hear", 2), ("pass", 99_999), ("spend", 1, 1000), ("spend", 2, 1000)),
]
"""What is given back late must not bring back what refilled meanwhile."""


@settings(max_examples=500)
@given(st.lists(_STEPS, max_size=60))
@example(HOARDING)
def test_no_window_is_above_rate_and_burst(steps: list[tuple[str, int]]) -> None:
    world = asyncio.run(played(InMemory(), steps))
    assert world.excess() <= 1e-6


@pytest.mark.parametrize("steps", [HOARDING])
async def test_the_same_in_redis(in_redis: InRedis, steps: list[tuple[str, int]]) -> None:
    assert (await played(in_redis, steps)).excess() <= 1e-6


def test_redis_grants_what_this_process_grants(redis_server: RedisServer) -> None:
    with asyncio.Runner() as runner:

        @settings(max_examples=100)
        @example([("ask", 0, 1), ("serve", 0), ("hear", 0), ("spend", 0, 1)])
        @example(HOARDING)
        @given(st.lists(_STEPS, max_size=60))
        def alike(steps: list[tuple[str, int]]) -> None:
            runner.run(_alike(redis_server.url, steps))

        alike()


async def _alike(url: str, steps: list[tuple[str, int]]) -> None:
    budgets = InRedis(url)
    try:
        await budgets.lose()
        await budgets.open("the first")
        here, there = await played(InMemory(), steps), await played(budgets, steps)
    finally:
        await budgets.close()
    assert there.spent == here.spent
    assert there.excess() <= 1e-6
