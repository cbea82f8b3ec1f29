"""How queries are planned for the rows that they read."""

from collections.abc import Iterable, Iterator

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.session import large_rows, planned_for

_NAMES = (
    "spark.sql.shuffle.partitions",
    "spark.sql.adaptive.enabled",
    "spark.sql.codegen.wholeStage",
    "spark.sql.codegen.factoryMode",
)


def _settings(spark: SparkSession) -> list[str | None]:
    return [spark.conf.get(name) for name in _NAMES]


@pytest.mark.parametrize(
    ("rows", "planned"),
    [
        (0, ["1", "false", "false", "NO_CODEGEN"]),
        (1_000_000, ["4", "true", "true", "FALLBACK"]),
        (9_000_000, ["16", "true", "true", "FALLBACK"]),
        (37_000_000, ["37", "true", "true", "FALLBACK"]),
        (900_000_000, ["200", "true", "true", "FALLBACK"]),
    ],
)
def test_work_is_planned_by_the_number_of_rows(spark: SparkSession, rows: int, planned: list[str]) -> None:
    compiled = spark.newSession()
    for name, value in zip(_NAMES, ("200", "true", "true", "FALLBACK"), strict=True):
        compiled.conf.set(name, value)
    before = _settings(compiled)
    with planned_for(compiled, rows):
        assert _settings(compiled) == planned
    assert _settings(compiled) == before


def test_large_rows_come_to_python_a_few_at_a_time(spark: SparkSession) -> None:
    def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"rows": [batch.num_rows], "bytes": [batch.nbytes]})

    own = spark.newSession()
    own.conf.set("spark.sql.execution.arrow.maxBytesPerBatch", "2147483647")
    large = own.range(0, 64, 1, 1).select(F.repeat(F.lit("x"), 1 << 20).alias("body"))
    told = large.mapInArrow(sizes, "rows long, bytes long")
    assert [row["rows"] for row in told.collect()] == [64]
    with large_rows(own):
        found = told.select("*").collect()
    assert sum(row["rows"] for row in found) == 64
    assert max(row["bytes"] for row in found) <= 6 << 20
