"""The mixed scenario on a real Kafka and a real Pulsar, as a user runs it, and its report."""

import os
import shutil
import subprocess
import sys
from collections import Counter
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest
from tests.reports.runner.conftest import Recorded
from tests.reports.runner.topics import scenario_name

from sluicegate_reports.model.runs import read_run

_LONG_S = 3_000
"""Ends what hangs: a machine with much else to do takes more than a quarter of an hour."""
pytestmark = [
    pytest.mark.longer,  # `make demo` compares too, and the brokers are played in tests of their own
    pytest.mark.timeout(_LONG_S + 600),
]

ARTEFACTS = "SLUICEGATE_ARTEFACTS"
"""Names a directory that keeps the report; CI sets it."""
_COMMAND = (sys.executable, "-c", "from sluicegate.cli import main; main()")


def sluicegate(*arguments: str, within_s: float) -> str:
    """Run the command to its end; whatever it started ends with it, also when it takes too long."""
    with subprocess.Popen(
        [*_COMMAND, *arguments], stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True
    ) as process:
        try:
            output, _ = process.communicate(timeout=within_s)
        except subprocess.TimeoutExpired:
            process.terminate()
            output, _ = process.communicate()
            pytest.fail(f"not over after {within_s} s: {output}")
    assert process.returncode == 0, output
    return output


@pytest.fixture(scope="module")
def mixed(brokers: None, tmp_path_factory: pytest.TempPathFactory) -> Recorded:
    """One run for all tests."""
    directory = tmp_path_factory.mktemp("mixed") / "run"
    arguments = ("run", "mixed", "--systems", "kafka,pulsar", "--out", os.fspath(directory))
    output = sluicegate("compare", *arguments, within_s=_LONG_S)
    return Recorded(directory, read_run(directory), output.splitlines())


def by_topic(made: Recorded, event: str, system: str, door: str, **columns: Any) -> Counter[str]:
    rows = made.observations(event=event, system=system, door=door, **columns)
    return Counter(scenario_name(row["topic"]) for row in rows)


def test_every_arm_is_played(mixed: Recorded) -> None:
    missing = {(arm.system, arm.door): arm.missing for arm in mixed.run.facts.arms}
    assert missing == {
        ("kafka", "proxy"): "",
        ("kafka", "native"): "",
        ("kafka-strimzi", "native"): "",
        ("pulsar", "proxy"): "",
        ("pulsar", "native"): "",
    }
    labels = {(arm.system, arm.door): arm.label for arm in mixed.run.facts.arms}
    assert "nearest" in labels["kafka", "native"]
    assert "nearest" in labels["kafka-strimzi", "native"]
    assert labels["pulsar", "native"] == ""
    assert mixed.run.facts.versions["kafka"].startswith("Kafka 4")
    assert mixed.run.facts.versions["pulsar"].startswith("Pulsar 4")


@pytest.mark.parametrize("system", ["kafka", "pulsar"])
def test_every_policy_holds_as_clients_see_it(mixed: Recorded, system: str) -> None:
    assert by_topic(mixed, "attach_refused", system, "proxy") == {"counted": 1}
    # All that is larger than 4 KiB is refused, and nothing that is not.
    refused = mixed.observations(event="refused", system=system, door="proxy")
    assert {row["client"] for row in refused} - {"surplus"} == {"large"}
    acknowledged = {
        row["client"] for row in mixed.observations(event="acknowledged", system=system, door="proxy")
    }
    assert {"small", "early", "publishing", "weighing"} <= acknowledged
    assert "large" not in acknowledged
    late = [
        row["time"] - row["published"]
        for row in mixed.observations(event="received", system=system, door="proxy", client="delayed-reader")
    ]
    assert late
    assert min(late) >= timedelta(milliseconds=1500 - 2)


@pytest.mark.parametrize("system", ["kafka", "pulsar"])
def test_no_more_is_admitted_than_the_rate(mixed: Recorded, system: str) -> None:
    of_client = {"system": system, "door": "proxy", "client": "publishing"}
    began = min(row["time"] for row in mixed.observations(event="sent", **of_client))
    times = sorted(row["time"] for row in mixed.observations(event="acknowledged", **of_client))
    limit, burst = 150, 150
    assert times
    # From the start, so that answers that come late only make it less; a batch may be charged at once.
    for number, at in enumerate(times):
        assert number <= burst + limit * ((at - began).total_seconds() + 0.5)


def test_policies_that_a_system_lacks_are_reported(mixed: Recorded) -> None:
    trials = {(each.system, each.door, each.policy): each for each in mixed.run.trials}
    assert "no number of clients" in trials["kafka", "native", "max_producers_per_topic"].not_applicable
    assert "a quota of a client id" in trials["kafka", "native", "max_publish_rate_bytes"].nearest
    assert "one limit for all clients" in trials["kafka-strimzi", "native", "max_publish_rate_bytes"].nearest
    assert trials["pulsar", "native", "fixed_delivery_delay"].not_applicable
    assert not trials["pulsar", "native", "max_producers_per_topic"].not_applicable
    # Where several attach at the same moment, Pulsar itself may let in one too many.
    assert by_topic(mixed, "attach_refused", "pulsar", "native").keys() <= {"counted"}
    assert by_topic(mixed, "attach_refused", "kafka", "native") == {}


def test_nothing_of_the_decision_log_is_lost(mixed: Recorded) -> None:
    decided = mixed.decisions()
    assert {(row["system"], row["door"]) for row in decided} == {("kafka", "proxy"), ("pulsar", "proxy")}
    assert {row["run"] for row in decided} == {mixed.run.facts.run}


def test_the_report_is_made_and_kept(mixed: Recorded, tmp_path: Path) -> None:
    report = tmp_path / "mixed.html"
    sluicegate("report", "compare", os.fspath(mixed.directory), "--out", os.fspath(report), within_s=_LONG_S)
    text = report.read_text(encoding="utf-8")
    assert len(text) <= 1_000_000
    assert "kafka-strimzi" in text
    kept = os.environ.get(ARTEFACTS)
    if kept:
        target = Path(kept)
        target.mkdir(parents=True, exist_ok=True)
        shutil.copy(report, target / "comparison-mixed.html")
        shutil.copy(mixed.directory / "run.json", target / "comparison-mixed-run.json")
