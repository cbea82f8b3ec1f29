"""Pressure and the next rate: golden numbers, tables, and what holds for all numbers."""

from itertools import pairwise
from math import floor

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.features.adaptive.formulas import (
    backlog_pressure,
    floor_rate,
    ideal_rate,
    linear_pressure,
    next_rate,
)

MIN, STEP = 0.10, 0.25
NATURAL = st.floats(0, 1e9)
SHARE = st.floats(0, 1)


def run(natural: float, pressures: list[float], start: int = 0) -> list[int]:
    rates, current = [], start
    for pressure in pressures:
        current = next_rate(natural, current, pressure, MIN, STEP)
        rates.append(current)
    return rates


@pytest.mark.seed("S5-020", "S5-021", "S5-030")
@pytest.mark.parametrize(
    ("value", "pressure"),
    [
        (0.775, 0.5),
        (0.7375, 0.25),
        (0.70, 0.0),
        (0.85, 1.0),
        (0.0, 0.0),
        (0.6999, 0.0),
        (0.8501, 1.0),
        (7, 1.0),
    ],
)
def test_pressure_rises_in_a_straight_line_between_the_watermarks(value: float, pressure: float) -> None:
    assert linear_pressure(value, 0.70, 0.85) == pytest.approx(pressure, abs=1e-12)


@pytest.mark.seed("S5-020")
def test_both_watermarks_are_inclusive_and_a_degenerate_pair_is_a_step() -> None:
    assert linear_pressure(0.70, 0.70, 0.85) == 0.0
    assert linear_pressure(0.85, 0.70, 0.85) == 1.0
    assert [linear_pressure(value, 0.8, 0.8) for value in (0.79, 0.8, 0.81)] == [0.0, 0.0, 1.0]
    assert [linear_pressure(value, 0.8, 0.7) for value in (0.75, 0.8, 0.81)] == [0.0, 0.0, 1.0]


@pytest.mark.seed("S5-022", "S5-081")
@pytest.mark.parametrize(
    ("nbytes", "quota", "pressure"),
    [
        (950, 1000, 1.0),
        (900, 1000, 1.0),
        (825, 1000, 0.5),
        (750, 1000, 0.0),
        (10**12, 0, 0.0),
        (10**12, -1, 0.0),
    ],
)
def test_a_backlog_presses_only_against_a_quota(nbytes: float, quota: float, pressure: float) -> None:
    assert backlog_pressure(nbytes, quota, 0.75, 0.90) == pytest.approx(pressure, abs=1e-12)


@pytest.mark.seed("S5-024", "S5-025", "S5-026", "S5-030", "S5-081")
def test_the_golden_numbers() -> None:
    assert run(1000, [1] * 6) == [750, 500, 250, 100, 100, 100]
    assert run(1000, [0] * 5, start=100) == [350, 600, 850, 1000, 1000]
    assert ideal_rate(1000, 0.5, MIN) == 550
    assert run(1000, [0.5] * 4) == [750, 550, 550, 550]
    assert run(1000, [0.5] * 4, start=100) == [350, 550, 550, 550]


@pytest.mark.seed("S5-008", "S5-024", "S5-025", "S5-027")
@pytest.mark.parametrize(
    ("natural", "current", "pressure", "rate"),
    [
        (0, 0, 1, 1),  # nothing is known: 1
        (-5, 700, 1, 1),
        (0.4, 0, 1, 1),  # the step is at least 1, and so is the rate
        (3, 0, 1, 2),
        (3, 2, 1, 1),
        (3, 1, 1, 1),
        (1000.9, 0, 1, 750),  # floor(1000.9) - floor(250.2)
        (1000, 100, 1, 100),  # never below the floor
        (1000, 5, 1, 100),
    ],
)
def test_small_and_odd_natural_rates(natural: float, current: int, pressure: float, rate: int) -> None:
    assert next_rate(natural, current, pressure, MIN, STEP) == rate


@given(NATURAL, st.integers(0, 10**9), SHARE, SHARE, SHARE, SHARE)
@pytest.mark.seed("S5-008", "S5-026")
def test_more_pressure_never_allows_more(
    natural: float, current: int, one: float, other: float, least: float, step: float
) -> None:
    low, high = sorted((one, other))
    assert next_rate(natural, current, high, least, step) <= next_rate(natural, current, low, least, step)


@given(NATURAL, SHARE, SHARE, SHARE, st.lists(SHARE, max_size=20))
@pytest.mark.seed("S5-008", "S5-009", "S5-038")
def test_every_step_is_bounded_and_stays_between_floor_and_natural(
    natural: float, least: float, step: float, first: float, pressures: list[float]
) -> None:
    current = 0
    for pressure in [first, *pressures]:
        new = next_rate(natural, current, pressure, least, step)
        base = current or max(floor(natural), 1)
        assert new >= floor_rate(natural, least) or natural <= 0
        assert new <= max(floor(natural), 1)
        # Up to 1 more, where the floor of the rate is above what the step would reach.
        assert abs(new - base) <= max(1, floor(natural * step)) or new == floor_rate(natural, least)
        current = new


@given(st.floats(1, 1e9), SHARE, st.floats(0.01, 1), SHARE, st.integers(0, 10**9))
@pytest.mark.seed("S5-038")
def test_constant_pressure_settles_without_oscillation(
    natural: float, least: float, step: float, pressure: float, start: int
) -> None:
    current = min(start, floor(natural))
    rates = []
    for _ in range(220):
        current = next_rate(natural, current, pressure, least, step)
        rates.append(current)
    steps = [after - before for before, after in pairwise(rates)]
    assert all(change <= 0 for change in steps) or all(change >= 0 for change in steps)
    assert rates[-1] == max(ideal_rate(natural, pressure, least), floor_rate(natural, least))
