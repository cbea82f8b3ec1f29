"""Reads decision logs and observations into DataFrames, in any state of their directories.

The process that starts a job looks at each file's end (a few ms a file) and gives Spark those that are whole
and of a known version; the others are named, never skipped in silence. A path must be the same on this
machine and where Spark runs, and a store must be reached from both. A store that fails ends the job: a file
that cannot be fetched is not taken for a damaged one. A file may be damaged inside and end well: Spark then
fails on it, and `thorough` finds it by reading everything once.
"""

from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import pyarrow as pa
import pyarrow.parquet as pq
from pyspark.sql import DataFrame, SparkSession

from sluicegate.decisions import columns as decision_columns
from sluicegate.decisions import schema as decision_schema
from sluicegate.decisions.columns import Column, missing_columns
from sluicegate.decisions.compaction import IN_PROGRESS_SUFFIX
from sluicegate.decisions.reading import record_batches
from sluicegate.decisions.spool import DecisionLogError, parquet_path
from sluicegate_reports.model import observations
from sluicegate_reports.model.listing import Listed, is_finished, is_spool, listing
from sluicegate_reports.model.places import File, Place, PlaceError, told
from sluicegate_reports.spark.footers import Told, of_file, of_table, together
from sluicegate_reports.transforms.packing import DAMAGED

_LOOKS_AT_ONCE = 16
"""Each is a question or two to a store, which is mostly waiting."""
_DAMAGED_IN_SPARK = ("FAILED_READ_FILE", "CANNOT_READ_FILE", "org.apache.parquet", DAMAGED)
_TYPES = {
    "timestamp[us, tz=UTC]": "timestamp",
    "string": "string",
    "double": "double",
    "int64": "bigint",
    "int32": "int",
    "bool": "boolean",
    "list<item: struct<policy: string, level: string, reason: string, current: double, limit: double>>": (
        "array<struct<policy: string, level: string, reason: string, current: double, limit: double>>"
    ),
}


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that was not read."""

    path: Place
    reason: str


@dataclass(frozen=True, slots=True)
class Log:
    """What was read of one directory."""

    frame: DataFrame
    """All columns of the current version; those that older files lack are null."""
    files: int
    """Files that it comes from."""
    left_out: tuple[LeftOut, ...]
    told: Told
    """What the files tell of all rows together."""
    paths: tuple[str, ...] = ()
    """The files, if all of them are finished and on this machine."""

    @property
    def rows(self) -> int:
        """Rows in the files."""
        return sum(self.told.systems.values())


@dataclass(frozen=True, slots=True)
class _Form:
    """Properties of one kind of file."""

    what: str
    columns: Sequence[Column]
    version_key: bytes
    version: int
    schema: pa.Schema

    @property
    def ddl(self) -> str:
        return ", ".join(f"`{column.name}` {_TYPES[column.type]}" for column in self.columns)


_DECISIONS = _Form(
    "decision log",
    decision_columns.COLUMNS,
    decision_schema.VERSION_KEY,
    decision_columns.VERSION,
    decision_schema.SCHEMA,
)
_OBSERVATIONS = _Form(
    "file of observations",
    observations.COLUMNS,
    observations.VERSION_KEY,
    observations.VERSION,
    observations.SCHEMA,
)


def read_decisions(spark: SparkSession, directory: Listed, *, thorough: bool = False) -> Log:
    """Read a decision log: its Parquet files, and what is not Parquet yet up to its last whole batch.

    :param directory: the log's; one that is empty or missing has no rows.
    :param thorough: read all of each file beforehand, to leave out those that are damaged inside.
    """
    return _read(spark, directory, _DECISIONS, thorough=thorough)


def read_observations(spark: SparkSession, directory: Listed, *, thorough: bool = False) -> Log:
    """Read observations; files that a killed runner left unfinished are reported as left out.

    :param directory: the run's `observations`; one that is empty or missing has no rows.
    :param thorough: read all of each file beforehand, to leave out those that are damaged inside.
    """
    return _read(spark, directory, _OBSERVATIONS, thorough=thorough)


def decisions_ddl() -> str:
    """The decision log's columns, as Spark writes a schema."""
    return _DECISIONS.ddl


def decisions_problem(file: pq.ParquetFile) -> str:
    """Why a Parquet file is no decision log that this release reads; empty if it is one."""
    return _version_problem(file.schema_arrow, _DECISIONS)


def is_damage(error: Exception) -> bool:
    """Whether Spark failed since a file is damaged: reading again with `thorough` then helps."""
    return any(sign in str(error) for sign in _DAMAGED_IN_SPARK)


