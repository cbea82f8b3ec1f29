"""Reads files of decision logs and of observations by Arrow alone, and tells why some cannot be read.

A store that fails ends the call: a file that cannot be fetched is not taken for a damaged one.
"""

from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime
from functools import partial
from typing import TypeVar

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicegate.decisions import columns as decision_columns
from sluicegate.decisions import schema as decision_schema
from sluicegate.decisions.columns import Column, missing_columns
from sluicegate.decisions.compaction import IN_PROGRESS_SUFFIX
from sluicegate_reports.model import observations
from sluicegate_reports.model.listing import is_finished
from sluicegate_reports.model.locations import File, Location, LocationError, one_line
from sluicegate_reports.model.timestamps import in_microseconds, is_readable

_LOOKS_AT_ONCE = 16
"""Each is a question or two to a store, which is mostly waiting."""
_BATCH_ROWS = 65_536
_Taken = TypeVar("_Taken")


class DamagedError(LocationError):
    """A file is damaged; the message names it, and says how."""


@dataclass(frozen=True, slots=True)
class LeftOut:
    """A file that was not read."""

    path: Location
    reason: str


@dataclass(frozen=True, slots=True)
class Form:
    """Properties of one kind of file."""

    what: str
    columns: Sequence[Column]
    version_key: bytes
    version: int
    schema: pa.Schema


DECISIONS = Form(
    "decision log",
    decision_columns.COLUMNS,
    decision_schema.VERSION_KEY,
    decision_columns.VERSION,
    decision_schema.SCHEMA,
)
OBSERVATIONS = Form(
    "file of observations",
    observations.COLUMNS,
    observations.VERSION_KEY,
    observations.VERSION,
    observations.SCHEMA,
)


def inspected(
    files: Sequence[File], form: Form, take: Callable[[pq.ParquetFile], _Taken]
) -> list[LeftOut | _Taken]:
    """For each file what `take` reads of it, or why it is left out: it is damaged, or not of this form.

    :param take: called in one of several threads.
    :raises LocationError: if a store does not give a file.
    """
    with ThreadPoolExecutor(_LOOKS_AT_ONCE) as pool:
        return list(pool.map(partial(_inspected, form=form, take=take), files))


def whole(
    files: Sequence[File], folder: Location, form: Form, take: Callable[[pq.ParquetFile], _Taken]
) -> list[tuple[File, _Taken]]:
    """The files with what `take` reads of each, for sums in which none may be missing.

    :param folder: the log's.
    :raises DamagedError: for files that are damaged or not of this form, with the remedy.
    :raises LocationError: if a store does not give a file.
    """
    looks = inspected(files, form, take)
    # A gateway may have removed one since it was listed, as the oldest of a full log.
    damaged = [look for look in looks if isinstance(look, LeftOut) and look.path.exists()]
    if damaged:
        said = "\n".join(f"{left.path} {left.reason}" for left in damaged)
        raise DamagedError(f"{said}\n{remedy(folder)}")
    return [(file, look) for file, look in zip(files, looks, strict=True) if not isinstance(look, LeftOut)]


def remedy(folder: Location) -> str:
    """What to do about damaged files of a log."""
    return f"move what cannot be read out of {folder}, then call again"


def span(file: pq.ParquetFile) -> tuple[datetime, datetime] | None:
    """The times of its first and its last row; None if it has no row."""
    if not file.metadata.num_rows:
        return None
    column = file.schema_arrow.get_field_index("time")
    groups = range(file.metadata.num_row_groups)
    known = [file.metadata.row_group(group).column(column).statistics for group in groups]
    if all(each is not None and each.has_min_max for each in known):
        return min(each.min for each in known), max(each.max for each in known)
    ends = pc.min_max(file.read(columns=["time"]).column("time"))
    return ends["min"].as_py(), ends["max"].as_py()


