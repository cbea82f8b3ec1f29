"""The whole comparison on a small run whose figures are known."""

import json
import re
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from pyspark.sql import SparkSession
from tests.reports import recorded

from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.model.results import Cell, Chart, Results, from_json, to_json
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS, RunError, read_run
from sluicegate_reports.model.verdict import Verdict


def cell(results: Results, policy: str, system: str, door: str) -> Cell:
    (match,) = [c for c in results.matrix if (c.policy, c.system, c.door) == (policy, system, door)]
    return match


def test_a_perfect_gate_is_exact_and_a_sloppy_one_is_off(results: Results) -> None:
    gate = cell(results, "max_publish_rate", "kafka", "proxy")
    assert gate.verdict is Verdict.EXACT
    assert gate.figure is not None
    assert gate.figure <= 0.5 + 100 / (recorded.RATE * 5)
    native = cell(results, "max_publish_rate", "kafka", "native")
    assert native.verdict is Verdict.OFF
    # In 8 s it lets 80 more pass than the 450 that rate and burst allow.
    assert native.figure == pytest.approx(17.7, abs=0.1)
    assert "nearest, not the same: per client and broker" in native.text
    assert results.verdict is Verdict.OFF


@pytest.mark.parametrize(
    ("policy", "door", "verdict"),
    [
        ("max_producers_per_topic", "proxy", Verdict.EXACT),
        ("max_producers_per_topic", "native", Verdict.NOT_APPLICABLE),
        ("max_message_size", "proxy", Verdict.EXACT),
        ("max_message_size", "native", Verdict.NOT_PLAYED),
        ("fixed_delivery_delay", "proxy", Verdict.EXACT),
    ],
)
def test_each_family_has_its_verdict(results: Results, policy: str, door: str, verdict: Verdict) -> None:
    assert cell(results, policy, "kafka", door).verdict is verdict


def test_cells_of_a_missing_arm_give_the_reason(results: Results) -> None:
    missing = [c for c in results.matrix if c.system == "danube"]
    assert {c.policy for c in missing} == set(results.policies())
    assert {(c.verdict, c.text) for c in missing} == {(Verdict.NOT_PLAYED, "no broker could be started")}


def rate_chart(results: Results) -> Chart:
    (section,) = (each for each in results.sections if each.policy == "max_publish_rate")
    return section.charts[0]


def test_figures_have_their_rows_and_charts(results: Results) -> None:
    tables = results.tables()
    assert all(c.rows in tables for c in results.matrix if c.rows)
    rate = tables["max_publish_rate figures"]
    by_arm = {
        (row[1], row[rate.columns.index("seen by")]): dict(zip(rate.columns, row, strict=True))
        for row in rate.rows
    }
    log = by_arm["proxy", "log"]
    assert log["largest excess"] == pytest.approx(-0.5, abs=0.5)
    assert (log["wrongly admitted"], log["wrongly refused"]) == (0, 0)
    assert log["refused at first"] == log["ideal refused"]
    assert by_arm["proxy", "clients"]["admitted"] == log["admitted"]
    chart = rate_chart(results)
    assert chart.limit == recorded.RATE
    assert {(s.system, s.door, len(s.points)) for s in chart.series} == {
        ("kafka", "proxy", recorded.LENGTH_S),
        ("kafka", "native", recorded.LENGTH_S),
    }
    assert [point.y for point in chart.series[0].points][2:-1] == [recorded.RATE] * 5


def test_figures_name_their_source_rows(results: Results, spark: SparkSession, run: Path) -> None:
    def picked(name: str, row: int) -> int:
        table = results.tables()[name]
        assert len(table.origins) == len(table.rows)
        return spark.read.parquet(str(run / table.origins[row].path)).where(table.origins[row].where).count()

    asked = recorded.LENGTH_S * 100
    admitted = sum(point.y or 0 for point in rate_chart(results).series[0].points)
    # The worst arm comes first.
    assert picked("max_publish_rate figures", 0) == 2 * asked  # natively clients tell: sent, and an answer
    assert picked("max_publish_rate figures", 1) == asked  # the log: each message has one decision
    assert picked("max_publish_rate figures", 2) == 2 * asked
    assert picked("max_producers_per_topic figures", 0) == 3
    assert picked("max_message_size figures", 0) == 2
    assert picked("fixed_delivery_delay figures", 0) == admitted
    assert picked("decision cost", 0) > 0
    gate = cell(results, "max_publish_rate", "kafka", "proxy")
    native = cell(results, "max_publish_rate", "kafka", "native")
    assert (gate.row, native.row) == (1, 0)
    assert results.tables()[native.rows].rows[0][1] == "native"


def test_latency_is_drawn_over_time_and_lateness_as_a_distribution(results: Results) -> None:
    charts = {chart.metric: chart for section in results.sections for chart in section.charts}
    waiting = charts["Latency and holds over time"].series
    assert [series.door for series in waiting] == ["proxy", "native"]
    for series in waiting:
        measured = [point for point in series.points if point.y is not None]
        assert len(measured) == recorded.LENGTH_S
        assert all((point.y, point.low, point.high) == (3.0, 3.0, 3.0) for point in measured)
    late = charts["How late messages came"]
    assert late.categories == ("10 to 20 ms",)  # 260 ms after it was sent, with a delay of 250 ms
    assert [point.y for point in late.series[0].points] == [100]
    rates = charts["Offered, admitted and held in each second"]
    offered = [series for series in rates.series if (series.door, series.name) == ("proxy", "offered")]
    assert [point.y for point in offered[0].points] == [100] * recorded.LENGTH_S


