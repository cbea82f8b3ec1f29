"""Repeated runs: medians with intervals, arms that do not differ, and runs that are left out."""

from dataclasses import replace
from itertools import product
from pathlib import Path
from statistics import median

import pytest
from tests.reports.model.example import example

from sluicegate_reports.model import counted
from sluicegate_reports.model.differences import Change, change_of
from sluicegate_reports.model.locations import locate
from sluicegate_reports.model.repetitions import interval, merged, repetition, repetitions
from sluicegate_reports.model.results import Cell, Results, RunFacts, Threshold, from_json, to_json
from sluicegate_reports.model.runs import Run, RunError, write_run
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.render.markdown import markdown


def results(*figures: float, verdict: Verdict = Verdict.WITHIN) -> Results:
    """A run with one policy at one arm for each figure."""
    cells = (
        Cell("max_publish_rate", "kafka", door, verdict, figure, 5, "told", unit="%")
        for door, figure in zip(("proxy", "native"), figures, strict=False)
    )
    threshold = Threshold("rate_error_percent", 5, max(figures), max(figures) <= 5, "%", "worst rate error")
    return Results(RunFacts("r", "", ""), verdict, tuple(cells), thresholds=(threshold,))


@pytest.mark.parametrize("count", range(1, 13))
def test_an_interval_holds_the_median_as_often_as_it_says(count: int) -> None:
    """Each value is below or above the true median, 0, like a coin that is tossed."""
    signs = [1 if number % 2 else -1 for number in range(count)]
    values = [sign * (number + 1.0) for number, sign in enumerate(signs)]
    low, high, sure = interval(values)
    assert low <= median(values) <= high
    held = sum(
        lower <= 0 <= upper for lower, upper, _ in map(interval, product((-1.0, 1.0), repeat=count))
    ) / (2**count)
    assert held == pytest.approx(sure)
    assert sure >= 0.95 or (low, high) == (min(values), max(values))


def test_figures_are_medians_and_verdicts_the_worst() -> None:
    several = [results(1.0, 3.0), results(2.0, 3.5), results(9.0, 4.0, verdict=Verdict.OFF)]
    together = merged(several)
    [proxy, native] = together.matrix
    assert (proxy.figure, proxy.low, proxy.high) == (2.0, 1.0, 9.0)
    assert (together.verdict, proxy.verdict) == (Verdict.OFF, Verdict.OFF)
    assert proxy.text == "off in 1 of 3; median 2 % (1 % to 9 %); told"
    [threshold] = together.thresholds
    assert (threshold.measured, threshold.passed) == (9.0, False)
    assert native.low == 3.0
    assert together.notes[0].startswith("3 repetitions: figures are medians")


@pytest.mark.parametrize(
    ("native", "said"), [((2.0, 4.0, 6.0), "no difference seen"), ((4.0, 5.0, 6.0), "they differ")]
)
def test_arms_whose_intervals_overlap_do_not_differ(native: tuple[float, ...], said: str) -> None:
    several = [results(one, other) for one, other in zip((1.0, 2.0, 3.0), native, strict=True)]
    table = merged(several).tables()["differences"]
    assert [row[-1] for row in table.rows] == [said]


def test_one_figure_has_no_interval_and_no_difference() -> None:
    """As where all other repetitions were interrupted."""
    together = merged([results(1.0, 1.1)], ["run-2 was interrupted"])
    assert [(cell.figure, cell.low, cell.high) for cell in together.matrix] == [
        (1.0,) + (None,) * 2,
        (1.1,) + (None,) * 2,
    ]
    assert [row[7] for row in together.tables()["repetitions"].rows] == ["", ""]
    assert "differences" not in together.tables()
    later = merged([results(1.2, 1.3)], ["run-2 was interrupted"])
    changes = [change_of(one, other) for one, other in zip(together.matrix, later.matrix, strict=True)]
    assert changes == [Change.SAME, Change.SAME]


