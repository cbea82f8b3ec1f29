"""Compacts a decision log by day: copies its finished files into few large ones, in `date=YYYY-MM-DD`.

The metadata of each written file names the files that its rows come from. A file counts as copied, for a day,
once a complete file names it. So an interrupted call can be repeated: no row is lost or copied twice.
"""

import hashlib
import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicegate.decisions.compaction import parquet_writer
from sluicegate.decisions.schema import SCHEMA
from sluicegate.host.private_files import make_folder
from sluicegate_reports.model.listing import is_finished, listing
from sluicegate_reports.model.locations import Location, LocationError, LocationLike, locate, one_line
from sluicegate_reports.spark.log_files import DECISIONS, LeftOut, inspected, opened, span, tables

FILE_ROWS = 4_000_000
"""A written file ends with the source that brings it to this many rows."""
FROM_KEY = b"sluicegate.decisions.compacted_from"
"""Metadata key with the names of the source files, in JSON."""
_DATE = "date="


@dataclass(frozen=True, slots=True, order=True)
class _Source:
    """A finished file, or its rows of a day."""

    first: datetime
    last: datetime
    file: Location
    rows: int


@dataclass(slots=True)
class Compacted:
    """The result of a call."""

    sources: set[Location] = field(default_factory=set)
    rows: int = 0
    written: list[Location] = field(default_factory=list)
    left_out: list[LeftOut] = field(default_factory=list)


def compact(
    log: LocationLike, target: LocationLike, before: date | None = None, *, file_rows: int = FILE_ROWS
) -> Compacted:
    """Copy what is not copied yet of a log into few files for each run, system and day.

    :param log: the decision log's directory; it stays as it is.
    :param target: where the copy is; made if it does not exist. One call at a time.
    :param before: days up to this one are copied, without it; in UTC, today if it is left out.
    :raises LocationError: if a store fails.
    :raises OSError: if something cannot be written.
    """
    source, copy = locate(log).absolute(), locate(target).absolute()
    before = before or datetime.now(UTC).date()
    done, taken = Compacted(), _taken(copy)
    days: dict[tuple[str, date], list[_Source]] = {}
    for each in _sources(source, done.left_out):
        folder = each.file.parent.relative_to(source).partition(f"/{_DATE}")[0]
        for day in _days(each, before):
            if (folder, day, each.file.name) not in taken:
                days.setdefault((folder, day), []).append(each)
    for (folder, day), sources in sorted(days.items()):
        for together in _cut(sorted(sources), file_rows):
            _write(copy / folder / f"{_DATE}{day}", day, together, done)
    return done


def _sources(log: Location, left_out: list[LeftOut]) -> Iterator[_Source]:
    files = [file for file in listing(log).files if is_finished(file.location)]
    for file, look in zip(files, inspected(files, DECISIONS, _look), strict=True):
        if isinstance(look, LeftOut):
            left_out.append(look)
        elif look is not None:
            yield _Source(look[0], look[1], file.location, look[2])


def _look(file: pq.ParquetFile) -> tuple[datetime, datetime, int] | None:
    """When its first and its last row were, and the number of rows; None if it has no row."""
    times = span(file)
    return None if times is None else (*times, file.metadata.num_rows)


def _days(source: _Source, before: date) -> Iterator[date]:
    day = source.first.astimezone(UTC).date()
    while day <= source.last.astimezone(UTC).date() and day < before:
        yield day
        day += timedelta(days=1)


def _taken(copy: Location) -> set[tuple[str, date, str]]:
    """Folder of run and system, day, and name of all files that a whole file was made of."""
    taken: set[tuple[str, date, str]] = set()
    for file in (file.location for file in listing(copy).files):
        if not is_finished(file) or not file.parent.name.startswith(_DATE):
            continue
        try:
            with opened(file) as copied:
                names = json.loads((copied.metadata.metadata or {}).get(FROM_KEY, b"[]"))
        except (pa.ArrowException, OSError) as error:
            # Without it rows would be copied again.
            raise LocationError(f"cannot read {file}: {one_line(error)}") from None
        day = date.fromisoformat(file.parent.name.removeprefix(_DATE))
        folder = file.parent.parent.relative_to(copy)
        taken.update((folder, day, name) for name in names)
    return taken


def _cut(sources: Iterable[_Source], file_rows: int) -> Iterator[list[_Source]]:
    """Several of them for each file: a source is never in two."""
    together: list[_Source] = []
    for source in sources:
        together.append(source)
        if sum(each.rows for each in together) >= file_rows:
            yield together
            together = []
    if together:
        yield together


def _write(folder: Location, day: date, sources: Sequence[_Source], done: Compacted) -> None:
    names = [source.file.name for source in sources]
    # The same sources always give the same name, so that a repeated call overwrites an interrupted one.
    digest = hashlib.sha256("\n".join(names).encode()).hexdigest()[:16]
    target = folder / f"part-{digest}.parquet"
    if folder.is_local:
        make_folder(folder.path)
    rows = 0
    with (
        target.written(private=True) as file,
        parquet_writer(file, further={FROM_KEY: json.dumps(names).encode()}) as writer,
    ):
        for source in sources:
            for table in _rows_of(source, day):
                writer.write_table(table)
                rows += len(table)
    done.sources.update(source.file for source in sources)
    done.rows += rows
    done.written.append(target)


def _rows_of(source: _Source, day: date) -> Iterator[pa.Table]:
    """Its rows of a day, with all columns of the current schema."""
    start = datetime(day.year, day.month, day.day, tzinfo=UTC)
    time = pc.field("time")
    for batch in tables(source.file, SCHEMA.names, DECISIONS):
        table = pa.Table.from_arrays(batch.columns, schema=SCHEMA)
        yield table.filter((time >= start) & (time < start + timedelta(days=1)))
