"""Reads decision logs and observations, in any state of their directories; gives them to Spark as DataFrames.

The process that starts a job looks at each file's end (a few ms a file) and gives Spark those that are whole
and of a known version; the others are named, never skipped in silence. A path must be the same on this
machine and where Spark runs, and a store must be reached from both. A store that fails ends the job: a file
that cannot be fetched is not taken for a damaged one. A file may be damaged inside and end well: Spark then
fails on it, and `thorough` finds it by reading everything once.
"""

from collections.abc import Container, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial, reduce
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate.decisions.reading import record_batches
from sluicegate_reports.model.listing import Listed
from sluicegate_reports.model.locations import Location
from sluicegate_reports.model.timestamps import in_nanoseconds
from sluicegate_reports.spark.footers import Statistics, of_file, of_table, together
from sluicegate_reports.spark.log_files import (
    DECISIONS,
    OBSERVATIONS,
    DamagedError,
    Form,
    LeftOut,
    read_through,
    tables,
)
from sluicegate_reports.spark.spools import whole_files
from sluicegate_reports.transforms.packing import DAMAGED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

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
class Log:
    """What was read of one directory: of finished files their ends, of spools the rows."""

    form: Form
    whole: Mapping[Location, "_Look"]
    """Finished files."""
    spools: tuple[pa.Table, ...]
    left_out: tuple[LeftOut, ...]
    statistics: Statistics
    """What the files tell of all rows together."""

    @property
    def files(self) -> int:
        """Files that it comes from."""
        return len(self.whole) + len(self.spools)

    @property
    def rows(self) -> int:
        """Rows in the files."""
        return sum(self.statistics.systems.values())

    @property
    def is_here(self) -> bool:
        """Whether this machine alone can read it."""
        return all(location.is_local for location in self.whole)

    @property
    def paths(self) -> tuple[str, ...]:
        """The finished files, if they are on this machine."""
        return tuple(str(location.absolute()) for location in self.whole) if self.is_here else ()

    def tables(self, columns: Sequence[str]) -> Iterator[pa.Table]:
        """These columns of all rows, some at a time.

        :raises DamagedError: if a file is damaged inside.
        """
        for file in self.whole:
            yield from tables(file, columns, self.form)
        yield from (spool.select(list(columns)) for spool in self.spools)

    def frame(self, spark: "SparkSession") -> "DataFrame":
        """All columns of the current version; those that older files lack are null."""
        from pyspark.sql import DataFrame  # what is read without Spark does not wait for it

        alike: dict[frozenset[str], list[str]] = {}
        for file, look in self.whole.items():
            alike.setdefault(look.in_ns, []).append(str(file))
        frames = [_finished(spark, self.form, files, in_ns) for in_ns, files in alike.items()]
        if self.spools:
            frames.append(spark.createDataFrame(pa.concat_tables(self.spools), _ddl(self.form)))
        return reduce(DataFrame.unionByName, frames) if frames else spark.createDataFrame([], _ddl(self.form))


@dataclass(frozen=True, slots=True)
class _Look:
    """What the end of a whole file tells."""

    statistics: Statistics
    in_ns: frozenset[str]
    """Columns that have nanoseconds."""


def is_damage(error: Exception) -> bool:
    """Whether a job failed since a file is damaged: reading again with `thorough` then helps."""
    return isinstance(error, DamagedError) or any(sign in str(error) for sign in _DAMAGED_IN_SPARK)


def _read(form: Form, directory: Listed, *, thorough: bool = False) -> Log:
    """Read a decision log or observations: Parquet files, and spools up to their last whole batch.

    Files that a killed runner left unfinished are left out.

    :param directory: one that is empty or missing has no rows.
    :param thorough: read all of each file beforehand, to leave out those that are damaged inside.
    """
    spools: list[pa.Table] = []

    def read(spool: Path) -> int:
        table = pa.Table.from_batches(record_batches(spool), form.schema)
        if len(table):
            spools.append(table)
        return len(table)

    whole, left_out = whole_files(directory, form, partial(_look, thorough=thorough), read)
    statistics = [look.statistics for look in whole.values()] + [of_table(spool) for spool in spools]
    return Log(form, whole, tuple(spools), tuple(left_out), together(statistics))


read_decisions, read_observations = partial(_read, DECISIONS), partial(_read, OBSERVATIONS)


def _look(file: pq.ParquetFile, *, thorough: bool) -> _Look:
    if thorough:
        read_through(file)
    return _Look(of_file(file), in_nanoseconds(file.schema_arrow))


def _finished(spark: "SparkSession", form: Form, files: list[str], in_ns: frozenset[str]) -> "DataFrame":
    """The rows of Parquet files.

    :param in_ns: columns of all of them that have nanoseconds, which Spark reads as numbers only.
    """
    from pyspark.sql import functions as F  # noqa: N812

    frame = spark.read.schema(_ddl(form, in_ns)).parquet(*files)
    # `div` leaves integers: through floating point the last digits would be lost.
    times = {name: F.timestamp_micros(F.expr(f"`{name}` div 1000")) for name in in_ns}
    return frame.withColumns(times) if times else frame


def _ddl(form: Form, in_ns: Container[str] = ()) -> str:
    types = ((each.name, "bigint" if each.name in in_ns else _TYPES[each.type]) for each in form.columns)
    return ", ".join(f"`{name}` {kind}" for name, kind in types)
