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
from sluicegate_reports.verdicts import Finding, judge, worst_finding
from sluicegate_reports.verdicts.rates import SEEN


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
    told = " ".join(clocks.notes(skewed(*bounds_us)))
    assert said in told
    assert bool(told) == bool(said)


def test_the_reason_for_a_missing_arm_appears_once() -> None:
    why = "cannot be reached: 127.0.0.1:1"
    facts = RunFacts("r1", "", "", arms=(Arm("kafka", "proxy", missing=why),))
    run = Run(facts, tuple(trial(phase=name, missing=why) for name in ("calm", "loaded")))
    results = results_of(run, Measures())
    assert [cell.text for cell in results.matrix] == [why]
    assert sum(why in line for line in gaps(results)) == 1


def test_an_excess_is_told_with_its_window_and_by_whom() -> None:
    weighed = trial("max_publish_rate_bytes", 51_200)
    over = {"excess": 232_448.0, "excess_share": 2.2, "excess_window_s": 0.98, "excess_at_s": 10.21}
    told = judge(weighed, over)
    assert told.verdict is Verdict.OFF
    assert told.figure == pytest.approx(220)
    said = "largest excess over rate x time + burst: +227 KiB (4.54 x the burst) within 0.98 s, at 10.2 s"
    assert told.text == f"{said}, by clients' acknowledgements"


def test_what_was_not_given_is_told_with_its_time() -> None:
    kept = {"excess": 0.0, "largest": 1.0, "limited": 9.0, "used": 0.998, "waited_s": 6.1}
    exact = judge(trial(), kept)
    assert exact.verdict is Verdict.EXACT
    said = "used 99.8 % of what was owed while anyone waited (6.1 s)"
    assert exact.text == f"never more than rate x time + burst; {said}, by clients' acknowledgements"
    off = judge(trial(), {**kept, "used": 0.8, "fell": 12.2, "fell_at_s": 3.0})
    assert off.verdict is Verdict.OFF
    assert "(6.1 s), 12 messages less from 3 s on" in off.text


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
    found = Measures(seconds=seconds, laws=[{"lane": 0, "source": "log"}])
    (section,) = policy_sections(run, [Finding(Verdict.EXACT, 0.0)], found)
    drawn = {series.name: [point.y for point in series.points] for series in section.charts[0].series}
    assert drawn == {"admitted": [5, 5, 5], "offered": [5, 5, 5], "held": [0, 1, 2]}


_KEPT = {
    "excess": 0.0,
    "excess_share": 0.0,
    "used": 1.0,
    "largest": 1.0,
    "limited": 5.0,
    "admitted": 220.0,
    "admitted_messages": 220.0,
}
_OVER = {"excess": 100.0, "excess_share": 0.5}


def beside(**changes: float | None) -> dict[str, float | None]:
    """Figures of a log that was kept, and of clients that saw something else."""
    return {**_KEPT, **{f"{SEEN}{name}": value for name, value in {**_KEPT, **changes}.items()}}


def test_a_log_and_clients_that_disagree_are_disputed() -> None:
    assert judge(trial(), beside()).verdict is Verdict.EXACT
    more = judge(trial(), beside(admitted_messages=330.0))
    assert more.verdict is Verdict.DISPUTED
    assert "220 messages were admitted by the log, 330 by the clients" in more.text
    at_once = judge(trial(), beside(**_OVER))
    assert at_once.verdict is Verdict.DISPUTED
    # What a gate writes down against itself is true, whatever its clients saw.
    assert judge(trial(), {**beside(), **_OVER}).verdict is Verdict.OFF
    both = {**beside(**_OVER), **_OVER}
    assert judge(trial(), both).verdict is Verdict.OFF


def test_a_limit_shown_to_be_kept_by_the_log_alone_is_unconfirmed() -> None:
    alone = {**_KEPT, **dict.fromkeys(map(SEEN.__add__, _KEPT))}
    finding = judge(trial(), alone)
    assert (finding.verdict, finding.figure) == (Verdict.UNCONFIRMED, 0.0)
    assert finding.text.startswith("by the log alone: never more than")
    assert judge(trial(nearest="per broker"), alone).verdict is Verdict.UNCONFIRMED
    assert judge(trial(), {**alone, "excess": 9.0, "excess_share": 0.02}).verdict is Verdict.UNCONFIRMED
    # A log that itself shows the limit exceeded needs no confirmation by clients.
    assert judge(trial(), {**alone, **_OVER}).verdict is Verdict.OFF
    # Clients that were all refused contradict the log.
    assert judge(trial(), {**alone, f"{SEEN}admitted_messages": 0.0}).verdict is Verdict.DISPUTED


