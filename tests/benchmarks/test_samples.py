"""The statistics that turn samples into figures."""

import pytest
from benchmarks.cli import SCENARIOS
from benchmarks.harness.figures import FIGURES, Figure
from benchmarks.harness.samples import Results, Sample, jain, longest_gap, percentile, window_errors
from benchmarks.harness.saturation import Saturation
from hypothesis import given, settings
from hypothesis import strategies as st


@pytest.mark.parametrize(("share", "expected"), [(0.5, 50), (0.99, 99), (1.0, 100), (0.001, 1)])
def test_percentile_of_one_to_a_hundred(share: float, expected: int) -> None:
    assert percentile([float(value) for value in range(100, 0, -1)], share) == expected


@pytest.mark.parametrize(
    ("shares", "expected"), [([5.0, 5.0, 5.0, 5.0], 1.0), ([8.0, 0.0, 0.0, 0.0], 0.25), ([0.0, 0.0], 0.0)]
)
def test_jain(shares: list[float], expected: float) -> None:
    assert jain(shares) == pytest.approx(expected)


@settings(max_examples=50)
@given(st.lists(st.floats(0.1, 1e6), min_size=1, max_size=20))
def test_jain_lies_between_one_share_and_all_equal(shares: list[float]) -> None:
    assert 1 / len(shares) - 1e-9 <= jain(shares) <= 1 + 1e-9


def test_longest_gap_looks_at_times_in_order() -> None:
    assert longest_gap([3.0, 1.0, 1.5]) == pytest.approx(1.5)
    assert longest_gap([1.0]) == 0


def test_windows_of_an_exact_rate_are_not_off() -> None:
    events = [(number / 100, 10.0) for number in range(1000)]
    errors = window_errors(events, 1000, first_s=1, last_s=9, width_s=5)
    assert len(errors) == 31
    assert max(map(abs, errors)) <= 0.002 + 1e-9  # one event at an edge


def test_a_stall_is_seen_by_shifted_windows_only() -> None:
    # 1000/s, but the seventh second's amount comes at once at its end.
    events = [(number / 100, 10.0) for number in range(1000) if not 600 <= number < 700]
    errors = window_errors([*events, (6.999, 1000.0)], 1000, first_s=0, last_s=10, width_s=1)
    assert min(errors) == pytest.approx(-0.9, abs=0.02)
    assert max(errors) == pytest.approx(0.9, abs=0.02)


def _results(*values: tuple[str, int, float]) -> Results:
    return Results([Sample("produce", arm, number, {"cpu_s": value}) for arm, number, value in values])


def test_a_ratio_is_the_median_of_the_rounds_ratios_without_the_cold_one() -> None:
    figure = Figure("", "produce", "cpu_s", 0.6, "x", arm="a", against="b")
    results = _results(
        ("a", 0, 100.0),
        ("b", 0, 1.0),
        ("a", 1, 1.0),
        ("b", 1, 2.0),
        ("a", 2, 3.0),
        ("b", 2, 4.0),
        ("a", 3, 9.0),
    )
    measured = figure.measured(results)
    assert measured is not None
    assert measured == pytest.approx((0.5 + 0.75) / 2)
    assert not figure.met(measured)


def test_a_figure_whose_other_arm_is_missing_has_no_value() -> None:
    figure = Figure("", "produce", "cpu_s", 0.6, "x", arm="a", against="b")
    assert figure.measured(_results(("a", 1, 1.0))) is None


def test_a_magnitude_counts_shortfalls_as_much_as_excess() -> None:
    figure = Figure("", "produce", "cpu_s", 0.5, "%", arm="a", magnitude=True)
    measured = figure.measured(_results(("a", 1, -0.8), ("a", 2, 0.1), ("a", 3, -0.7)))
    assert measured is not None
    assert measured == pytest.approx(0.7)
    assert not figure.met(measured)


def test_a_lower_bound() -> None:
    figure = Figure("", "produce", "cpu_s", 0.99, "", arm="a", at_least=True)
    assert figure.met(0.995)
    assert not figure.met(0.98)
    assert figure.bound_text == ">= 0.99"


def test_where_every_round_counts_the_worst_is_taken() -> None:
    results = _results(("a", 1, 0.0), ("a", 2, 3.0), ("a", 3, 0.0))
    never = Figure("", "produce", "cpu_s", 0, "", arm="a", worst=True)
    assert never.measured(results) == 3
    assert Figure("", "produce", "cpu_s", 0, "", arm="a", worst=True, at_least=True).measured(results) == 0


@pytest.mark.parametrize("figure", FIGURES, ids=lambda figure: figure.text)
def test_each_figure_is_about_arms_that_its_scenario_has(figure: Figure) -> None:
    arms = SCENARIOS[figure.scenario].arms
    assert figure.arm in arms
    assert not figure.against or figure.against in arms


def test_an_exact_rate_after_a_burst() -> None:
    # 100/s for two producers in turn, after a burst of 100 at the start.
    burst = [10.0 + number / 1000 for number in range(100)]
    steady = [10.0 + number / 100 for number in range(1, 801)]
    seen = Saturation(10.0, [burst[::2] + steady[::2], burst[1::2] + steady[1::2]], 0)
    figures = seen.figures(1, 100, seconds=8, window_s=4)
    assert figures["worst_window_error_percent"] == pytest.approx(0, abs=0.3)
    assert figures["first_second_of_allowed"] == pytest.approx(1, abs=0.01)
    assert figures["longest_gap_of_a_producer_s"] == pytest.approx(0.02)
    assert figures["jain"] == pytest.approx(1)


def test_a_run_without_a_receipt_is_an_error() -> None:
    with pytest.raises(RuntimeError, match="no record was acknowledged; 7 failed"):
        Saturation(0.0, [[], []], 7).figures(1, 100, seconds=8, window_s=4)
