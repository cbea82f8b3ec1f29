"""Sentences about clocks and about several trials of one cell, without Spark."""

from typing import Any

import pytest
from tests.reports.frames import at, trial

from sluicegate_reports.jobs import clocks
from sluicegate_reports.jobs.compare import results_of
from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.jobs.policies import policy_sections
from sluicegate_reports.model.results import Arm, RunFacts
from sluicegate_reports.model.runs import Run
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.render.missing import gaps
from sluicegate_reports.verdicts import Finding


def skewed(at_least_us: int, at_most_us: int) -> Measures:
    row: dict[str, Any] = {"system": "kafka", "door": "proxy", "gateway": "main", "who": "*", "pairs": 9}
    return Measures(skews=[{**row, "at_least_us": at_least_us, "at_most_us": at_most_us}])


@pytest.mark.parametrize(
    ("bounds_us", "said"),
    [
        ((-5, 900), ""),
        ((20, -20), ""),
        ((1_200, -1_000), "drifted apart by 2.2 ms or more"),
        ((2_000_000, 2_004_000), "differs from the clients' by 2,000.0 to 2,004.0 ms"),
        ((2_000_020, 2_000_000), "differs from the clients' by 2,000.0 to 2,000.0 ms"),
    ],
)
def test_clock_drift_is_reported_only_where_bounds_prove_it(bounds_us: tuple[int, int], said: str) -> None:
    text = " ".join(clocks.notes(skewed(*bounds_us)))
    assert said in text
    assert bool(text) == bool(said)


def test_the_reason_for_a_missing_arm_appears_once() -> None:
    why = "cannot be reached: 127.0.0.1:1"
    facts = RunFacts("r1", "", "", arms=(Arm("kafka", "proxy", missing=why),))
    run = Run(facts, tuple(trial(phase=name, missing=why) for name in ("calm", "loaded")))
    results = results_of(run, Measures())
    assert [cell.text for cell in results.matrix] == [why]
    assert sum(why in line for line in gaps(results)) == 1


def test_the_deciding_trial_is_the_one_drawn() -> None:
    trials = tuple(trial("fixed_delivery_delay", 100, phase=name) for name in ("early", "late", "lost"))
    findings = [
        Finding(Verdict.OFF, 3.0, unit="ms"),
        Finding(Verdict.WITHIN, 900.0, unit="ms"),
        Finding(Verdict.MISSING),
    ]
    delays: list[dict[str, Any]] = [{"trial": n, "quantiles": [float(n)] * 8} for n in range(2)]
    run = Run(RunFacts("r1", "", ""), trials)
    (section,) = policy_sections(run, findings, Measures(delays=delays))
    assert {point.y for series in section.charts[0].series for point in series.points} == {0.0}


def test_a_peak_and_a_gap_of_one_second_survive_an_hour() -> None:
    hour = trial(end=at(3_600))
    seconds: list[dict[str, Any]] = [
        {
            "lane": 0,
            "source": "clients",
            "second": n,
            "admitted": 10 + 90 * (n == 1_801),
            "offered": 0,
            "held": 0,
        }
        for n in range(3_600)
        if n != 2_500
    ]
    run = Run(RunFacts("r1", "", ""), (hour,))
    findings = [Finding(Verdict.EXACT, 0.0)]
    (section,) = policy_sections(run, findings, Measures(seconds=seconds))
    points = {point.x: point.y for point in section.charts[0].series[0].points}
    assert (points[1_801], points[2_500]) == (100, 0)
    assert len(points) <= 600
    assert list(points) == sorted(points)


def test_all_phases_are_on_one_axis_with_their_names() -> None:
    trials = (
        trial(phase="below", end=at(3), saturated=False),
        trial(phase="above", start=at(4), end=at(6)),
        trial(phase="above", topic="other", start=at(4), end=at(6)),
    )
    seconds: list[dict[str, Any]] = [
        {"lane": lane, "source": "clients", "second": n, "admitted": 5 * (lane + 1), "offered": 0, "held": 0}
        for lane, length in ((0, 3), (1, 2))
        for n in range(length)
    ]
    findings = [Finding(Verdict.EXACT, 0.0), Finding(Verdict.WITHIN, 3.0), Finding(Verdict.EXACT, 0.0)]
    run = Run(RunFacts("r1", "", ""), trials)
    (section,) = policy_sections(run, findings, Measures(seconds=seconds))
    (chart,) = section.charts
    assert [(band.name, band.low, band.high) for band in chart.bands] == [("below", 0, 3), ("above", 4, 6)]
    assert [(point.x, point.y) for point in chart.series[0].points] == [
        (0, 5),
        (1, 5),
        (2, 5),
        (4, 10),
        (5, 10),
    ]


def test_what_a_gate_held_is_drawn_beside_what_it_admitted() -> None:
    seconds: list[dict[str, Any]] = [
        {"lane": 0, "source": "log", "second": n, "admitted": 5, "offered": 5, "held": n} for n in range(3)
    ]
    run = Run(RunFacts("r1", "", ""), (trial(end=at(3)),))
    measures = Measures(seconds=seconds, laws=[{"lane": 0, "source": "log"}])
    (section,) = policy_sections(run, [Finding(Verdict.EXACT, 0.0)], measures)
    drawn = {series.name: [point.y for point in series.points] for series in section.charts[0].series}
    assert drawn == {"admitted": [5, 5, 5], "offered": [5, 5, 5], "held": [0, 1, 2]}