def test_a_limit_that_clients_never_came_up_to_was_not_reached() -> None:
    slow = {**_KEPT, "excess": -5.2, "limited": 0.0, "used": None}
    finding = judge(trial(), slow)
    assert finding.verdict is Verdict.NOT_REACHED
    assert finding.text.startswith("not reached: nobody was held or refused")
    # Who was refused came up to it, and so did who used the whole bucket. Below it on purpose is as planned.
    for others in ({"limited": 1.0}, {"excess": -0.5}):
        assert judge(trial(), {**slow, **others}).verdict is Verdict.EXACT
    assert judge(trial(saturated=False), slow).verdict is Verdict.EXACT


def test_lost_duplicate_and_unread_messages_affect_every_verdict() -> None:
    for name, verdict in (
        ("lost", Verdict.OFF),
        ("altered", Verdict.OFF),
        ("told_refused", Verdict.OFF),
        ("duplicates", Verdict.WITHIN),
        ("unread", Verdict.EXACT),
    ):
        finding = judge(trial(), {**_KEPT, name: 1, "delivered_of": 5_000})
        assert finding.verdict is verdict
        assert finding.text.rpartition("; ")[2].startswith("of 5,000 messages 1 ")


def test_clients_held_back_although_they_ask_for_less_make_a_rate_off() -> None:
    finding = judge(trial(saturated=False), {**_KEPT, "used": 0.4, "waited_s": 3.0})
    assert finding.verdict is Verdict.OFF
    assert finding.text.endswith("clients were held back below the limit")


def test_messages_that_never_come_below_a_limit_on_unacknowledged_ones_are_wrong() -> None:
    tried = trial("max_unacked_messages_per_consumer", 10)
    assert judge(tried, {"most": 10, "lost": 90}).verdict is Verdict.EXACT
    assert judge(tried, {"most": 5, "lost": 0}).verdict is Verdict.WITHIN
    assert judge(tried, {"most": 5, "lost": 95, "left": 1}).verdict is Verdict.WITHIN
    finding = judge(tried, {"most": 5, "lost": 95, "left": 0})
    assert finding.verdict is Verdict.OFF
    assert finding.text.endswith("95 never came, though there was room for them")


def test_a_delay_by_clocks_that_differ_is_missing() -> None:
    delays = {"messages": 9, "early": None, "least_ms": -300.0, "p99_ms": 9.0, "soonest_ms": -250.0}
    finding = judge(trial("fixed_delivery_delay", 500), delays)
    assert finding.verdict is Verdict.MISSING
    assert finding.text.endswith("a message came 250 ms before it was sent")


def test_the_figure_of_an_early_message_is_how_early_it_was() -> None:
    delays = {"messages": 10_000, "early": 1, "least_ms": -12.0, "p99_ms": 20.0, "soonest_ms": 488.0}
    finding = judge(trial("fixed_delivery_delay", 500), delays)
    assert (finding.verdict, finding.figure, finding.bound, finding.unit) == (Verdict.OFF, 12.0, 1.0, "ms")
    late = judge(trial("fixed_delivery_delay", 500), {**delays, "early": 0, "p99_ms": 1_500.0})
    assert (late.verdict, late.bound) == (Verdict.OFF, 1_000.0)
    assert worst_finding([late, finding]) is finding, "12 times its bound is worse than 1.5 times"


@pytest.mark.parametrize("answers", [{}, {"wrongly_admitted": 0, "wrongly_refused": 0, "attempts": 9}])
def test_sends_that_failed_are_not_called_untried(answers: dict[str, float]) -> None:
    figures = {"above": 0, "failed": 82, **answers}
    finding = judge(trial("max_message_size", 100), figures)
    assert finding == Finding(Verdict.MISSING, text="above the limit all 82 sends failed without an answer")


def test_a_client_refused_and_served_is_wrong() -> None:
    counted = {"attempts": 3, "wrongly_admitted": 0, "wrongly_refused": 0, "served": 1}
    finding = judge(trial("max_consumers_per_topic", 2), counted)
    assert (finding.verdict, finding.figure) == (Verdict.OFF, 1)
    assert "1 refused and yet served" in finding.text
