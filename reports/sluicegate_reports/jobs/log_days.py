"""Reads the finished files of a decision log by Arrow alone, day by day in UTC.

Memory holds a piece of a file, however long the log is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicegate_reports.model.listing import Listing, is_followed
from sluicegate_reports.model.places import Place
from sluicegate_reports.spark.log_files import DECISIONS, DamagedError, LeftOut, inspected, tables


@dataclass(frozen=True, slots=True)
class LogFile:
    """A finished file, with the days of its first and its last row."""

    place: Place
    first: date
    last: date


def files_with_rows(log: Listing) -> list[LogFile]:
    """The finished files that have rows.

    :raises DamagedError: for a file that is damaged, or not of this log's form: to pass over it would leave a
        gap in the sums.
    :raises PlaceError: if a store does not give one.
    """
    files = [file for file in log.files if is_followed(file.place, log.folder)]
    looks = inspected(files, DECISIONS, span)
    # A gateway may have removed one since it was listed, as the oldest of a full log.
    damaged = [look for look in looks if isinstance(look, LeftOut) and look.path.exists()]
    if damaged:
        said = "\n".join(f"{left.path} {left.reason}" for left in damaged)
        raise DamagedError(f"{said}\nmove what cannot be read out of {log.folder}, then call again")
    return [
        LogFile(file.place, *(time.date() for time in look))
        for file, look in zip(files, looks, strict=True)
        if look is not None and not isinstance(look, LeftOut)
    ]


def days_of(files: Sequence[LogFile]) -> list[date]:
    """The days that files may have rows of, in order."""
    found = {
        file.first + timedelta(days=number)
        for file in files
        for number in range((file.last - file.first).days + 1)
    }
    return sorted(found)


def rows_of_day(
    files: Sequence[LogFile], day: date, columns: Sequence[str], texts: Sequence[str]
) -> Iterator[pa.Table]:
    """These columns of the rows of one day, some at a time; those that an older file lacks are null.

    :param columns: with `time`.
    :param texts: those of them whose values repeat.
    :raises PlaceError: if a file is damaged inside, or a store does not give it.
    """
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    of_day = (pc.field("time") >= start) & (pc.field("time") < start + timedelta(days=1))
    for file in files:
        if file.first <= day <= file.last:
            for table in tables(file.place, columns, DECISIONS, texts=texts):
                yield table if file.first == file.last else table.filter(of_day)


def span(file: pq.ParquetFile) -> tuple[datetime, datetime] | None:
    """The times of its first and its last row; None if it has no row."""
    if not file.metadata.num_rows:
        return None
    column = file.schema_arrow.get_field_index("time")
    groups = range(file.metadata.num_row_groups)
    known = [file.metadata.row_group(group).column(column).statistics for group in groups]
    if all(each is not None and each.has_min_max for each in known):
        return min(each.min for each in known), max(each.max for each in known)
    found = pc.min_max(file.read(columns=["time"]).column("time"))
    return found["min"].as_py(), found["max"].as_py()
