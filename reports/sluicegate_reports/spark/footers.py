"""Statistics from the footers of Parquet files: how many rows there are of each run and system, and when.

Footers hold the least and the greatest value of each column of each row group. Where a file lacks them, the
column is read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicegate_reports.model.timestamps import in_nanoseconds

_US = pa.timestamp("us", tz="UTC")
_RUN, _SYSTEM, _TIME = "run", "system", "time"


@dataclass(frozen=True, slots=True)
class Statistics:
    """Statistics of the rows of some files."""

    systems: Mapping[str, int]
    """Number of rows by system."""
    runs: Mapping[str, int]
    """Number of rows by run."""
    first_us: int | None = None
    """Their least time, in us since 1970; None without a row."""
    last_us: int | None = None


def of_file(file: pq.ParquetFile) -> Statistics:
    """Statistics of one file."""
    leaves = file.metadata.schema
    number_of = {leaves.column(number).path: number for number in range(len(leaves))}
    groups = range(file.metadata.num_row_groups)
    columns = [number_of[name] for name in (_RUN, _SYSTEM, _TIME)]
    return together(_of_group(file, number, columns) for number in groups)


def of_table(table: pa.Table) -> Statistics:
    """Statistics of rows in memory."""
    span = pc.min_max(table.column(_TIME).cast(_US, safe=False).cast(pa.int64()))
    return Statistics(
        _counted(table.column(_SYSTEM)),
        _counted(table.column(_RUN)),
        span["min"].as_py(),
        span["max"].as_py(),
    )


def _counted(column: pa.ChunkedArray) -> dict[str, int]:
    return {str(each["values"]): each["counts"].as_py() for each in pc.value_counts(column)}


def together(several: Iterable[Statistics]) -> Statistics:
    """Merge statistics."""
    systems: Counter[str] = Counter()
    runs: Counter[str] = Counter()
    times: list[int] = []
    for each in several:
        systems.update(each.systems)
        runs.update(each.runs)
        times += [time for time in (each.first_us, each.last_us) if time is not None]
    return Statistics(systems, runs, min(times, default=None), max(times, default=None))


def _of_group(file: pq.ParquetFile, number: int, columns: Sequence[int]) -> Statistics:
    """Statistics of one row group.

    :param columns: numbers of the columns of runs, systems and times.
    """
    group = file.metadata.row_group(number)
    run, system, time = (group.column(column).statistics for column in columns)
    known = all(each is not None and each.has_min_max for each in (run, system, time))
    # Writers may truncate long texts; then the two bounds differ.
    if known and (run.min, system.min) == (run.max, system.max):
        rows = group.num_rows
        per_us = 1_000 if _TIME in in_nanoseconds(file.schema_arrow) else 1
        return Statistics({system.min: rows}, {run.min: rows}, time.min_raw // per_us, time.max_raw // per_us)
    return of_table(file.read_row_group(number, columns=[_RUN, _SYSTEM, _TIME]))
