"""`sluicegate report diff`: better, worse, the same; thresholds for CI."""

from collections.abc import Callable
from dataclasses import replace
from datetime import timedelta
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.reports.model.example import example

from sluicegate.cli import main
from sluicegate_reports.model.differences import Change, change_of, difference
from sluicegate_reports.model.results import Cell, Results, from_json, to_json
from sluicegate_reports.model.verdict import Verdict

Run = Callable[..., Result]


def place(
    verdict: Verdict, figure: float | None = None, low: float | None = None, high: float | None = None
) -> Cell:
    return Cell("max_publish_rate", "kafka", "proxy", verdict, figure, 5.0, unit="%", low=low, high=high)


@pytest.mark.parametrize(
    ("before", "after", "change"),
    [
        (place(Verdict.EXACT, 0.1), place(Verdict.OFF, 9), Change.WORSE),
        (place(Verdict.OFF, 9), place(Verdict.DISPUTED, 9), Change.BETTER),
        (place(Verdict.MISSING), place(Verdict.MISSING), Change.SAME),
        (place(Verdict.EXACT, 0.2), place(Verdict.MISSING), Change.WORSE),
        (place(Verdict.OFF, 9), place(Verdict.MISSING), Change.GONE),
        (place(Verdict.DISPUTED, 9), place(Verdict.MISSING), Change.GONE),
        (place(Verdict.MISSING), place(Verdict.OFF, 9), Change.WORSE),
        (place(Verdict.EXACT, 0.1), place(Verdict.NOT_APPLICABLE), Change.GONE),
        (place(Verdict.NOT_APPLICABLE), place(Verdict.EXACT, 0.1), Change.NEW),
        (place(Verdict.NOT_APPLICABLE), place(Verdict.NOT_APPLICABLE), Change.SAME),
        # A tenth of the bound is what single runs differ by.
        (place(Verdict.EXACT, 0.49), place(Verdict.WITHIN, 0.51), Change.SAME),
        (place(Verdict.WITHIN, 1.0), place(Verdict.WITHIN, 1.6), Change.WORSE),
        (place(Verdict.OFF, 20), place(Verdict.OFF, 12), Change.BETTER),
        # Repeated runs bring their own measure.
        (place(Verdict.WITHIN, 1.0, 0.5, 2.5), place(Verdict.WITHIN, 3.0, 2.0, 4.0), Change.SAME),
        (place(Verdict.WITHIN, 1.0, 0.9, 1.1), place(Verdict.WITHIN, 1.3, 1.2, 1.4), Change.WORSE),
        (place(Verdict.EXACT), place(Verdict.WITHIN), Change.WORSE),
    ],
)
def test_a_cell_is_better_worse_or_the_same(before: Cell, after: Cell, change: Change) -> None:
    assert change_of(before, after) is change


def test_new_and_missing_cells_are_reported() -> None:
    results = example()
    fewer = replace(results, matrix=results.matrix[1:])
    assert difference(results, fewer).tables()["cells"].rows[0][0] == Change.GONE
    assert [t.measured for t in difference(results, fewer).thresholds] == [0, 1, 0]
    systems = {row[2] for row in difference(results, fewer).tables()["cells"].rows}
    assert systems >= {"kafka", "pulsar", "danube (reference broker, not Danube)"}
    assert Change.NEW in [row[0] for row in difference(fewer, results).tables()["cells"].rows]


def test_other_machines_policies_and_versions_are_noted() -> None:
    results = example()
    facts = replace(results.run, machine={"cpu": "another"}, policies="", versions={})
    notes = difference(results, replace(results, run=facts)).notes
    assert notes[:2] == ("the policies of the two are not the same", "the machine of the two is not the same")
    assert any("before, none after" in note for note in notes[2:])


def worse() -> Results:
    """The example, with a place off that was kept."""
    results = example()
    kept = next(n for n, cell in enumerate(results.matrix) if cell.verdict is Verdict.EXACT)
    cells = [replace(c, verdict=Verdict.OFF) if n == kept else c for n, c in enumerate(results.matrix)]
    return replace(results, matrix=tuple(cells))


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "reports")
    Path("before.json").write_bytes(to_json(example()))
    Path("after.json").write_bytes(to_json(worse()))

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["report", "diff", *arguments], catch_exceptions=False)

    return invoke


