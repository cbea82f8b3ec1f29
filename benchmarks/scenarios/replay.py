"""What-if over a recorded log: decisions a second that are asked again of the real engine, by 8 topics."""

import time

from benchmarks.harness import synthetic
from benchmarks.harness.arms import Bench
from benchmarks.harness.names import SPARK
from benchmarks.harness.scenario import Scenario

_ROWS, _QUICK_ROWS = 3_000_000, 100_000
_POLICIES = """brokers:
- {name: main, system: kafka, bootstrap: ["127.0.0.1:9092"], listen: {port: 9192}}
policies:
  broker:
    max_message_size: 1MiB
    max_publish_rate: 900/s
    on_limit: {max_publish_rate: reject}
"""
"""Below what was recorded, so that both sides meet: what passes and what is refused."""


def _replay(bench: Bench, _name: str, quick: bool) -> dict[str, float]:
    from sluicegate_reports.jobs.replay import replay
    from sluicegate_reports.replaying.candidate import read_candidate
    from sluicegate_reports.session import spark_session

    rows = _QUICK_ROWS if quick else _ROWS
    log, policies = bench.directory / f"replay-{rows}", bench.directory / "replay.yaml"
    policies.write_text(_POLICIES)
    if not log.exists():
        synthetic.write_decisions(log, rows * len(synthetic.ARMS))
    began = time.perf_counter()
    spark = spark_session("sluicegate replay benchmark")
    try:
        spark.range(1).count()
        started = time.perf_counter()
        # One system's log, so 8 topics: those of the others would only add to it.
        of_kafka = log / f"run={synthetic.RUN}" / "system=kafka"
        found = replay(spark, of_kafka, read_candidate(policies)).frame.collect()
        seconds = time.perf_counter() - started
    finally:
        spark.stop()
    asked = sum(row["operations"] for row in found)
    assert asked == rows, f"{asked} of {rows} decisions were replayed"
    assert sum(row["newly_refused"] for row in found) > rows / 100
    return {"decisions_per_s": asked / seconds, "seconds": seconds, "session_s": started - began}


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
