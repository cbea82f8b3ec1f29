"""Scales, thinning and labels, by cases that can be checked by hand."""

import math
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from sluicegate_reports.model.results import Point
from sluicegate_reports.render.page.curves import apart
from sluicegate_reports.render.page.scales import Linear, Log, Nines
from sluicegate_reports.render.page.thinning import thinned

_FINITE = st.floats(-1e9, 1e9)


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0, 1990, [0, 500, 1000, 1500, 2000]),
        (0, 0.3, [0, 0.1, 0.2, 0.3]),
        (-3, 12, [-5, 0, 5, 10, 15]),
        (0, 0, [0, 0.2, 0.4, 0.6, 0.8, 1]),
    ],
)
def test_linear_scales_end_on_round_ticks(low: float, high: float, ticks: list[float]) -> None:
    assert [tick.value for tick in Linear.over(low, high).ticks] == ticks


def test_a_scale_within_keeps_its_ends() -> None:
    scale = Linear.within(3, 59)
    assert [tick.value for tick in scale.ticks] == [10, 20, 30, 40, 50]
    assert (scale.position(3), scale.position(59), scale.position(31)) == (0.0, 1.0, 0.5)


@given(_FINITE, _FINITE)
def test_linear_scales_hold_their_values_and_have_few_ticks(one: float, other: float) -> None:
    low, high = min(one, other), max(one, other)
    scale = Linear.over(low, high)
    slack = 1e-6 * (abs(low) + abs(high)) + 1e-300
    assert scale.start <= low + slack
    assert scale.end >= high - slack
    assert 2 <= len(scale.ticks) <= 8
    assert 0.0 <= scale.position(low) <= scale.position(high) <= 1.0


@pytest.mark.parametrize(
    ("low", "high", "ticks"),
    [
        (0.2, 450, [0.1, 1, 10, 100, 1000]),
        (3, 60, [1, 2, 5, 10, 20, 50, 100]),
        (1, 1e14, [1, 100, 1e4, 1e6, 1e8, 1e10, 1e12, 1e14]),
    ],
)
def test_logarithmic_scales_have_powers_of_ten(low: float, high: float, ticks: list[float]) -> None:
    assert [tick.value for tick in Log.over(low, high).ticks] == ticks


def test_zero_has_a_place_on_a_logarithmic_scale() -> None:
    scale = Log.over(1, 100)
    assert [scale.position(value) for value in (-5, 0, 1, 10, 100, 1e9)] == [0, 0, 0, 0.5, 1, 1]


def test_each_nine_has_the_same_width() -> None:
    scale = Nines.over([0.5, 0.9, 0.99, 0.999, 1.0])
    assert [tick.text for tick in scale.ticks] == ["min", "50 %", "90 %", "99 %", "99.9 %", "max"]
    positions = [scale.position(q) for q in (0.0, 0.9, 0.99, 0.999, 1.0)]
    assert positions == pytest.approx([0, 1 / 3.5, 2 / 3.5, 3 / 3.5, 1])


def test_without_the_largest_value_the_axis_does_not_promise_it() -> None:
    assert [tick.text for tick in Nines.over([0.5, 0.99]).ticks] == ["min", "50 %", "90 %", "99 %"]


def test_thinning_keeps_peaks_and_gaps() -> None:
    points = [Point(x, 0.0) for x in range(1000)]
    points[357], points[801], points[802] = Point(357, 9.0), Point(801, -9.0), Point(802, None)
    kept = thinned(points, 40)
    assert len(kept) <= 50
    assert {points[357], points[801], points[802], points[0], points[-1]} <= set(kept)


@given(st.lists(st.one_of(st.none(), _FINITE), max_size=300), st.integers(4, 60))
def test_thinning_keeps_order_and_extremes(values: list[float | None], most: int) -> None:
    points = [Point(x, y) for x, y in enumerate(values)]
    kept = thinned(points, most)
    assert [point.x for point in kept] == sorted({point.x for point in kept})
    measured = [point for point in kept if point.y is not None]
    assert len(measured) <= max(most, 4)
    assert len(kept) <= max(most, 4) * 2.25 + 1
    measured_values = [y for y in values if y is not None]
    left = [point.y for point in kept if point.y is not None]
    if measured_values:
        assert (min(left), max(left)) == (min(measured_values), max(measured_values))
    assert (None in values) == any(point.y is None for point in kept)
    # No line is drawn over a gap: where one was between two points that stay, one is there.
    for one, other in pairwise(kept):
        if one.y is not None and other.y is not None:
            assert None not in values[int(one.x) : int(other.x)]


def test_thinning_keeps_the_highest_end_of_a_spread() -> None:
    points = [Point(x, 1.0, 1.0, 2.0 + (x == 357)) for x in range(1000)]
    kept = thinned(points, 40)
    assert points[357] in kept
    assert len(kept) <= 40


@given(st.lists(st.tuples(st.floats(0, 240), st.sampled_from([15.0, 27.0])), min_size=1, max_size=8))
def test_labels_lie_apart_and_within_their_room(labels: list[tuple[float, float]]) -> None:
    wanted = sorted(top for top, _ in labels)
    heights = [height for _, height in labels]
    tops = apart(wanted, heights, 255.0)
    ends = [top + height for top, height in zip(tops, heights, strict=True)]
    assert ends[-1] <= 255.0
    assert all(end <= top + 1e-9 for end, top in zip(ends, tops[1:], strict=False))


def test_labels_with_room_stay_where_they_are_wanted() -> None:
    assert apart([10.0, 100.0], [15.0, 15.0], 255.0) == [10.0, 100.0]
    assert math.isclose(apart([250.0], [15.0], 255.0)[0], 240.0)
