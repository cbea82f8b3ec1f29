"""Reading a decision log back: finished files and those still being written."""

import logging
from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate.decisions.columns import COLUMNS, VERSION, lacking
from sluicegate.decisions.interned import ANEW
from sluicegate.decisions.schema import SCHEMA, VERSION_KEY, version_of
from sluicegate.decisions.spool import DecisionLogError, batches, parquet_files, parquet_path, spools
from sluicegate.decisions.unpacking import Unpacking

_log = logging.getLogger(__name__)


def read_decisions(path: Path | str) -> pa.Table:
    """Read all decisions under a directory: Parquet files and spools, up to the last whole batch.

    For tests, the demo and small logs: everything is in memory at once.

    :param path: the log's directory; without any file in it the table is empty.
    :return: a table of the current schema in order of time; columns that older files lack are null.
    :raises DecisionLogError: if a Parquet file is no decision log, lacks columns or is of a later version.
    """
    directory = Path(path)
    # Spools first: one that becomes Parquet meanwhile is then found twice, and read once.
    spooled = {parquet_path(spool): spool for spool in spools(directory)}
    finished = parquet_files(directory)
    tables = [_read_parquet(file) for file in finished]
    unfinished = sorted(spooled.keys() - set(finished))
    tables.extend(_read_spool(spooled[target], target) for target in unfinished)
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).sort_by("time")


def record_batches(spool: Path) -> Iterator[pa.RecordBatch]:
    """Read the whole batches of a spool, be it cut short or still being written.

    :return: batches of the current schema.
    :raises FileNotFoundError: if it is gone, which means that its Parquet file is there.
    :raises DecisionLogError: if a later release wrote it.
    """
    for table in coded_tables(spool):
        yield from table.cast(SCHEMA).to_batches()


def coded_tables(spool: Path, rows: int = 65_536) -> Iterator[pa.Table]:
    """The same as tables of `unpacking.CODED_SCHEMA`, of this many rows or a line more.

    :raises FileNotFoundError: if it is gone, which means that its Parquet file is there.
    :raises DecisionLogError: if a later release wrote it.
    """
    unpacking = Unpacking()
    for batch in batches(spool):
        if unpacking.rows and (unpacking.rows >= rows or batch.get(ANEW)):
            yield unpacking.take()
        try:
            unpacking.add(batch)
        except (pa.ArrowException, KeyError, TypeError, ValueError, OverflowError, IndexError) as error:
            # What is written was looked at before; one damaged line must not keep all others unreadable.
            _log.warning(
                "decision spool %s: a line does not fit the schema and is left out: %s", spool, error
            )
    if unpacking.rows:
        yield unpacking.take()


def _read_spool(spool: Path, target: Path) -> pa.Table:
    try:
        return pa.Table.from_batches(record_batches(spool), SCHEMA)
    except FileNotFoundError:
        # It became Parquet after the listing, or held nothing.
        return _read_parquet(target) if target.exists() else SCHEMA.empty_table()


def _read_parquet(file: Path) -> pa.Table:
    try:
        # Not read_table: it would take `run=` and `system=` in the path for columns as well.
        return _conform(pq.ParquetFile(file).read(), file)
    except pa.ArrowInvalid as error:
        raise DecisionLogError(f"cannot read {str(file)!r} as Parquet: {error}") from error


def _conform(table: pa.Table, file: Path) -> pa.Table:
    version = version_of(table.schema)
    if version == 0:
        raise DecisionLogError(
            f"{str(file)!r} is no decision log: its schema metadata lacks {VERSION_KEY.decode()!r}"
        )
    if version > VERSION:
        raise DecisionLogError(
            f"{str(file)!r} has decision schema version {version}, this release reads up to {VERSION}: "
            "read it with the release that wrote it, or a later one"
        )
    present = set(table.schema.names)
    if lacks := lacking(COLUMNS, present, version):
        raise DecisionLogError(
            f"{str(file)!r} lacks columns of its schema version {version}: {', '.join(lacks)}: "
            "write it anew with all of them"
        )
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in present
        else pa.nulls(len(table), field.type)
        for field in SCHEMA
    ]
    return pa.table(columns, schema=SCHEMA)
