"""Brokers and controllers die at any step, stores fail at any step: each topic keeps one owner, or waits."""

import asyncio

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.danube.failover.faulty import Fault
from tests.danube.failover.schedules import BROKERS, EVENTS, Round, Schedule, rounds

PHASES = set(Phase) - {Phase.explain}
"""What failed is told in the log; explaining it takes minutes."""


@pytest.mark.seed("S3-001", "S3-002", "S3-003")
@pytest.mark.parametrize("what", [*Fault, *EVENTS, "pause", "other controller"])
def test_one_failure_between_any_two_steps(what: Fault | str) -> None:
    async def scheduled(step: int, broker: int) -> int:
        schedule = Schedule()
        await schedule.begin([1, 2, 3])
        await schedule.take_turn(0, {}, {})
        await schedule.happen(("leave", 1), 0)
        await schedule.law.check(None)
        faults = {step: what} if isinstance(what, Fault) else {}
        meanwhile = {} if isinstance(what, Fault) else {step: (what, broker)}
        steps = await schedule.take_turn(0, faults, meanwhile)
        await schedule.end()
        return steps

    step = 0
    while step <= max([asyncio.run(scheduled(step, broker)) for broker in (1, 2, 3)]):
        step += 1
    assert step > 8


@pytest.mark.seed("S3-003", "S3-006", "S3-017")
@settings(
    max_examples=200,
    phases=PHASES,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    alive=st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True),
    play=st.lists(rounds, min_size=1, max_size=6),
)
def test_no_topic_is_lost_or_owned_twice_after_any_crash(alive: list[int], play: list[Round]) -> None:
    async def scheduled() -> None:
        schedule = Schedule()
        await schedule.begin(alive)
        await schedule.play(play)
        await schedule.end()

    asyncio.run(scheduled())
