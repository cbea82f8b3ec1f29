"""The Spark session of all jobs. It names no master: the caller's environment decides where a job runs.

`SPARK_REMOTE=sc://host:port` sends it over Spark Connect; `spark-submit --master ...`, `MASTER` or
`spark-defaults.conf` name a cluster; where nobody names one, Spark takes all cores of this machine.
"""

import os
import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

from sluicegate_reports.spark.output import quiet

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_BATCH_BYTES = "spark.sql.execution.arrow.maxBytesPerBatch"
SETTINGS: Mapping[str, str] = {
    "spark.sql.session.timeZone": "UTC",
    "spark.ui.showConsoleProgress": "false",
    # Small partitions become one after a shuffle, so many do little harm, and large logs need them.
    "spark.sql.adaptive.enabled": "true",
    # Windows over one key are short: they stay in a plain array up to this length.
    "spark.sql.windowExec.buffer.in.memory.threshold": "65536",
    # Batches for Python are cut by their rows alone: to look at the size after each row takes longer than it.
    # See `large_rows`.
    _BATCH_BYTES: "2147483647",
    # As `python -P`: workers would else import what stands in the directory where the command was started.
    "spark.executorEnv.PYTHONSAFEPATH": "1",
}
"""Set on every session, on a server's too."""
_JAVA = "spark.driver.extraJavaOptions"
_MEMORY = "spark.driver.memory"
_PAGE = "spark.buffer.pageSize"
"""Each sort, aggregation table and broadcast table takes at least one page, mostly empty if it is small. By
default Spark makes pages as large as the heap allows, up to 64 MiB."""
_SOON = "-XX:+UseParallelGC"
"""Favours throughput over short pauses."""
_COMPILED_ONCE = "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=240m"
"""Without the compiler for what runs for long, which takes a third of a short job's time and gains nothing
over 50 M decisions. With one compiler Java keeps 48 MiB for code unless told otherwise; a comparison fills
them, and is interpreted from then on."""
_AT_ONCE = f"{_COMPILED_ONCE} -XX:+UseSerialGC"
"""And with the collector that needs least memory itself."""
_LITTLE: Mapping[str, str] = {_JAVA: f"{_AT_ONCE} -Xms512m -Xmn256m", _MEMORY: "544m", _PAGE: "256k"}
_FRUGAL: Mapping[str, str] = {_JAVA: _AT_ONCE, _MEMORY: "480m", _PAGE: "256k"}
"""Spark refuses to start with less than 450 MiB, and Java counts a part of its heap as none. Its own memory
comes on top, some 200 to 500 MiB. What does not fit into the heap is spilled to disk."""
_ON_EACH_NODE = f"{_COMPILED_ONCE} -XX:+NeverActAsServerClassMachine"
"""With the same collector, unless `extraJavaOptions`, which are left to the user, choose another one: Java
refuses to be given two."""
_ON_A_CLUSTER: Mapping[str, str] = {
    "spark.driver.defaultJavaOptions": _ON_EACH_NODE,
    "spark.executor.defaultJavaOptions": _ON_EACH_NODE,
}
"""Each executor would compile the same code anew, and the driver has none that runs for long. Most work is
Python's."""
_LITTLE_BYTES = 32 << 20
"""Of files, which is some 4 million decisions."""
LAPTOP_SETTINGS: Mapping[str, str] = {
    "spark.ui.enabled": "false",
    _JAVA: _SOON,
    _MEMORY: "4g",
    # A task has at most 8,192 pages; at this size they cover that memory.
    _PAGE: "1m",
}
"""What cannot be changed once Spark runs: only for a session that starts Spark itself, and only where
neither `spark-submit` nor the environment says otherwise."""
_DECIDED_ELSEWHERE = ("SPARK_REMOTE", "PYSPARK_SUBMIT_ARGS", "PYSPARK_GATEWAY_PORT", "SPARK_CONF_DIR")
_PARTITIONS = "spark.sql.shuffle.partitions"
_PARTITION_ROWS = 1_000_000
"""Some 10 MiB of packed rows. A task of fewer takes longer to be sent and begun than to run."""
_WORTH_A_TASK_ROWS, _MOST_SMALL_TASKS = 250_000, 16
"""Smaller partitions than those, so that the cores of a larger machine all have work."""
_FEW_ROWS = 20_000
_LARGE_BATCH_BYTES = 4 << 20
_OF_FEW: Mapping[str, str] = {
    _PARTITIONS: "1",
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
}
"""For few rows, to compile code and to plan anew after each exchange takes longer than the work."""