def _read(spark: SparkSession, directory: Listed, form: _Form, *, thorough: bool) -> Log:
    spools: list[pa.Table] = []
    left_out: list[LeftOut] = []
    files = listing(directory).files
    finished = [file for file in files if not is_spool(file.place)]
    for file in files:
        if not is_spool(file.place):
            continue
        # One that has become Parquet since it was listed is read as that, once.
        taken = _became(file.place) is None and _take_spool(file, form, spools, left_out)
        became = None if taken else _became(file.place)
        if became is not None and became not in {other.place for other in finished}:
            finished.append(File(became, became.path.stat().st_size))
    with ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool:
        looks = list(pool.map(partial(_looked_at, form=form, thorough=thorough), finished))
    left_out += [
        LeftOut(file.place, look) for file, look in zip(finished, looks, strict=True) if isinstance(look, str)
    ]
    whole = [file.place for file, look in zip(finished, looks, strict=True) if isinstance(look, Told)]
    told_of = [look for look in looks if isinstance(look, Told)] + [of_table(spool) for spool in spools]
    here = all(place.is_local for place in whole) and not spools
    return Log(
        _frame(spark, form, whole, spools),
        len(whole) + len(spools),
        tuple(left_out),
        together(told_of),
        tuple(str(place.absolute()) for place in whole) if here else (),
    )


def _became(spool: Place) -> Place | None:
    """The finished file that a spool of this machine has become."""
    if not spool.is_local or not parquet_path(spool.path).exists():
        return None
    return Place(str(parquet_path(spool.path)))


def _take_spool(file: File, form: _Form, spools: list[pa.Table], left_out: list[LeftOut]) -> bool:
    """Read a spool, or record why not; False if it no longer exists."""
    if not file.place.is_local:
        left_out.append(LeftOut(file.place, "is a spool: it is read only on the machine that wrote it"))
        return True
    path = file.place.path
    if form is not _DECISIONS:
        return True
    try:
        table = pa.Table.from_batches(record_batches(path), form.schema)
    except FileNotFoundError:
        return False
    except DecisionLogError as error:
        left_out.append(LeftOut(file.place, str(error)))
        return True
    except OSError as error:
        left_out.append(LeftOut(file.place, f"cannot be read: {told(error)}"))
        return True
    if len(table):
        spools.append(table)
    elif path.stat().st_size:
        left_out.append(LeftOut(file.place, "holds no whole batch of rows yet, or no more"))
    return True


def _looked_at(file: File, form: _Form, *, thorough: bool) -> str | Told:
    """Why a file is left out, or the statistics of its rows.

    :raises PlaceError: if a store does not give it.
    """
    name = file.place.name
    if name.endswith(IN_PROGRESS_SUFFIX):
        return "was not finished: its writer stopped first"
    if not is_finished(file.place):
        return f"is no {form.what}: its name is not part-*.parquet"
    if not file.size:
        return "is empty"
    try:
        # A file of this machine is mapped; a store is asked for the parts that are wanted.
        with pq.ParquetFile(file.place.path if file.place.is_local else file.place.open()) as opened:
            return _judged(opened, form, thorough=thorough)
    except (pa.ArrowException, OSError) as error:
        return _damage(file.place, error, form, thorough=thorough)


def _judged(file: pq.ParquetFile, form: _Form, *, thorough: bool) -> str | Told:
    reason = _version_problem(file.schema_arrow, form)
    if not reason and thorough:
        _read_through(file)
    return reason or of_file(file)


def _damage(path: Place, error: Exception, form: _Form, *, thorough: bool) -> str | Told:
    """What is wrong with an unreadable file; in a store, judged by its bytes alone."""
    if not path.is_local:
        try:
            content = path.read_bytes()
        except OSError as refused:
            raise PlaceError(f"cannot read {path}: {told(refused)}") from None
        try:
            with pq.ParquetFile(pa.BufferReader(content)) as file:
                return _judged(file, form, thorough=thorough)
        except (pa.ArrowException, OSError) as damage:
            error = damage
    return f"is damaged or cut short: {told(error)}"


def _read_through(file: pq.ParquetFile) -> None:
    for _ in file.iter_batches():
        pass


def _version_problem(schema: pa.Schema, form: _Form) -> str:
    metadata = schema.metadata or {}
    text = metadata.get(form.version_key, b"0")
    version = int(text) if text.isdigit() else 0
    if version == 0:
        return f"is no {form.what}: its schema metadata lacks {form.version_key.decode()!r}"
    if version > form.version:
        return (
            f"has schema version {version}, this release reads up to {form.version}: "
            "read it with the release that wrote it, or a later one"
        )
    names = set(schema.names)
    wrong = [f.name for f in form.schema if f.name in names and schema.field(f.name).type != f.type]
    if wrong:
        return f"has columns of other types: {', '.join(wrong)}"
    lacks = missing_columns(form.columns, names, version)
    return f"lacks columns of its schema version {version}: {', '.join(lacks)}" if lacks else ""


def _frame(spark: SparkSession, form: _Form, whole: list[Place], spools: list[pa.Table]) -> DataFrame:
    empty: Callable[[], DataFrame] = lambda: spark.createDataFrame([], form.ddl)  # noqa: E731
    frame = spark.read.schema(form.ddl).parquet(*map(str, whole)) if whole else empty()
    if spools:
        table = pa.concat_tables(spools)
        unfinished = spark.createDataFrame(table, form.ddl)
        frame = frame.unionByName(unfinished)
    return frame
