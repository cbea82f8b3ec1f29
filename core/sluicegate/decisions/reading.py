"""Reads a decision log: finished files and those still being written."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate.decisions.columns import COLUMNS, VERSION, missing_columns
from sluicegate.decisions.interned import CLEARED
from sluicegate.decisions.schema import SCHEMA, VERSION_KEY, version_of
from sluicegate.decisions.spool import DecisionLogError, batches, parquet_files, parquet_path, spools
from sluicegate.decisions.unpacking import Unpacking

_log = logging.getLogger(__name__)


def read_decisions(path: Path | str) -> pa.Table:
    """Read all decisions under a directory: Parquet files and spools, up to the last complete batch.

    For tests, the demo and small logs: the result is held in memory.

    :param path: the log's directory; without files the table is empty.
    :return: a table of the current schema, ordered by time; columns that older files lack are null.
    :raises DecisionLogError: if a Parquet file is not a decision log, lacks columns or has a later version.
    """
    directory = Path(path)
    # Spools are listed first: one that is compacted meanwhile is found twice, but read once.
    spooled = {parquet_path(spool): spool for spool in spools(directory)}
    finished = parquet_files(directory)
    tables = [_read_parquet(file) for file in finished]
    unfinished = sorted(spooled.keys() - set(finished))
    tables.extend(_read_spool(spooled[target], target) for target in unfinished)
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).sort_by("time")


def record_batches(spool: Path) -> Iterator[pa.RecordBatch]:
    """Read the complete batches of a spool, even if it is truncated or still being written.

    :return: batches of the current schema.
    :raises FileNotFoundError: if it no longer exists because its Parquet file does.
    :raises DecisionLogError: if a later release wrote it.
    """
    for table in coded_tables(spool):
        yield from table.cast(SCHEMA).to_batches()


def coded_tables(spool: Path, rows: int = 65_536) -> Iterator[pa.Table]:
    """Read the complete batches of a spool as tables of `unpacking.CODED_SCHEMA`.

    :param rows: rows of a table, give or take a line.
    :raises FileNotFoundError: if it no longer exists because its Parquet file does.
    :raises DecisionLogError: if a later release wrote it.
    """
    unpacking = Unpacking()
    for batch in batches(spool):
        if unpacking.rows and (unpacking.rows >= rows or batch.get(CLEARED)):
            yield unpacking.take()
        try:
            unpacking.add(batch)
        except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
            # The writer validates its lines; still, one damaged line must not make the others unreadable.
            _log.warning("decision spool %s: skipping a line that does not fit the schema: %s", spool, error)
    if unpacking.rows:
        yield unpacking.take()


def _read_spool(spool: Path, target: Path) -> pa.Table:
    try:
        return pa.Table.from_batches(record_batches(spool), SCHEMA)
    except FileNotFoundError:
        # It was compacted after the listing, or was empty.
        return _read_parquet(target) if target.exists() else SCHEMA.empty_table()


def _read_parquet(file: Path) -> pa.Table:
    try:
        # Not read_table: it would read `run=` and `system=` in the path as columns.
        return _conform(pq.ParquetFile(file).read(), file)
    except pa.ArrowInvalid as error:
        raise DecisionLogError(f"cannot read {str(file)!r} as Parquet: {error}") from error


def check_schema(schema: pa.Schema, file: Path) -> None:
    """Refuse a Parquet file that is none of a decision log, or of a later release.

    :raises DecisionLogError: if it is.
    """
    version = version_of(schema)
    if version == 0:
        raise DecisionLogError(
            f"{str(file)!r} is not a decision log: its schema metadata lacks {VERSION_KEY.decode()!r}"
        )
    if version > VERSION:
        raise DecisionLogError(
            f"{str(file)!r} has decision schema version {version}, this release reads up to {VERSION}: "
            "read it with the release that wrote it, or a later one"
        )
    if lacks := missing_columns(COLUMNS, set(schema.names), version):
        raise DecisionLogError(
            f"{str(file)!r} lacks columns of its schema version {version}: {', '.join(lacks)}: "
            "write the file again with all columns"
        )


def _conform(table: pa.Table, file: Path) -> pa.Table:
    check_schema(table.schema, file)
    present = set(table.schema.names)
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in present
        else pa.nulls(len(table), field.type)
        for field in SCHEMA
    ]
    return pa.table(columns, schema=SCHEMA)
