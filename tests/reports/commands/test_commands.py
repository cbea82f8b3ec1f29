"""`sluicegate report render|compare`: forms, thresholds, exit codes, remedies."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.reports.model.example import example

from sluicegate.cli import main
from sluicegate_reports.commands.group import report
from sluicegate_reports.commands.output import FORMATS
from sluicegate_reports.model.results import from_json, to_json

Run = Callable[..., Result]
_DOCUMENT = Path(__file__).parents[3] / "docs" / "reports.md"


@pytest.fixture
def run(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Run `sluicegate report ARGUMENTS` where results.json holds the example."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "reports")
    Path("results.json").write_bytes(to_json(example()))

    def invoke(*arguments: str) -> Result:
        return CliRunner().invoke(main, ["report", *arguments], catch_exceptions=False)

    return invoke


def render(run: Run, *arguments: str) -> Result:
    return run("render", "results.json", *arguments)


def test_the_summary_is_printed_by_default(run: Run) -> None:
    result = render(run)
    assert result.exit_code == 0
    assert "Each policy on each system" in result.stdout
    assert max(len(line) for line in result.stdout.splitlines()) <= 150


@pytest.mark.parametrize(
    ("form", "begins"),
    [("html", "<!doctype html>"), ("json", '{\n "run"'), ("markdown", "# Mixed"), ("terminal", "Mixed")],
)
def test_every_form_can_be_printed(run: Run, form: str, begins: str) -> None:
    result = render(run, "--format", form)
    assert result.exit_code == 0
    assert result.stdout.startswith(begins)


def test_the_forms_are_those_that_are_tested() -> None:
    assert set(FORMATS) == {"html", "json", "markdown", "terminal"}


@pytest.mark.parametrize(
    ("name", "begins"),
    [("r.html", "<!doctype html>"), ("r.json", '{\n "run"'), ("r.md", "# Mixed"), ("r.TXT", "Mixed")],
)
def test_the_file_suffix_selects_the_form_and_the_summary_is_printed_too(
    run: Run, name: str, begins: str
) -> None:
    result = render(run, "--out", name)
    assert result.exit_code == 0
    assert Path(name).read_text().startswith(begins)
    assert "Each policy on each system" in result.stdout
    assert f"written to {name}" in result.stdout
    assert sorted(path.name for path in Path().iterdir()) == sorted([name, "results.json"])


def test_an_explicit_form_wins_over_the_suffix(run: Run) -> None:
    assert render(run, "--out", "r.html", "--format", "json").exit_code == 0
    assert from_json(Path("r.html").read_text()) == example()


def test_an_unknown_suffix_is_refused(run: Run) -> None:
    result = render(run, "--out", "r.pdf")
    assert result.exit_code == 2
    assert "expected one of .html, .htm, .json, .md, .txt, or --format" in result.stderr


def test_an_unwritable_file_is_not_reported_as_a_failed_threshold(run: Run) -> None:
    result = render(run, "--out", "nowhere/r.html")
    assert result.exit_code == 2
    assert "there is no directory 'nowhere'; make it" in result.stderr


@pytest.mark.parametrize(
    ("wanted", "code"),
    [
        (["early_messages"], 0),
        (["off_cells"], 1),
        (["off_cells<=2"], 0),
        (["off_cells <= 1.9"], 1),
        (["rate_error_percent<=1"], 1),
        (["rate_error_percent<=1.1", "early_messages"], 0),
        (["rate_error_percent<=1.1", "off_cells"], 1),
        (["lost_messages<=1000000"], 1),
    ],
)
def test_thresholds_decide_the_exit_code(run: Run, wanted: list[str], code: int) -> None:
    arguments = [part for text in wanted for part in ("--fail-on", text)]
    assert render(run, *arguments).exit_code == code


def test_no_run_fails_without_a_requested_threshold(run: Run) -> None:
    assert render(run).exit_code == 0


def test_failed_thresholds_are_printed_and_the_report_is_still_written(run: Run) -> None:
    wanted = ("--fail-on", "rate_error_percent<=1", "--fail-on", "lost_messages")
    result = render(run, *wanted, "--out", "r.html")
    assert result.exit_code == 1
    assert result.stderr.splitlines() == [
        "failed: rate_error_percent is 1.1 %, expected at most 1 %",
        "failed: lost_messages is not measured, expected at most 0 messages",
    ]
    assert Path("r.html").exists()


def test_a_given_bound_appears_in_the_report(run: Run) -> None:
    shown = json.loads(render(run, "--format", "json", "--fail-on", "off_cells<=7").stdout)
    assert [shown["thresholds"][0][name] for name in ("name", "bound", "passed")] == ["off_cells", 7.0, True]


@pytest.mark.parametrize(
    "text", ["off_cells<=", "off_cells<=x", "off_cells<=nan", "off_cells=3", "Off cells", ""]
)
def test_an_invalid_threshold_is_refused_with_an_example(run: Run, text: str) -> None:
    result = render(run, "--fail-on", text)
    assert result.exit_code == 2
    assert "'off_cells<=0'" in " ".join(result.stderr.split())


def test_an_unknown_threshold_is_answered_with_the_known_ones(run: Run) -> None:
    result = render(run, "--fail-on", "of_cells")
    assert result.exit_code == 2
    assert "off_cells, rate_error_percent, early_messages, lost_messages" in result.stderr


@pytest.mark.parametrize(
    ("content", "said"),
    [(b"", "Invalid JSON"), (b"\xff\xfe", "Invalid JSON"), (b'{"a": 1}', "run: Field required")],
)
def test_files_that_are_not_results_are_refused(run: Run, content: bytes, said: str) -> None:
    Path("results.json").write_bytes(content)
    result = render(run)
    assert result.exit_code == 2
    assert said in result.stderr
    assert "expected the JSON of" in result.stderr


@pytest.mark.parametrize(
    "arguments",
    [
        ["render"],
        ["render", "gone.json"],
        ["compare"],
        ["compare", "gone"],
        ["render", "results.json", "--format", "pdf"],
    ],
)
def test_wrong_use_ends_with_2(run: Run, arguments: list[str]) -> None:
    assert run(*arguments).exit_code == 2


@pytest.mark.parametrize("name", sorted(report.commands))
def test_every_option_has_help_and_is_documented(run: Run, name: str) -> None:
    text = _DOCUMENT.read_text()
    assert f"`sluicegate report {name}" in text
    shown = run(name, "--help").stdout
    for parameter in report.commands[name].params:
        if isinstance(parameter, click.Option):
            assert parameter.help, parameter.name
            assert f"`{max(parameter.opts, key=len)}" in text
            assert max(parameter.opts, key=len) in shown


def test_help_imports_neither_spark_nor_rich() -> None:
    code = (
        "import sys, sluicegate.cli as cli\n"
        "try: cli.main(['report', 'compare', '--help'])\n"
        "except SystemExit: pass\n"
        "print([m for m in ('pyspark', 'pandas', 'rich', 'pyarrow') if m in sys.modules])\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "--fail-on NAME[<=VALUE]" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"