def spark_session(
    name: str = "sluicegate",
    settings: Mapping[str, str] | None = None,
    *,
    little: bool = False,
    frugal: bool = False,
    options: Sequence[str] = (),
) -> "SparkSession":
    """Start or join the session that the environment names.

    :param name: the application's name, as Spark's own pages show it.
    :param settings: further Spark settings, which win over those of this module.
    :param little: whether there is little to do, see `is_little`.
    :param frugal: whether Java needs little memory, as most rows pass by it.
    :param options: further ones of Java, if it is started here.
    :raises ImportError: without the extra `reports`.
    :raises pyspark.errors.PySparkException: if no session can be started.
    """
    from pyspark.sql import SparkSession

    # Spark would start `python3` of the PATH, which need not be the one that has this package.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = {**start_settings(little=little, frugal=frugal, options=options), **SETTINGS, **(settings or {})}
    builder = SparkSession.builder.appName(name)
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with quiet():
        return builder.getOrCreate()


def start_settings(
    *, little: bool = False, frugal: bool = False, options: Sequence[str] = ()
) -> Mapping[str, str]:
    """How Spark starts; parameters as for `spark_session`.

    :return: nothing where a server, `spark-submit` or its arguments decide that.
    """
    if any(name in os.environ for name in _DECIDED_ELSEWHERE):
        return {}
    if master := os.environ.get("MASTER", ""):
        return {} if master.startswith("local") else _ON_A_CLUSTER
    here = {**LAPTOP_SETTINGS, **(_LITTLE if little else _FRUGAL if frugal else {})}
    return {**here, _JAVA: f"{here[_JAVA]} {shlex.join(options)}"}


def is_placed() -> bool:
    """Whether the environment says where Spark runs."""
    return any(name in os.environ for name in (*_DECIDED_ELSEWHERE, "MASTER"))


def is_little(size: int) -> bool:
    """Whether files of this size are small enough to prefer a quick start of Spark over speed.

    :param size: in bytes.
    """
    return size <= _LITTLE_BYTES


@contextmanager
def partitions_for(spark: "SparkSession", rows: int) -> Iterator[None]:
    """Have shuffles within the block make no more partitions than so many rows need."""
    most = int(spark.conf.get(_PARTITIONS, "200") or "200")
    spread = min(rows // _WORTH_A_TASK_ROWS, _MOST_SMALL_TASKS)
    with _settings(spark, {_PARTITIONS: str(min(most, max(2, spread, rows // _PARTITION_ROWS)))}):
        yield


def is_few(rows: int) -> bool:
    """Whether a query over so many rows had better be one task, and interpreted."""
    return rows <= _FEW_ROWS


@contextmanager
def planned_for(spark: "SparkSession", rows: int) -> Iterator[None]:
    """Have queries within the block planned for so many rows, see `partitions_for` and `is_few`."""
    with partitions_for(spark, rows), _settings(spark, _OF_FEW if is_few(rows) else {}):
        yield


@contextmanager
def large_rows(spark: "SparkSession") -> Iterator[None]:
    """Have queries within the block send rows of megabytes to Python a few at a time.

    Otherwise 10,000 of them are one batch, which Java's memory outside its heap has no room for.
    """
    with _settings(spark, {_BATCH_BYTES: str(_LARGE_BATCH_BYTES)}):
        yield


@contextmanager
def _settings(spark: "SparkSession", settings: Mapping[str, str]) -> Iterator[None]:
    before = {name: spark.conf.get(name) or "" for name in settings}
    for name, value in settings.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, value in before.items():
            spark.conf.set(name, value)
