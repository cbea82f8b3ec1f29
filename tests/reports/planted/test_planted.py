"""Mutation tests of verdicts: every planted fault is named, and no perfect run is *off*."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.reports.planted import bursts, faults, perfect
from tests.reports.planted.book import Book
from tests.reports.runner import in_sql

from sluicegate_reports.jobs.compare import compare_trials
from sluicegate_reports.model.results import Results, from_json, to_json
from sluicegate_reports.model.runs import Run, Trial
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.verdicts import Finding

_FAULTS = {each.name: each for each in faults.library()}
_PERFECT = {each.name: each for each in perfect.library()}
_NAMED = (Verdict.OFF, Verdict.DISPUTED)
_COMPILED = {
    "spark.sql.adaptive.enabled": "true",
    "spark.sql.codegen.wholeStage": "true",
    "spark.sql.codegen.factoryMode": "FALLBACK",
}


@dataclass(frozen=True, slots=True)
class Judged:
    """All trials of the library, judged in one go."""

    directory: Path
    run: Run
    results: Results
    findings: list[tuple[Trial, Finding]]

    def of(self, name: str) -> list[Finding]:
        own = [f for trial, f in self.findings if name in (trial.topic, trial.door)]
        assert own
        return own


@contextmanager
def _as_users_have_it(spark: SparkSession) -> Iterator[None]:
    """Compile queries, and plan them anew on the way: other tests have a hundred rows, these 200,000."""
    before = {name: spark.conf.get(name) for name in _COMPILED}
    for name, value in _COMPILED.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, kept in before.items():
            spark.conf.set(name, kept or "")


@pytest.fixture(scope="module")
def judged(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Judged:
    directory = tmp_path_factory.mktemp("planted")
    book = Book()
    for fault in _FAULTS.values():
        fault.plant(book, fault.name)
    for trial in _PERFECT.values():
        trial.play(book, trial.name)
    run = book.write(directory)
    # What the rest of such a log tells is less, so it is one of a system that no trial is of.
    log = directory / "decisions/run=r1"
    torn = log / "system=kafka-torn/part-main-torn.parquet"
    torn.parent.mkdir()
    torn.write_bytes((log / "system=kafka/part-main-1.parquet").read_bytes()[:5_000])
    for cut in log.glob(f"system=*{faults.CUT}/*.parquet"):
        cut.write_bytes(cut.read_bytes()[:-5_000])
    with _as_users_have_it(spark):
        results, findings = compare_trials(spark, directory)
    return Judged(directory, run, results, list(zip(run.trials, findings, strict=True)))


def test_there_are_enough_faults() -> None:
    assert len(_FAULTS) >= 100
    assert len(_PERFECT) >= 50


@pytest.mark.parametrize("name", _FAULTS)
def test_a_planted_fault_is_named(judged: Judged, name: str) -> None:
    for finding in judged.of(name):
        assert finding.verdict in _NAMED, finding.text
        assert _FAULTS[name].named in finding.text


@pytest.mark.parametrize("name", _PERFECT)
def test_a_perfect_run_is_not_off(judged: Judged, name: str) -> None:
    for finding in judged.of(name):
        assert finding.verdict in _PERFECT[name].verdicts, finding.text
        assert _PERFECT[name].named in finding.text


def test_without_spark_the_results_are_the_same(judged: Judged) -> None:
    assert compare_trials(None, judged.directory)[0] == judged.results


def test_causes_are_told_to_programs_too(judged: Judged) -> None:
    cells = {cell.system: cell for cell in judged.results.matrix if cell.causes}
    assert {
        cells[f"kafka-{name}"].causes[0].kind
        for name in ("log-counted-twice", "ten-seconds-of-log-missing", "broker-away", "two-gateways")
    } == {"log_counted_twice", "log_gap", "no_answers", "limit_per_gateway"}
    (gap,) = cells["kafka-ten-seconds-of-log-missing"].causes
    assert (round(gap.from_s or 0), round(gap.to_s or 0), gap.messages) == (7, 17, 200)
    assert from_json(to_json(judged.results)).matrix == judged.results.matrix


def test_one_of_many_subscriptions_is_named(spark: SparkSession, tmp_path: Path) -> None:
    book = Book()
    bursts.of_many(book, "generous")
    run = book.write(tmp_path)
    results, findings = compare_trials(spark, tmp_path)
    by_name = {trial.subscription: finding for trial, finding in zip(run.trials, findings, strict=True)}
    assert {name for name, finding in by_name.items() if finding.verdict not in perfect._KEPT} == {"generous"}
    (cell,) = results.matrix
    assert (cell.verdict, cell.text) == (Verdict.OFF, f"worst of 20: {by_name['generous'].text}")
    assert "+2" in cell.text  # of 24 s at half as much again


def test_another_engine_computes_the_same_lateness(judged: Judged) -> None:
    assert in_sql.check_delays(judged.directory, judged.run, judged.results) >= 7 * 6


def test_another_engine_computes_the_same_figures_of_single_answers(judged: Judged) -> None:
    assert in_sql.check_answers(judged.directory, judged.run, judged.results) >= 240


def test_another_engine_tells_the_same_of_the_law_and_of_the_decisions_of_gates(judged: Judged) -> None:
    assert in_sql.check_rates(judged.directory, judged.run, judged.results) >= 700
