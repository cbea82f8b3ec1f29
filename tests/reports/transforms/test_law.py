"""The law of a rate against a brute force over all windows, whatever the pieces."""

from fractions import Fraction
from functools import reduce
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_reports.transforms import law
from sluicegate_reports.transforms.law import Moments, Rise, Unit

SECOND = 1_000_000
_TIMES = st.integers(0, 200 * SECOND)
_RANGES = st.lists(st.tuples(_TIMES, st.integers(0, 5 * SECOND), st.integers(1, 50)), min_size=1, max_size=30)
_RATES = st.sampled_from([0.5, 1 / 3, 7.0, 100.0, 33.3, 51_200.0, 2_500_000.0])


def moments(rows: list[tuple[int, int, int]]) -> Moments:
    """Of the latest time, by how much it may have been earlier, and an amount."""
    rows = sorted(rows)
    latest, before, amount = (np.array(column, np.int64) for column in zip(*rows, strict=True))
    return Moments(latest - before, latest, amount)


def brute(rows: list[tuple[int, int, int]], rate: float) -> Fraction:
    """What all windows certainly admitted more than the rate, by the words of the law."""
    per_us = Fraction(rate).limit_denominator(1000) / SECOND
    excesses = []
    for begin_us in {latest - before for latest, before, _ in rows}:
        for end_us in {latest for latest, _, _ in rows}:
            if begin_us <= end_us:
                late = sum(amount for latest, _, amount in rows if latest <= end_us)
                early = sum(amount for latest, before, amount in rows if latest - before < begin_us)
                excesses.append(late - early - per_us * (end_us - begin_us))
    return max(excesses)


@given(_RANGES, _RATES, st.booleans())
def test_the_largest_rise_is_that_of_all_windows(
    rows: list[tuple[int, int, int]], rate: float, exact: bool
) -> None:
    rows = [(latest, 0, amount) for latest, _, amount in rows] if exact else rows
    unit = Unit.of(rate)
    excesses = law.rise([moments(rows)], unit)
    assert Fraction(excesses.rise, unit.of_one) == brute(rows, rate)
    late = sum(amount for latest, _, amount in rows if latest <= excesses.to_us)
    early = sum(amount for latest, before, amount in rows if latest - before < excesses.from_us)
    assert excesses.rise == (late - early) * unit.of_one - unit.per_us * (excesses.to_us - excesses.from_us)


@given(_RANGES, _RATES, st.lists(st.integers(0, 30), max_size=5), st.integers(0, 5))
def test_any_pieces_in_any_grouping_tell_the_same(
    rows: list[tuple[int, int, int]], rate: float, cuts: list[int], grouping: int
) -> None:
    unit, whole = Unit.of(rate), moments([(latest, 0, amount) for latest, _, amount in rows])
    edges = [0, *sorted({min(cut, len(rows)) for cut in cuts}), len(rows)]
    parts = [
        law.rise([Moments(*(column[begin:end] for column in whole))], unit) for begin, end in pairwise(edges)
    ]
    middle = min(grouping, len(parts))
    first, rest = reduce(Rise.then, parts[:middle], Rise()), reduce(Rise.then, parts[middle:], Rise())
    for rise in (reduce(Rise.then, parts, Rise()), first.then(rest)):
        assert rise == law.rise([whole], unit)


def test_nothing_has_no_rise() -> None:
    nothing = Moments(*(np.array([], np.int64) for _ in range(3)))
    assert not law.rise([nothing], Unit.of(5.0))
    assert not Rise().then(Rise())


@pytest.mark.parametrize("rate", [0.5, 20.0, 1e9])
def test_a_share_of_a_rate_is_as_exact_as_the_rate(rate: float) -> None:
    whole, share = Unit.of(rate), Unit.of(rate, Fraction(1005, 1000))
    assert share.of_one == whole.of_one
    assert share.per_us / whole.per_us == pytest.approx(1.005, rel=1e-6)
