"""What-if over a recorded log: decisions a second that are asked again of the real engine, by 8 topics."""

import time
from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.harness import synthetic
from benchmarks.harness.arms import Bench
from benchmarks.harness.names import SPARK
from benchmarks.harness.scenario import Scenario

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_ROWS, _QUICK_ROWS = 3_000_000, 100_000
_POLICIES = """brokers:
- {name: main, system: kafka, bootstrap: ["127.0.0.1:9092"], listen: {port: 9192}}
policies:
  broker:
    max_message_size: 1MiB
    max_publish_rate: %d/s
    on_limit: {max_publish_rate: reject}
"""
_ROOMY, _TIGHT = 1_490, 900
"""Limits below the 1,500 a second that were asked for: one refuses few, the other 38 %. A refusal costs the
engine some six times what an allow does."""


def _replay(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    from sluicegate_reports.spark.session import spark_session

    rows = _QUICK_ROWS if quick else _ROWS
    log = bench.directory / f"replay-{rows}"
    if not log.exists():
        synthetic.write_decisions(log, rows * len(synthetic.ARMS))
    began = time.perf_counter()
    spark = spark_session("sluicegate replay benchmark")
    try:
        spark.range(1).count()
        session_s = time.perf_counter() - began
        # One system's log, so 8 topics: those of the others would only add to it.
        of_kafka = log / f"run={synthetic.RUN}" / "system=kafka"
        # The first time Java compiles what it runs, and Python's processes load the plugins.
        cold, few, many = (
            _seconds(spark, of_kafka, bench.directory / f"replay-{limit}.yaml", limit, rows)
            for limit in (_ROOMY, _ROOMY, _TIGHT)
        )
    finally:
        spark.stop()
    return {
        "decisions_per_s": rows / few,
        "first_time_per_s": rows / cold,
        "with_38_percent_refused_per_s": rows / many,
        "session_s": session_s,
    }


def _seconds(spark: "SparkSession", log: Path, file: Path, limit: int, rows: int) -> float:
    from sluicegate_reports.jobs.replay import replay
    from sluicegate_reports.replaying.candidate import read_candidate

    file.write_text(_POLICIES % limit)
    started = time.perf_counter()
    outcomes = replay(spark, log, read_candidate(file)).frame.collect()
    seconds = time.perf_counter() - started
    asked, refused = (sum(row[name] for row in outcomes) for name in ("operations", "refused"))
    if asked != rows or not refused:
        raise RuntimeError(f"{asked:,} of {rows:,} decisions were replayed, {refused:,} refused")
    return seconds


SCENARIOS = (
    Scenario(
        "replay",
        "what-if over 3 M recorded decisions of 8 topics, by the real engine in Spark",
        (SPARK,),
        _replay,
        rounds=3,
        cold_round=False,
    ),
)
