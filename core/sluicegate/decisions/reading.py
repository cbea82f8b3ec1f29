"""Reading a decision log back: finished files and those still being written."""

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate.decisions.schema import SCHEMA, VERSION, VERSION_KEY, version_of
from sluicegate.decisions.spool import batches, parquet_files, parquet_path, spools


class DecisionLogError(Exception):
    """A decision log cannot be read; the message says which file and why."""


def read_decisions(path: Path | str) -> pa.Table:
    """Read all decisions under a directory: Parquet files and spools, up to the last whole batch.

    For tests, the demo and small logs: everything is in memory at once.

    :param path: the log's directory; without any file in it the table is empty.
    :return: a table of the current schema in order of time; columns that older files lack are null.
    :raises DecisionLogError: if a Parquet file is no decision log, or is of a later version.
    """
    directory = Path(path)
    # Spools first: one that becomes Parquet meanwhile is then found twice, and read once.
    spooled = {parquet_path(spool): spool for spool in spools(directory)}
    finished = parquet_files(directory)
    tables = [_read_parquet(file) for file in finished]
    unfinished = sorted(spooled.keys() - set(finished))
    tables.extend(_read_spool(spooled[target], target) for target in unfinished)
    return pa.concat_tables([SCHEMA.empty_table(), *tables]).sort_by("time")


def _read_spool(spool: Path, target: Path) -> pa.Table:
    try:
        found = list(batches(spool))
        return _conform(pa.Table.from_batches(found), spool) if found else SCHEMA.empty_table()
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
    columns = [
        table.column(field.name).cast(field.type)
        if field.name in present
        else pa.nulls(len(table), field.type)
        for field in SCHEMA
    ]
    return pa.table(columns, schema=SCHEMA)
