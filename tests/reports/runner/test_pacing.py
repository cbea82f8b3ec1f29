"""When messages are due."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_reports.runner.pacing import Stretch, due, within

rates = st.floats(0.5, 500)


def test_a_steady_rate_is_evenly_spaced() -> None:
    assert list(due(Stretch(0, 10.0, 11.0, 4, 4))) == [10.0, 10.25, 10.5, 10.75]


def test_a_ramp_from_nothing_follows_the_square_root() -> None:
    # The integral of 8 t over 1 s is 4 t**2: message n is due at sqrt(n / 4).
    times = list(due(Stretch(0, 0.0, 1.0, 8, 0)))
    assert times == pytest.approx([0, math.sqrt(1 / 4), math.sqrt(2 / 4), math.sqrt(3 / 4)])


def test_a_falling_ramp_ends_at_its_rate() -> None:
    times = list(due(Stretch(0, 0.0, 10.0, 50, 100)))
    assert len(times) == 750
    assert times[1] - times[0] == pytest.approx(1 / 100, rel=0.01)
    assert times[-1] - times[-2] == pytest.approx(1 / 50, rel=0.01)


@given(start=st.floats(0, 100), length=st.floats(0.1, 5), rate=rates, before=rates)
def test_the_number_due_is_the_integral_of_the_rate(
    start: float, length: float, rate: float, before: float
) -> None:
    stretch = Stretch(0, start, start + length, rate, before)
    times = list(due(stretch))
    assert abs(len(times) - (rate + before) / 2 * length) <= 1 + 1e-6
    assert all(one <= other for one, other in pairwise(times))
    assert all(start <= each < start + length for each in times)


def test_a_late_client_joins_the_ramp_at_its_current_rate() -> None:
    stretches = [Stretch(0, 0.0, 10.0, 100, 0), Stretch(1, 10.0, 20.0, 100, 100)]
    assert within(stretches, 5.0, 15.0) == [Stretch(0, 5.0, 10.0, 100, 50), Stretch(1, 10.0, 15.0, 100, 100)]
    assert within(stretches, 20.0, 30.0) == []
