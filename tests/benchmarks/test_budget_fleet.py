"""The simulated fleet keeps the law, and its figures are those of what it spent."""

import pytest
from benchmarks.budget_calls import CallCost
from benchmarks.budget_fleet import Scene, converged_s, fair, played, report, uses

SMALL = Scene(gateways=4, limits=4, each=3, after_s=8)


@pytest.mark.parametrize(
    "scene",
    [
        SMALL,
        Scene(gateways=4, limits=4, each=3, after_s=6, loss=0.1, latency_ms=5),
        Scene(gateways=4, limits=4, each=3, after_s=4, cut=1.0),
    ],
    ids=["calm", "losses", "cut"],
)
def test_no_window_of_a_fleet_has_more_than_rate_and_burst(scene: Scene) -> None:
    fleet = played(scene)
    assert all(0 < each.excess <= each.rate for each in fleet.limits)  # a burst of 1 s


def test_a_calm_fleet_uses_its_limits_and_shares_them() -> None:
    fleet = played(SMALL)
    for limit in fleet.limits:
        assert min(uses(limit, 2, SMALL.turn_s + 2)) > 0.95
        assert converged_s(limit, SMALL.turn_s) < 3


def test_the_report_adds_what_calls_cost() -> None:
    lines = report(SMALL, played(SMALL), CallCost(20, 4, 100, 200))
    assert lines[0] == "4 gateways, 4 limits with 2 to 4 holders"
    assert "of a core" in lines[-1]
    assert len(report(SMALL, played(SMALL), None)) == len(lines) - 1


def test_shares_are_max_min() -> None:
    assert fair([1, 9, 9], 10) == [1, 4.5, 4.5]
    assert fair([9, 1], 20) == [9, 1]