@contextmanager
def opened(file: Location, texts: Sequence[str] = ()) -> Iterator[pq.ParquetFile]:
    """Open a Parquet file. One of this machine is mapped; a store is asked for the parts that are wanted.

    :param texts: columns that are read as indices of dictionaries.
    :raises OSError: if it is missing or unreadable; with `pyarrow.ArrowException` if it is damaged.
    """
    with pq.ParquetFile(
        file.path if file.is_local else file.open(), read_dictionary=texts or None
    ) as parquet:
        yield parquet


def tables(
    file: Location, columns: Sequence[str], form: Form, texts: Sequence[str] = ()
) -> Iterator[pa.Table]:
    """These columns of a file's rows, some 65,536 at a time, with times in microseconds.

    Columns that an older file lacks are null.

    :param texts: those of them whose values repeat, which are given as indices of dictionaries.
    :raises DamagedError: if it is damaged inside.
    :raises LocationError: if it is no longer there, or a store does not give it.
    """
    try:
        with opened(file, texts) as parquet:
            here = set(parquet.schema_arrow.names)
            wanted = [name for name in columns if name in here]
            for batch in map(in_microseconds, parquet.iter_batches(_BATCH_ROWS, columns=wanted)):
                arrays = [
                    batch.column(name) if name in here else pa.nulls(len(batch), form.schema.field(name).type)
                    for name in columns
                ]
                yield pa.Table.from_arrays(arrays, names=list(columns))
    except (pa.ArrowException, OSError) as error:
        look = _failed(file, error, form, read_through)
        if isinstance(look, LeftOut) and file.exists():
            raise DamagedError(f"{file} {look.reason}") from None
        raise LocationError(f"cannot read {file}: {one_line(error)}") from None


def _inspected(file: File, form: Form, take: Callable[[pq.ParquetFile], _Taken]) -> LeftOut | _Taken:
    name = file.location.name
    if name.endswith(IN_PROGRESS_SUFFIX):
        return LeftOut(file.location, "was not finished: its writer stopped first")
    if not is_finished(file.location):
        return LeftOut(file.location, f"is no {form.what}: its name is not part-*.parquet")
    if not file.size:
        return LeftOut(file.location, "is empty")
    try:
        with opened(file.location) as parquet:
            return _taken(parquet, file.location, form, take)
    except (pa.ArrowException, OSError) as error:
        return _failed(file.location, error, form, take)


def _taken(
    parquet: pq.ParquetFile, file: Location, form: Form, take: Callable[[pq.ParquetFile], _Taken]
) -> LeftOut | _Taken:
    reason = _problem(parquet.schema_arrow, form)
    return LeftOut(file, reason) if reason else take(parquet)


def _failed(
    file: Location, error: Exception, form: Form, take: Callable[[pq.ParquetFile], _Taken]
) -> LeftOut | _Taken:
    """Why a file could not be read; in a store, judged by its bytes alone."""
    if not file.is_local:
        try:
            content = file.read_bytes()
        except OSError as refused:
            raise LocationError(f"cannot read {file}: {one_line(refused)}") from None
        try:
            with pq.ParquetFile(pa.BufferReader(content)) as parquet:
                return _taken(parquet, file, form, take)
        except (pa.ArrowException, OSError) as damage:
            error = damage
    return LeftOut(file, f"is damaged or cut short: {one_line(error)}")


def read_through(file: pq.ParquetFile) -> None:
    """Read all of a file, so that damage inside is found."""
    for _ in file.iter_batches():
        pass


def _problem(schema: pa.Schema, form: Form) -> str:
    """Why a Parquet file is not of this form, or not one that this release reads; empty if it is."""
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
    wrong = [
        f.name for f in form.schema if f.name in names and not is_readable(schema.field(f.name).type, f.type)
    ]
    if wrong:
        return f"has columns of other types: {', '.join(wrong)}"
    lacks = missing_columns(form.columns, names, version)
    return f"lacks columns of its schema version {version}: {', '.join(lacks)}" if lacks else ""
