"""Reads the finished files of a decision log by Arrow alone, day by day in UTC.

Memory holds a piece of a file, however long the log is.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate_reports.model.listing import Listing, is_followed
from sluicegate_reports.model.locations import Location
from sluicegate_reports.spark.log_files import DECISIONS, span, tables, whole


@dataclass(frozen=True, slots=True)
class LogFile:
    """A finished file, with the days of its first and its last row."""

    location: Location
    first: date
    last: date


def files_with_rows(log: Listing) -> list[LogFile]:
    """The finished files that have rows.

    :raises DamagedError: for a file that is damaged, or not of this log's form: to pass over it would leave a
        gap in the sums.
    :raises LocationError: if a store does not give one.
    """
    files = [file for file in log.files if is_followed(file.location, log.name(file.location))]
    return [
        LogFile(file.location, *(time.date() for time in times))
        for file, times in whole(files, log.folder, DECISIONS, span)
        if times is not None
    ]


def days_of(files: Sequence[LogFile]) -> list[date]:
    """The days that files may have rows of, in order."""
    days = {
        file.first + timedelta(days=number)
        for file in files
        for number in range((file.last - file.first).days + 1)
    }
    return sorted(days)


def rows_of_day(
    files: Sequence[LogFile], day: date, columns: Sequence[str], texts: Sequence[str]
) -> Iterator[pa.Table]:
    """These columns of the rows of one day, some at a time; those that an older file lacks are null.

    :param columns: with `time`.
    :param texts: those of them whose values repeat.
    :raises LocationError: if a file is damaged inside, or a store does not give it.
    """
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    of_day = (pc.field("time") >= start) & (pc.field("time") < start + timedelta(days=1))
    for file in files:
        if file.first <= day <= file.last:
            for table in tables(file.location, columns, DECISIONS, texts=texts):
                # All rows of such a file are of its day, and a filter would copy them.
                yield table if file.first == file.last else table.filter(of_day)
