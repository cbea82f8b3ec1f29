"""How queries are planned for the rows that they read."""

import os
import subprocess
import sys
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F  # noqa: N812
from tests.waiting import LONG_S

from sluicegate_reports.spark.session import large_rows, planned_for, start_settings

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
    frame = large.mapInArrow(sizes, "rows long, bytes long")
    assert [row["rows"] for row in frame.collect()] == [64]
    with large_rows(own):
        rows = frame.select("*").collect()
    assert sum(row["rows"] for row in rows) == 64
    assert max(row["bytes"] for row in rows) <= 6 << 20


_SAFE = """
import sys
import pyarrow as pa
from sluicegate_reports.spark.session import spark_session

def flags(batches):
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"safe": [sys.flags.safe_path]})

spark = spark_session(little=True)
print(spark.range(0, 1, 1, 1).mapInArrow(flags, "safe boolean").collect())
"""


@pytest.mark.usefixtures("spark")  # where there is no Java, neither runs
def test_workers_of_python_have_a_safe_path(tmp_path: Path) -> None:
    (tmp_path / "queue.py").write_text("raise SystemExit('this file was executed')\n")
    environ = {name: value for name, value in os.environ.items() if name != "PYTHONSAFEPATH"}
    done = subprocess.run(
        [sys.executable, "-P", "-c", _SAFE],
        cwd=tmp_path,
        env={**environ, "SPARK_LOCAL_IP": "127.0.0.1"},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.stdout == "[Row(safe=True)]\n", done.stderr


_CLUSTER = {"MASTER": "spark://127.0.0.1:7077"}


@pytest.mark.parametrize(
    ("environ", "compiles_little"),
    [
        pytest.param({}, (True, False), id="this machine"),
        pytest.param(_CLUSTER, (True, True), id="a cluster"),
        pytest.param({"MASTER": "local[2]"}, (False, False), id="a master on this machine"),
        pytest.param({**_CLUSTER, "SPARK_REMOTE": "sc://127.0.0.1"}, (False, False), id="Spark Connect"),
        pytest.param({**_CLUSTER, "SPARK_CONF_DIR": "/etc/spark"}, (False, False), id="settings of its own"),
        pytest.param({"PYSPARK_GATEWAY_PORT": "4711"}, (False, False), id="spark-submit"),
    ],
)
def test_java_compiles_little_where_nobody_else_decides_how_it_starts(
    environ: Mapping[str, str], compiles_little: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("MASTER", "PYSPARK_GATEWAY_PORT", "PYSPARK_SUBMIT_ARGS", "SPARK_CONF_DIR", "SPARK_REMOTE"):
        monkeypatch.delenv(name, raising=False)
    for name, value in environ.items():
        monkeypatch.setenv(name, value)
    given = start_settings(frugal=True)
    frame = [
        any("TieredStopAtLevel=1" in value for name, value in given.items() if part in name)
        for part in ("driver", "executor")
    ]
    assert tuple(frame) == compiles_little
