"""The end of `sluicegate demo`: a report with Spark; without it a remedy and the clients' results."""

import json
import os
import re
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from tests.reports.model.example import example
from tests.reports.recorded import make_run

from sluicegate_reports.commands import demo
from sluicegate_reports.commands.demo_table import counted
from sluicegate_reports.model.observations import Event, Observation, ObservationLog, Role
from sluicegate_reports.model.results import Arm, Cell, Results, to_json
from sluicegate_reports.model.runs import OBSERVATIONS, Run
from sluicegate_reports.model.verdict import Verdict

Show = Callable[..., Sequence[str]]

SMALL = """
name: small
topics: [{ name: sized }]
producers:
  - { name: small, topic: sized, rate: 20/s, size: 100B }
  - { name: large, topic: sized, rate: 10/s, size: 2KiB }
consumers: [{ name: reader, topic: sized }]
phases: [{ name: only, duration: 1s }]
drain: 500ms
policies:
  topics: [{ name: sized, max_message_size: 1KiB }]
"""


@pytest.fixture(autouse=True)
def no_given_width(monkeypatch: pytest.MonkeyPatch) -> None:
    """Tests that run in several processes may be told how wide the terminal is."""
    monkeypatch.delenv("COLUMNS", raising=False)


@pytest.fixture
def recorded(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """The run is one that was made before, and `not_played` says why an arm was not."""
    settings: dict[str, Any] = {}

    def play(directory: Path, systems: Sequence[str], console: object) -> Run:
        settings["systems"] = systems
        run = make_run(directory)
        arms = [arm for arm in run.facts.arms if not arm.missing]
        if "not_played" in settings:
            arms.append(Arm("pulsar", "proxy", missing=settings["not_played"]))
        return replace(run, facts=replace(run.facts, arms=tuple(arms)))

    monkeypatch.setattr(demo, "_play", play)
    return settings


def put_job(monkeypatch: pytest.MonkeyPatch, results: Results | None, printed: str = "") -> None:
    """The job finds this, or fails."""

    def run(command: list[str], output: int) -> int:
        os.write(output, printed.encode())
        if results is None:
            return 2
        Path(command[command.index("--out") + 1]).write_bytes(to_json(results))
        return 0

    monkeypatch.setattr(demo, "_done", run)
    monkeypatch.setattr(demo, "lacks", lambda: "")


def good() -> Results:
    """Results in which nothing is wrong."""
    cell = Cell("max_message_size", "kafka", "proxy", Verdict.EXACT, 0, 0, "0 of 9 answers wrong")
    return replace(example(), matrix=(cell,), thresholds=(), notes=())


# -- with and without the extra -------------------------------------------------------------------------


def test_without_the_extra_the_remedy_and_the_clients_results_are_printed(
    tmp_path: Path,
    recorded: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "numpy" else object())
    assert demo.show(tmp_path, ["danube", "kafka", "mine"], plain=True) == []
    assert recorded["systems"] == ["kafka", "danube"]
    shown = capsys.readouterr().out
    assert shown.isascii()
    text = " ".join(shown.split())
    assert "There is no comparison report" in text
    assert "reports are not installed: pip install 'sluicegate[reports]'" in text
    assert f"$ sluicegate report compare {tmp_path}/comparison/run --out report.html" in text
    row = next(line.split("|") for line in shown.splitlines() if "kafka proxy" in line)
    counts = counted(tmp_path / "comparison" / "run")["kafka", "proxy"]
    assert [cell.strip() for cell in row[4:6]] == [f"{counts['sent']:,}", f"{counts['acknowledged']:,}"]
    assert counts["sent"] > counts["acknowledged"] > 0


def test_the_report_is_shown_and_left(
    tmp_path: Path,
    recorded: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    put_job(monkeypatch, good())
    assert demo.show(tmp_path, ["kafka"], plain=True) == []
    shown = capsys.readouterr().out
    assert shown.isascii()
    place = tmp_path / "comparison"
    assert f"The report, to look at in a browser: {place / 'report.html'}" in shown
    assert "Each policy on each system, by door" in shown
    assert (place / "report.html").read_text().startswith("<!doctype html>")
    assert json.loads((place / "report.json").read_text())["matrix"][0]["policy"] == "max_message_size"
    assert (place / "report.md").read_text().startswith("# Mixed")


def test_a_failed_job_is_reported_with_its_last_line(
    tmp_path: Path, recorded: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    put_job(monkeypatch, None, "WARN something\nError: there is no memory\n")
    (problem,) = demo.show(tmp_path, ["kafka"], plain=False)
    assert problem.startswith("the report could not be made: Error: there is no memory; see ")
    assert "try again: sluicegate report compare" in problem
    assert "there is no memory" in (tmp_path / "comparison" / "compare.log").read_text()


def test_an_arm_that_did_not_run_is_a_problem_even_without_a_report(
    tmp_path: Path,
    recorded: dict[str, Any],
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None if name == "numpy" else object())
    recorded["not_played"] = "its gate did not start"
    assert demo.show(tmp_path, ["kafka", "pulsar"], plain=False) == ["pulsar proxy: its gate did not start"]
    assert "pulsar proxy: its gate did not start" in " ".join(capsys.readouterr().out.split())


def test_systems_unknown_to_every_scenario_are_not_compared(tmp_path: Path) -> None:
    assert demo.show(tmp_path, ["mine"], plain=False) == []
    assert list(tmp_path.iterdir()) == []


def test_acknowledgements_by_consumers_are_not_counted(tmp_path: Path) -> None:
    with ObservationLog(tmp_path / OBSERVATIONS, "r1", "pulsar", "proxy", "only") as log:
        for role in (Role.PRODUCER, Role.CONSUMER):
            log.add(Observation(1, role.value, role, "orders", Event.ACKNOWLEDGED))
    assert counted(tmp_path) == {("pulsar", "proxy"): {"acknowledged": 1}}


# -- what decides the exit code -------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("policy", "verdict", "decides"),
    [
        ("max_message_size", Verdict.OFF, True),
        ("max_producers_per_topic", Verdict.OFF, True),
        ("max_publish_rate", Verdict.OFF, False),
        ("fixed_delivery_delay", Verdict.OFF, False),
        ("max_publish_rate", Verdict.MISSING, False),
        ("max_publish_rate", Verdict.WITHIN, False),
        ("max_message_size", Verdict.NOT_APPLICABLE, False),
    ],
)
def test_only_findings_beyond_a_busy_machine_decide(policy: str, verdict: Verdict, decides: bool) -> None:
    results = replace(good(), matrix=(Cell(policy, "kafka", "proxy", verdict, text="so it is"),))
    expected = [f"{policy}, kafka proxy: {verdict.text}: so it is"] if decides else []
    assert list(demo.wrong(results)) == expected


def test_measures_missed_on_a_slow_machine_are_reported_and_decide_nothing() -> None:
    cells = tuple(
        Cell("max_publish_rate", "kafka", door, verdict, text="so it is")
        for door, verdict in (("proxy", Verdict.MISSING), ("interceptor", Verdict.EXACT))
    )
    notes = ["max_publish_rate, kafka proxy: not measured here: so it is"]
    assert list(demo.unmeasured(replace(good(), matrix=cells))) == notes


def test_a_gate_that_admits_more_than_its_rate_decides(tmp_path: Path) -> None:
    run = make_run(tmp_path)
    assert list(demo.exceeded_limits(run, tmp_path)) == []
    stricter = tuple(replace(each, limit=each.limit / 2) for each in run.trials)
    [exceeded] = demo.exceeded_limits(replace(run, trials=stricter), tmp_path)
    assert exceeded.startswith("max_publish_rate, kafka proxy: admitted ")
    assert exceeded.endswith(" messages more than its limit permits")


def test_lost_and_early_messages_decide_and_a_rate_does_not() -> None:
    base = example().thresholds[0]
    names = ("lost_messages", "early_messages", "rate_error_percent")
    failed = tuple(replace(base, name=name, measured=7, passed=False, text=name) for name in names)
    assert list(demo.wrong(replace(good(), thresholds=failed))) == [
        "7 lost_messages",
        "7 early_messages",
    ]
    passed = tuple(replace(each, passed=True) for each in failed)
    assert list(demo.wrong(replace(good(), thresholds=passed))) == []


# -- for real -------------------------------------------------------------------------------------------


def test_the_job_is_a_process_whose_output_is_kept(tmp_path: Path) -> None:
    code = "import sys; print('said'); sys.exit('and failed')"
    with (tmp_path / "log").open("w") as printed:
        ended = demo._done([sys.executable, "-c", code], printed.fileno())
    assert (ended, sorted((tmp_path / "log").read_text().split("\n"))) == (1, ["", "and failed", "said"])


@pytest.mark.slow
def test_a_run_of_danube_ends_with_its_report(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # nothing named java can be found
    for name in ("JAVA_HOME", "MASTER", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    scenario = tmp_path / "small.yaml"
    scenario.write_text(SMALL)
    monkeypatch.setattr(demo, "shipped", lambda: {demo.SCENARIO: scenario})
    assert demo.show(tmp_path, ["danube"], plain=True) == []
    shown = capsys.readouterr().out
    # How many messages there is time for depends on the machine.
    line = re.search(r"played  danube proxy: 3 attached, (.+)", shown)
    assert line is not None
    counts = {what: int(count) for count, what in re.findall(r"(\d+) (\w+)", line[1])}
    late = counts.get("without", 0)  # as a process stood still at the end
    assert counts["sent"] == counts["acknowledged"] + counts["refused"] + late
    assert 0 < counts["acknowledged"] <= counts["received"] <= counts["acknowledged"] + late
    assert counts["refused"] > 0
    assert "danube interceptor (reference broker, not Danube)" in shown
    assert "+ exact" in shown
    results = json.loads((tmp_path / "comparison" / "report.json").read_text())
    assert {(cell["door"], cell["verdict"]) for cell in results["matrix"]} == {
        ("proxy", "exact"),
        ("interceptor", "exact"),
    }
