"""Commands that read a decision log read those of several gateways as one by `--log`."""

from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.reports import recorded

from sluicegate.cli import main
from sluicegate_reports.model.results import Results, from_json


@pytest.fixture
def logs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Of two gateways, of which each published three messages."""
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "reports")
    monkeypatch.chdir(tmp_path)
    for host in ("one", "two"):
        row = recorded.decision(0, host=host, run=host, messages=3, topic="orders")
        recorded.write_decisions(tmp_path / host, [row], f"part-{host}-00001.parquet")
    return ["one", "--log", "two"]


def report(*arguments: str) -> Results:
    out = ("--out", "results.json")
    done = CliRunner().invoke(main, ["report", *arguments, *out], catch_exceptions=False)
    assert done.exit_code == 0, done.output
    return from_json(Path("results.json").read_bytes())


def test_usage_sums_them(logs: list[str]) -> None:
    table = report("usage", *logs).tables()["by_topic"]
    assert [row[table.columns.index("published messages")] for row in table.rows] == [6]


def test_recommend_takes_the_peak_of_all(logs: list[str]) -> None:
    results = report("recommend", *logs)
    table = results.tables()["rates"]
    assert [row[table.columns.index("peak (messages/s)")] for row in table.rows] == [6]
    assert results.facts["log"].endswith("one and 1 more log (2 rows)")


def test_follow_counts_each_file_once_whichever_log_is_named_first(logs: list[str]) -> None:
    for order in (logs, ["two", "--log", "one"], ["one"]):
        assert report("follow", *order, "--state", "state").summary.startswith("2 decisions"), order


@pytest.mark.parametrize("command", [["replay", "one", "gateway.yaml"], ["usage", "one"]])
def test_a_log_that_is_not_there_is_named(logs: list[str], command: list[str]) -> None:
    Path("gateway.yaml").touch()
    done = CliRunner().invoke(main, ["report", *command, "--log", "gone"])
    assert (done.exit_code, "'gone' does not exist" in done.output) == (2, True)