@pytest.mark.parametrize(
    ("files", "wanted", "code"),
    [
        (("before.json", "after.json"), (), 0),
        (("before.json", "after.json"), ("worse_cells",), 1),
        (("before.json", "after.json"), ("worse_cells<=1", "gone_cells"), 0),
        (("after.json", "before.json"), ("worse_cells", "worse_thresholds"), 0),
    ],
)
def test_a_worse_cell_fails(run: Run, files: tuple[str, ...], wanted: tuple[str, ...], code: int) -> None:
    options = [part for each in wanted for part in ("--fail-on", each)]
    result = run(*files, *options)
    assert result.exit_code == code, result.stderr
    assert ("failed: worse_cells is 1" in result.stderr) is (code == 1)


@pytest.mark.parametrize(
    ("form", "begins"),
    [
        ("html", "<!doctype html>"),
        ("json", "{"),
        ("markdown", "# A comparison against an earlier one"),
        ("terminal", "A comparison against an earlier one"),
    ],
)
def test_a_difference_has_every_output_form(run: Run, form: str, begins: str) -> None:
    result = run("before.json", "after.json", "--format", form)
    assert result.exit_code == 0
    assert result.stdout.startswith(begins)
    assert "worse" in result.stdout


def test_a_saved_difference_is_rendered_and_not_taken_for_a_comparison(run: Run) -> None:
    run("before.json", "after.json", "--out", "difference.json")
    shown = CliRunner().invoke(main, ["report", "render", "difference.json", "--fail-on", "worse_cells"])
    assert shown.exit_code == 1
    assert shown.stdout == run("before.json", "after.json").stdout
    result = run("before.json", "difference.json")
    assert (result.exit_code, "but of another command" in result.stderr) == (2, True)


def test_other_files_are_refused(run: Run) -> None:
    Path("other.json").write_text("{}")
    result = run("before.json", "other.json")
    assert result.exit_code == 2
    assert "not the results of a comparison" in result.stderr
    result = run("before.json", "after.json", "--fail-on", "off_cells")
    assert result.exit_code == 2
    assert "these results have: worse_cells, gone_cells, worse_thresholds" in result.stderr


def test_a_trend_has_the_runs_in_their_order_and_says_what_became_worse(tmp_path: Path) -> None:
    best = example()
    worse = tuple(
        replace(cell, verdict=Verdict.OFF, figure=9.0) if cell.policy == "max_publish_rate" else cell
        for cell in best.matrix
    )
    started = best.run.started
    assert started is not None
    files = []
    for day, matrix in ((2, worse), (0, best.matrix), (1, best.matrix)):
        run = replace(best.run, run=f"day-{day}", started=started + timedelta(days=day))
        files.append(tmp_path / f"{day}.json")
        files[-1].write_bytes(to_json(replace(best, run=run, matrix=matrix)))
    shown = CliRunner().invoke(main, ["report", "trend", *map(str, files), "--format", "json"])
    assert shown.exit_code == 0, shown.output
    results = from_json(shown.stdout)
    rows = {tuple(row[1:4]): row for row in results.tables()["trend"].rows}
    assert rows["max_publish_rate", "kafka", "proxy"][0] == Change.WORSE
    assert rows["max_publish_rate", "kafka", "proxy"][6:] == (3, 1, 0)
    assert rows["max_producers_per_topic", "kafka", "proxy"][0] == Change.SAME
    of_one = [
        row for row in results.tables()["figures"].rows if row[1:4] == ("max_publish_rate", "kafka", "proxy")
    ]
    assert [(row[0], row[-1]) for row in of_one] == [("day-0", "new"), ("day-1", "same"), ("day-2", "worse")]
    assert max(len(table.columns) for table in results.tables().values()) <= 10
    failing = ["report", "trend", *map(str, files), "--fail-on", "worse_cells"]
    assert CliRunner().invoke(main, failing).exit_code == 1


def test_a_trend_needs_two_results(tmp_path: Path) -> None:
    (tmp_path / "one.json").write_bytes(to_json(example()))
    ended = CliRunner().invoke(main, ["report", "trend", str(tmp_path / "one.json")])
    assert (ended.exit_code, "at least two files" in ended.output) == (2, True)
