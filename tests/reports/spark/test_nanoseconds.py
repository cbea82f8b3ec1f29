"""Files whose times are in nanoseconds, as pandas writes them, give the results of those in microseconds."""

import shutil
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from tests.reports import recorded

from sluicegate_reports.jobs.compare import compare_run
from sluicegate_reports.jobs.follow import follow
from sluicegate_reports.model.runs import DECISIONS, OBSERVATIONS
from sluicegate_reports.spark.compaction import compact
from sluicegate_reports.spark.reading import read_decisions, read_observations

_NS = pa.timestamp("ns", tz="UTC")


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path]:
    """A run, and the same with every second file in nanoseconds."""
    run, other = tmp_path_factory.mktemp("run"), tmp_path_factory.mktemp("other") / "run"
    recorded.make_run(run)
    recorded.write_decisions(
        run / DECISIONS, [recorded.decision(n, topic="x") for n in range(3)], "part-2.parquet"
    )
    shutil.copytree(run, other)
    for log in (DECISIONS, OBSERVATIONS):
        for file in sorted((other / log).rglob("part-*.parquet"))[::2]:
            in_nanoseconds(file)
    return run, other


def in_nanoseconds(file: Path) -> None:
    """Write a file's times anew, each within the same microsecond."""
    table = pq.ParquetFile(file).read()
    for number, field in enumerate(table.schema):
        if pa.types.is_timestamp(field.type):
            later = pc.add(table[field.name].cast(_NS).cast(pa.int64()), 999).cast(_NS)
            table = table.set_column(number, field.with_type(_NS), later)
    pq.write_table(table, file)
    assert pq.ParquetFile(file).schema_arrow.field("time").type == _NS


def rows(frame: DataFrame) -> list[tuple[Any, ...]]:
    return sorted((tuple(row) for row in frame.collect()), key=str)


@pytest.mark.parametrize(("read", "log"), [(read_decisions, DECISIONS), (read_observations, OBSERVATIONS)])
def test_logs_are_read_alike(spark: SparkSession, runs: tuple[Path, Path], read: Any, log: str) -> None:
    expected, actual = (read(run / log) for run in runs)
    assert (actual.left_out, actual.statistics, actual.files) == ((), expected.statistics, expected.files)
    assert actual.frame(spark).schema == expected.frame(spark).schema
    assert rows(actual.frame(spark)) == rows(expected.frame(spark))


def test_a_comparison_finds_the_same(spark: SparkSession, runs: tuple[Path, Path]) -> None:
    run, other = runs
    assert compare_run(spark, other) == compare_run(spark, run)


def test_a_log_is_followed_and_compacted_alike(runs: tuple[Path, Path], tmp_path: Path) -> None:
    sums, copies = [], []
    for number, run in enumerate(runs):
        order = [(name, "ascending") for name in ("topic", "action", "policy")]
        sums.append(follow(run / DECISIONS, tmp_path / f"state-{number}").totals.sort_by(order))
        done = compact(run / DECISIONS, tmp_path / f"copy-{number}")
        assert not done.left_out
        copies.append([pq.ParquetFile(file.url).read() for file in done.written])
    assert sums[0].equals(sums[1])
    assert copies[0] == copies[1]
