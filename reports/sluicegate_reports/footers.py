"""Statistics from the footers of Parquet files: how many rows there are of each system, and when.

Footers hold the least and the greatest value of each column of each row group. Where a file lacks them, the
column is read.
"""

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

_SYSTEM, _TIME = "system", "time"


@dataclass(frozen=True, slots=True)
class Told:
    """Statistics of the rows of some files."""

    systems: Mapping[str, int]
    """Number of rows by system."""
    first_us: int | None = None
    """Their least time, in us since 1970; None without a row."""
    last_us: int | None = None


def of_file(file: pq.ParquetFile) -> Told:
    """Statistics of one file, whose times are in us."""
    leaves = file.metadata.schema
    place = {leaves.column(number).path: number for number in range(len(leaves))}
    groups = range(file.metadata.num_row_groups)
    return together(_of_group(file, number, place[_SYSTEM], place[_TIME]) for number in groups)


def of_table(table: pa.Table) -> Told:
    """Statistics of rows in memory."""
    counted = pc.value_counts(table.column(_SYSTEM))
    span = pc.min_max(table.column(_TIME).cast(pa.int64()))
    systems = {str(each["values"]): each["counts"].as_py() for each in counted}
    return Told(systems, span["min"].as_py(), span["max"].as_py())


def together(several: Iterable[Told]) -> Told:
    """Merge statistics."""
    systems: Counter[str] = Counter()
    times: list[int] = []
    for each in several:
        systems.update(each.systems)
        times += [time for time in (each.first_us, each.last_us) if time is not None]
    return Told(systems, min(times, default=None), max(times, default=None))


def _of_group(file: pq.ParquetFile, number: int, of_system: int, of_time: int) -> Told:
    group = file.metadata.row_group(number)
    system, time = group.column(of_system).statistics, group.column(of_time).statistics
    known = all(each is not None and each.has_min_max for each in (system, time))
    # Writers may truncate long texts; then the two bounds differ.
    if known and system.min == system.max:
        return Told({system.min: group.num_rows}, time.min_raw, time.max_raw)
    return of_table(file.read_row_group(number, columns=[_SYSTEM, _TIME]))