def test_a_figure_is_in_the_unit_of_its_bound() -> None:
    """Lost messages make one run off, where the others are judged by their rates."""
    lost = results(1.0)
    lost = replace(
        lost,
        matrix=(
            replace(lost.matrix[0], verdict=Verdict.OFF, figure=7, bound=0, unit="messages", text="lost"),
        ),
    )
    together = merged([results(1.0), lost, results(2.0)])
    [cell] = together.matrix
    assert (cell.verdict, cell.figure, cell.bound, cell.unit) == (Verdict.OFF, 7, 0, "messages")
    assert cell.text == "off in 1 of 3: lost"
    [row] = together.tables()["repetitions"].rows
    assert row[4:9] == (7, 7, 7, "", "messages")


def test_a_measure_missing_from_one_run_does_not_pass() -> None:
    unknown = results(1.0)
    unknown = replace(unknown, thresholds=(replace(unknown.thresholds[0], measured=None, passed=False),))
    [threshold] = merged([results(1.0), unknown]).thresholds
    assert (threshold.measured, threshold.passed) == (None, False)


def off_at(index: int) -> Results:
    """A run with two gates, one of which is off."""
    run = results(1.0, 1.0)
    verdicts = [Verdict.OFF if number == index else Verdict.WITHIN for number in range(2)]
    cells = [
        replace(cell, door=door, verdict=verdict)
        for cell, door, verdict in zip(run.matrix, ("proxy", "interceptor"), verdicts, strict=True)
    ]
    return replace(run, matrix=tuple(cells), thresholds=tuple(counted.thresholds(cells)))


def test_counts_are_of_the_places_that_are_shown() -> None:
    off = next(each for each in merged([off_at(0), off_at(1)]).thresholds if each.name == "off_cells")
    assert (off.measured, off.passed) == (2, False)


def test_a_threshold_that_only_a_later_repetition_has_is_kept_and_not_passed() -> None:
    later = Threshold("early_messages", 0, 5, False, "messages", "too early")
    more = replace(results(1.0), thresholds=(*results(1.0).thresholds, later))
    thresholds = {each.name: each for each in merged([results(1.0), more]).thresholds}
    assert (thresholds["early_messages"].measured, thresholds["early_messages"].passed) == (None, False)


def test_merged_results_survive_json_and_are_shown() -> None:
    together = merged([example(), example(), example()])
    assert from_json(to_json(together)) == together
    assert "Repetitions" in markdown(together)
    verdicts = {(cell.policy, cell.system, cell.door): cell.verdict for cell in example().matrix}
    assert {(cell.policy, cell.system, cell.door): cell.verdict for cell in together.matrix} == verdicts


def put_run(directory: Path, scenario: str = "name: small") -> None:
    directory.mkdir(parents=True)
    write_run(directory, Run(RunFacts("r", scenario, "")))


def test_a_single_run_is_itself(tmp_path: Path) -> None:
    put_run(tmp_path / "one")
    runs = repetitions(tmp_path / "one")
    assert [each.folder for each in runs.directories] == [locate(tmp_path / "one")]
    assert runs.together([results(1.0)]) == results(1.0)


def test_repetitions_are_found_in_order_and_interrupted_ones_are_named(tmp_path: Path) -> None:
    for number in (1, 2, 10):
        put_run(repetition(tmp_path, number))
    (repetition(tmp_path, 3) / "decisions").mkdir(parents=True)
    (repetition(tmp_path, 3) / "decisions" / "part-1.spool").touch()
    runs = repetitions(tmp_path)
    assert [each.folder.name for each in runs.directories] == ["run-1", "run-2", "run-10"]
    assert runs.notes == ("run-3 has no run.json: the run was interrupted, and is left out",)


def test_runs_of_different_scenarios_are_no_repetitions(tmp_path: Path) -> None:
    put_run(repetition(tmp_path, 1))
    put_run(repetition(tmp_path, 2), "name: other")
    with pytest.raises(RunError, match="different scenarios"):
        repetitions(tmp_path)


def test_a_directory_without_any_is_refused(tmp_path: Path) -> None:
    with pytest.raises(RunError, match=r"no run.json"):
        repetitions(tmp_path)