def test_the_whole_run_has_its_sections(results: Results) -> None:
    assert [section.policy for section in results.sections if section.overall] == [
        "Reasons",
        "Waiting",
        "Delivery",
        "Gate against native",
        "Cost of decisions",
    ]
    delivery = results.tables()["delivery"]
    assert [row[5:] for row in delivery.rows] == [(row[5], row[5], *[0] * 7) for row in delivery.rows]
    assert len(delivery.rows) == 2
    drift = results.tables()["drift"]
    measures = {(row[0], row[4]) for row in drift.rows}
    assert ("max_publish_rate", "excess") in measures
    assert ("max_message_size", "excess") not in measures
    assert {threshold.name: threshold.measured for threshold in results.thresholds} == {
        "off_cells": 0,
        "disputed_cells": 0,
        "unconfirmed_cells": 0,
        "missing_cells": 6,
        "rate_error_percent": pytest.approx(0, abs=1),
        "wrong_decisions_percent": 0,
        "early_messages": 0,
        "lost_messages": 0,
        "duplicated_messages": 0,
        "reordered_messages": 0,
        "altered_messages": 0,
        "told_refused_messages": 0,
    }


def test_results_of_a_run_survive_json(results: Results) -> None:
    assert from_json(to_json(results)) == results


def test_clock_skew_is_shown_and_corrected(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path, gate_ahead_us=90_000_000)
    results = compare_run(spark, tmp_path)
    (skew,) = [each for each in results.run.skews if each.client == "all"]
    assert "messages: decided after they were sent, before they were acknowledged" in skew.basis
    assert skew.gate == "main"
    assert skew.offset_us == pytest.approx(-90_000_000, abs=3_000)
    assert skew.uncertainty_us <= 3_000
    assert any("clock differs from the clients' by 89,998.0 to 90,001.0 ms" in n for n in results.notes)
    assert cell(results, "max_publish_rate", "kafka", "proxy").verdict is Verdict.EXACT


def test_a_damaged_file_is_named_and_left_out(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path)
    damaged = recorded.write_decisions(
        tmp_path / DECISIONS, [recorded.decision(n) for n in range(1_000)], "part-x.parquet"
    )
    content = bytearray(damaged.read_bytes())
    content[4:2_000] = b"\xff" * 1_996  # the end, which tells what is where, stays as it was
    damaged.write_bytes(content)
    results = compare_run(spark, tmp_path)
    assert any("part-x.parquet was left out: it is damaged" in note for note in results.notes)
    assert cell(results, "max_publish_rate", "kafka", "proxy").verdict is Verdict.EXACT


def test_a_run_without_logs_says_so(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path)
    for name in (DECISIONS, OBSERVATIONS):
        for path in (tmp_path / name).rglob("*.parquet"):
            path.unlink()
    results = compare_run(spark, tmp_path)
    assert [note.partition(":")[0] for note in results.notes] == ["decision log", "observations"]
    assert results.verdict is Verdict.MISSING
    assert {c.verdict for c in results.matrix} == {
        Verdict.MISSING,
        Verdict.NOT_PLAYED,
        Verdict.NOT_APPLICABLE,
    }


@pytest.mark.parametrize("content", [None, b"", b"{", b'{"facts": {}}', b"[]"])
def test_a_directory_that_holds_no_run_is_refused(
    spark: SparkSession, tmp_path: Path, content: bytes | None
) -> None:
    if content is not None:
        (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(RunError, match=r"run\.json"):
        compare_run(spark, tmp_path)


@pytest.mark.parametrize(
    ("wrong", "said"),
    [
        ({"limit": 0}, "limit is 0.0, expected a number above 0"),
        ({"limit": -5}, "limit is -5.0, expected"),
        ({"limit": "NaN"}, "limit is nan, expected"),
        ({"burst_seconds": 0}, "burst_seconds is 0.0, expected"),
        ({"end": "2026-11-21T11:00:00Z"}, "is not after start"),
        ({"start": "2026-11-21T12:00:00"}, "need a time zone"),
    ],
)
def test_a_trial_that_cannot_be_judged_is_refused_and_named(
    tmp_path: Path, wrong: dict[str, object], said: str
) -> None:
    recorded.make_run(tmp_path)
    path = tmp_path / "run.json"
    content = json.loads(path.read_text())
    content["trials"][0] |= wrong
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="max_publish_rate of kafka proxy.*" + re.escape(said)):
        read_run(tmp_path)
    content["trials"][0]["missing"] = "never played"
    path.write_text(json.dumps(content))
    assert read_run(tmp_path).trials[0].missing == "never played"


def test_times_of_any_zone_are_read_in_utc(tmp_path: Path) -> None:
    """The page and the conditions of origins write them as UTC."""
    recorded.make_run(tmp_path)
    path = tmp_path / "run.json"
    before, content = read_run(tmp_path), json.loads(path.read_text())
    places = [(content["facts"], "started"), *((each, "start") for each in content["trials"])]
    for place, name in places:
        moment = datetime.fromisoformat(place[name]).astimezone(timezone(timedelta(hours=9)))
        place[name] = moment.isoformat()
    path.write_text(json.dumps(content))
    run = read_run(tmp_path)
    assert run == before
    assert run.facts.started is not None
    assert {run.facts.started.tzinfo, *(each.start.tzinfo for each in run.trials)} == {UTC}
    content["facts"]["started"] = "2026-11-21T12:00:00"
    path.write_text(json.dumps(content))
    with pytest.raises(RunError, match="times of its facts need a time zone"):
        read_run(tmp_path)


def test_a_run_of_a_later_version_is_refused(spark: SparkSession, tmp_path: Path) -> None:
    recorded.make_run(tmp_path)
    path = tmp_path / "run.json"
    path.write_text(path.read_text().replace('"version": 1', '"version": 2'))
    with pytest.raises(RunError, match="has version 2, this release reads up to 1"):
        compare_run(spark, tmp_path)
