"""Limits on volumes: each formula by table, and what must hold for any figures."""

from fractions import Fraction

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.features.storage_quota.lab import CONSUMED, FREE, PERCENT, limits

from sluicegate.features.storage_quota.volumes import Limit, Limits, State, Volume

RAMPS = [
    # capacity 100, hard, soft, (bytes in use, factor)
    (
        limits((CONSUMED, 90), (CONSUMED, 80)),
        [(0, 1), (80, 1), (81, 0.9), (85, 0.5), (89, 0.1), (90, 0), (91, 0)],
    ),
    (limits((FREE, 10), (FREE, 20)), [(80, 1), (81, 0.9), (85, 0.5), (90, 0), (100, 0)]),
    (
        limits((PERCENT, Fraction(10, 100)), (PERCENT, Fraction(20, 100))),
        [(80, 1), (85, 0.5), (89, 0.1), (90, 0)],
    ),
    # of different types: free bytes against the share of the volume
    (limits((FREE, 10), (PERCENT, Fraction(20, 100))), [(80, 1), (85, 0.5), (90, 0)]),
    (limits((PERCENT, Fraction(10, 100)), (CONSUMED, 80)), [(80, 1), (85, 0.5), (90, 0)]),
    (limits((CONSUMED, 90), (FREE, 20)), [(80, 1), (85, 0.5), (90, 0)]),
    # only one of them
    (limits((CONSUMED, 90)), [(0, 1), (89, 1), (90, 0)]),
    (limits(None, (CONSUMED, 80)), [(80, 1), (90, 0.5), (99, 0.05), (100, 0)]),
    # both at one place: a step
    (limits((CONSUMED, 90), (CONSUMED, 90)), [(89, 1), (90, 0)]),
]


@pytest.mark.seed("S4-005", "S4-012", "S4-020", "S4-021", "S4-022", "S4-024", "S4-029")
@pytest.mark.parametrize(("both", "points"), RAMPS)
def test_the_factor_falls_along_a_straight_line(both: Limits, points: list[tuple[int, float]]) -> None:
    for used, factor in points:
        assert both.factor(Volume("v", 100, used)) == pytest.approx(factor), used


@pytest.mark.seed("S4-005", "S4-029")
def test_a_volume_at_the_soft_limit_is_not_restricted_and_one_at_the_hard_limit_is_breached() -> None:
    both = limits((FREE, 10), (FREE, 20))
    at = {used: Volume("v", 100, used) for used in (80, 81, 89, 90)}
    assert {used: both.breaches_soft(volume) for used, volume in at.items()} == {
        80: False,
        81: True,
        89: True,
        90: True,
    }
    assert {used: both.breaches_hard(volume) for used, volume in at.items()} == {
        80: False,
        81: False,
        89: False,
        90: True,
    }
    assert [both.state(volume) for volume in at.values()] == [
        State.OPEN,
        State.THROTTLE,
        State.THROTTLE,
        State.PAUSE,
    ]


@pytest.mark.seed("S4-029")
@pytest.mark.parametrize("percent", [7, 29, 57, 58])
def test_a_share_is_reached_exactly_where_it_is(percent: int) -> None:
    share = limits((PERCENT, Fraction(percent, 100)))
    assert share.factor(Volume("v", 100, 100 - percent)) == 0.0
    assert share.factor(Volume("v", 100, 99 - percent)) == 1.0


@pytest.mark.seed("S4-028")
@pytest.mark.parametrize(("capacity", "consumed"), [(0, 0), (0, 5), (100, 101)])
def test_figures_that_cannot_be_count_as_full(capacity: int, consumed: int) -> None:
    volume = Volume("v", capacity, consumed)
    assert limits((CONSUMED, 10**9)).factor(volume) == 0.0
    assert limits(None, (FREE, 1)).state(volume) is State.PAUSE


@pytest.mark.seed("S4-027")
@pytest.mark.parametrize("used", [0, 69, 70, 75, 80, 100])
def test_where_the_soft_limit_comes_after_the_hard_one_the_hard_one_holds_alone(used: int) -> None:
    inverted = limits((CONSUMED, 70), (CONSUMED, 80))
    volume = Volume("v", 100, used)
    assert inverted.is_inverted(volume)
    assert inverted.factor(volume) == (0.0 if used >= 70 else 1.0)


def test_a_volume_smaller_than_what_must_be_free_is_breached() -> None:
    assert limits((FREE, 10**9)).factor(Volume("v", 100, 0)) == 0.0


def test_of_several_limits_the_strictest_counts_on_each_volume() -> None:
    both = Limits((Limit(FREE, 10), Limit(PERCENT, Fraction(5, 100))))
    assert both.hard_at(Volume("small", 100, 0)) == 90
    assert both.hard_at(Volume("large", 1000, 0)) == 950
    assert both.deciding([Volume("large", 1000, 0), Volume("small", 100, 80)]) == (Limit(FREE, 10), None)


levels = st.integers(0, 1000)
shares = st.integers(0, 100).map(lambda percent: Fraction(percent, 100))
any_limit = st.builds(Limit, st.sampled_from([CONSUMED, FREE]), levels) | st.builds(
    Limit, st.just(PERCENT), shares
)
any_limits = st.builds(
    Limits, st.lists(any_limit, max_size=2).map(tuple), st.lists(any_limit, max_size=2).map(tuple)
)


@pytest.mark.seed("S4-002", "S4-012")
@given(both=any_limits, capacity=st.integers(0, 1000), less=st.integers(0, 1100), more=st.integers(0, 200))
def test_fuller_is_never_looser(both: Limits, capacity: int, less: int, more: int) -> None:
    before, after = (both.factor(Volume("v", capacity, used)) for used in (less, less + more))
    assert 0.0 <= after <= before <= 1.0


@pytest.mark.seed("S4-010", "S4-011", "S4-014", "S4-029")
@given(both=any_limits, capacity=st.integers(1, 1000), used=st.integers(0, 1000))
def test_states_and_factors_say_the_same(both: Limits, capacity: int, used: int) -> None:
    volume = Volume("v", capacity, used)
    state, factor = both.state(volume), both.factor(volume)
    assert (factor == 0.0) == (state is State.PAUSE) == both.breaches_hard(volume)
    assert (factor == 1.0) == (state is State.OPEN)
    hard, soft = both.hard_at(volume), both.soft_at(volume)
    if used >= hard or used > capacity:
        assert factor == 0.0
    elif soft is None or used <= soft:
        assert factor == 1.0
