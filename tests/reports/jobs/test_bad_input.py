"""Runs with missing or foreign files: these are named and change no figure."""

from datetime import timedelta
from io import StringIO
from pathlib import Path

import pyarrow.compute as pc
import pyarrow.parquet as pq
from pyspark.sql import SparkSession
from tests.reports import recorded

from sluicegate.output.console import Console
from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.model.results import Results, to_json
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.render.markdown import markdown
from sluicegate_reports.render.missing import gaps
from sluicegate_reports.render.page import page
from sluicegate_reports.render.terminal import show


def verdicts(results: Results, door: str) -> dict[str, Verdict]:
    return {cell.policy: cell.verdict for cell in results.matrix if cell.door == door}


def without(directory: Path) -> None:
    for path in directory.rglob("part-*.parquet"):
        path.unlink()


def _printed(results: Results) -> str:
    text = StringIO()
    show(results, Console(file=text, width=150))
    return text.getvalue()


def test_a_run_without_observations_is_judged_by_its_log(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path)
    without(tmp_path / OBSERVATIONS)
    results = compare_run(spark, tmp_path)
    assert [note.partition(":")[0] for note in results.notes] == ["observations", "kafka native"]
    assert verdicts(results, "proxy") == {
        "max_publish_rate": Verdict.UNCONFIRMED,
        "max_producers_per_topic": Verdict.MISSING,
        "max_message_size": Verdict.MISSING,
        "fixed_delivery_delay": Verdict.MISSING,
    }
    # What became of messages is not known: nothing says that none was lost.
    why = {threshold.name: threshold for threshold in results.thresholds}
    assert why.keys().isdisjoint({"lost_messages", "early_messages"})
    assert why["unconfirmed_cells"].measured == 1
    assert not why["unconfirmed_cells"].passed
    gap = "kafka proxy, max_publish_rate: kept by the gateway's log alone, no client confirms it"
    assert gap in gaps(results)
    for text in (page(results), markdown(results), to_json(results).decode(), _printed(results)):
        assert "unconfirmed" in text
        assert "✓ exact" not in text


def test_a_run_without_a_log_is_judged_by_its_clients(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path)
    without(tmp_path / DECISIONS)
    results = compare_run(spark, tmp_path)
    assert [note.partition(":")[0] for note in results.notes] == ["decision log"]
    assert set(verdicts(results, "proxy").values()) == {Verdict.EXACT}
    assert verdicts(results, "native")["max_publish_rate"] is Verdict.OFF
    assert "wrong_decisions_percent" not in {threshold.name for threshold in results.thresholds}


def _tear_off(path: Path, chosen: pc.Expression) -> None:
    """Move rows to a second file, and cut that one short."""
    table = pq.ParquetFile(path).read()
    torn = path.with_name(f"part-torn-{path.name}")
    pq.write_table(table.filter(chosen), torn)
    torn.write_bytes(torn.read_bytes()[:-50])
    pq.write_table(table.filter(~pc.if_else(chosen.is_null(), False, chosen)), path)


def test_what_a_torn_file_of_observations_had_is_not_called_lost(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path)
    (path,) = (tmp_path / OBSERVATIONS).rglob("part-proxy-*.parquet")
    odd = pc.equal(pc.bit_wise_and(pc.field("sequence"), 1), 1)
    _tear_off(path, (pc.field("role") == "consumer") & odd)
    results = compare_run(spark, tmp_path)
    assert any("part-torn" in note and "cut short" in note for note in results.notes)
    assert verdicts(results, "proxy") == {
        "max_publish_rate": Verdict.EXACT,  # by the log, and producers' answers agree
        "max_producers_per_topic": Verdict.MISSING,
        "max_message_size": Verdict.MISSING,
        "fixed_delivery_delay": Verdict.MISSING,
    }
    text = next(cell.text for cell in results.matrix if cell.policy == "fixed_delivery_delay")
    assert text.startswith("a part of the observations is lost; by the rest: 0 early")
    (lost,) = (threshold for threshold in results.thresholds if threshold.name == "lost_messages")
    assert (lost.measured, lost.passed) == (None, False)


def test_what_a_torn_decision_log_had_is_not_called_refused(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path)
    (path,) = (tmp_path / DECISIONS).rglob("part-*.parquet")
    late = pc.field("time") > pc.scalar(recorded.START + timedelta(seconds=4))
    _tear_off(path, late)
    results = compare_run(spark, tmp_path)
    assert verdicts(results, "proxy")["max_publish_rate"] not in (Verdict.OFF, Verdict.DISPUTED)
    assert "wrong_decisions_percent" not in {threshold.name for threshold in results.thresholds}
