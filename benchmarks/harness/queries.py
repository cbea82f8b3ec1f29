"""Five queries over a decision log, by one engine, in a process of its own: prints `query_s=SECONDS` each.

`python -m benchmarks.harness.queries ENGINE DIRECTORY LENGTH_S`. Per-second windows, overshoot against an
ideal bucket, percentiles of the cost of decisions, Jain's index, time to engage. Each engine asks them in its
own words. Spark computes all of them, and the other figures of rates, in one go.
Exit code 3: the engine is not there.
"""

import importlib.util
import sys
import time
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

from benchmarks.harness import synthetic

_SHARES = (0.5, 0.9, 0.99, 0.999)
_START_US = int(synthetic.START.timestamp()) * 1_000_000
"""The origin of time in `x`. Any would do; a near one loses no digits."""


def _duckdb(directory: Path, _: float) -> Iterator[tuple[str, Callable[[], object]]]:
    import duckdb

    log = f"read_parquet('{directory}/**/*.parquet')"
    ordered = "(partition by system, door, topic order by time rows unbounded preceding)"
    queries = {
        "windows": f"""
            select system, door, topic, date_trunc('second', time) as second,
              sum(messages) filter (action = 'allow'), sum(messages), count(*) filter (action <> 'allow')
            from {log} group by all""",
        "overshoot": f"""
            with x as (select system, door, topic, time, messages, sum(messages) over w
                - {synthetic.RATE} * (epoch_us(time) - {_START_US}) / 1e6 as x
              from {log} where action = 'allow' window w as {ordered}),
            y as (select system, door, topic, x - min(x - messages) over w as rise
              from x window w as {ordered})
            select system, door, topic, max(rise) - {synthetic.RATE} from y group by all""",
        "percentiles": f"""
            select system, door, approx_quantile(decision_cost, [0.5, 0.9, 0.99, 0.999])
            from {log} group by all""",
        "jain": f"""
            select system, door, topic, sum(a) * sum(a) / (count(*) * sum(a * a))
            from (select system, door, topic, client, sum(messages)::double as a
              from {log} where action = 'allow' group by all) group by all""",
        "engage": f"""
            select system, door, topic, min(time) filter (action <> 'allow') - min(time)
            from {log} group by all""",
    }
    connection = duckdb.connect()
    for name, query in queries.items():
        yield name, connection.sql(query).fetchall


def _polars(directory: Path, _: float) -> Iterator[tuple[str, Callable[[], object]]]:
    import polars as pl

    log = pl.scan_parquet(f"{directory}/**/*.parquet", hive_partitioning=False)
    topic = ["system", "door", "topic"]
    allowed = pl.col("action") == "allow"
    seconds = (pl.col("time").dt.epoch("us") - _START_US) / 1e6
    x = pl.col("messages").cum_sum().over(topic) - synthetic.RATE * seconds
    low = (pl.col("x") - pl.col("messages")).cum_min().over(topic)
    shares = [pl.col("decision_cost").quantile(share).alias(str(share)) for share in _SHARES]
    got = pl.col("messages").sum().cast(pl.Float64).alias("a")
    frames = {
        "windows": log.group_by(*topic, pl.col("time").dt.truncate("1s")).agg(
            pl.col("messages").filter(allowed).sum(), pl.col("messages").sum().alias("all"), (~allowed).sum()
        ),
        "overshoot": log.filter(allowed)
        .select(*topic, "time", "messages")
        .sort("time")
        .with_columns(x=x)
        .with_columns(rise=pl.col("x") - low)
        .group_by(topic)
        .agg(pl.col("rise").max() - synthetic.RATE),
        "percentiles": log.group_by("system", "door").agg(shares),
        "jain": log.filter(allowed)
        .group_by(*topic, "client")
        .agg(got)
        .group_by(topic)
        .agg(pl.col("a").sum().pow(2) / (pl.len() * (pl.col("a") * pl.col("a")).sum())),
        "engage": log.group_by(topic).agg(pl.col("time").filter(~allowed).min() - pl.col("time").min()),
    }
    for name, frame in frames.items():
        yield name, frame.collect


def _spark(directory: Path, length_s: float) -> Iterator[tuple[str, Callable[[], object]]]:
    from sluicegate_reports.jobs import rate_figures
    from sluicegate_reports.model.runs import Trial
    from sluicegate_reports.spark.reading import read_decisions
    from sluicegate_reports.spark.session import partitions_for, spark_session
    from sluicegate_reports.spark.tasks import packed_in_tasks
    from sluicegate_reports.transforms import cost
    from sluicegate_reports.transforms.packing import Source
    from sluicegate_reports.transforms.parts import Figures, OfArm, OfTopic

    spark = None

    def session() -> None:
        nonlocal spark
        spark = spark_session("benchmark", {"spark.ui.showConsoleProgress": "false"})

    yield "session", session
    assert spark is not None
    end = synthetic.START + timedelta(seconds=length_s)
    trials = [
        Trial("max_publish_rate", system, door, "load", name, synthetic.RATE, synthetic.START, end)
        for system, door in synthetic.ARMS
        for name in (synthetic.topic_name(system, number) for number in range(synthetic.TOPICS))
    ]
    made: dict[str, Any] = {}

    def base() -> None:
        log = read_decisions(directory)
        with partitions_for(spark, log.rows):
            made["packed"] = packed_in_tasks(spark, {"decisions": Source(log.paths)})

    yield "base", base  # what all figures are made of
    costs = OfArm("costs", cost.costs, cost.costs_together)
    rates = rate_figures.rates(trials, {})
    figures = Figures([OfTopic("rates", rates.of_slice, rates.together)], [costs])
    yield "figures", lambda: made["packed"].measured(figures)
    spark.stop()


_ENGINES = {"spark": ("pyspark", _spark), "duckdb": ("duckdb", _duckdb), "polars": ("polars", _polars)}


def main(arguments: list[str]) -> int:
    """Run the queries of one engine.

    :param arguments: engine, directory of the log, its length in s.
    :return: exit code.
    """
    engine, directory, length_s = arguments
    module, queries = _ENGINES[engine]
    if importlib.util.find_spec(module) is None:
        print(f"{module} is not installed: pip install {module}")
        return 3
    total = 0.0
    for name, run in queries(Path(directory), float(length_s)):
        started = time.monotonic()
        run()
        seconds = time.monotonic() - started
        print(f"{name}_s={seconds:.3f}")
        total += seconds if name != "session" else 0.0
    print(f"total_s={total:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
