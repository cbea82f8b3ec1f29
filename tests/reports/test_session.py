"""How queries are planned for the rows that they read."""

import pytest
from pyspark.sql import SparkSession

from sluicegate_reports.session import planned_for

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
    ],
)
def test_few_rows_are_interpreted_in_one_task(spark: SparkSession, rows: int, planned: list[str]) -> None:
    compiled = spark.newSession()
    for name, value in zip(_NAMES, ("200", "true", "true", "FALLBACK"), strict=True):
        compiled.conf.set(name, value)
    before = _settings(compiled)
    with planned_for(compiled, rows):
        assert _settings(compiled) == planned
    assert _settings(compiled) == before
