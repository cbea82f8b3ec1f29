"""Keeps a compacted log as a Delta table (Delta Lake's PROTOCOL.md).

The Parquet files stay where `compacting` puts them; `_delta_log` beside them lists the complete ones. One
transaction adds all files that the table lacks, so a call completes what an interrupted one left undone.
"""

import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from os import environ

import pyarrow as pa
import pyarrow.parquet as pq
from deltalake import DeltaTable, Schema
from deltalake.exceptions import DeltaError
from deltalake.transaction import AddAction, create_table_with_add_actions

from sluicegate.decisions.schema import SCHEMA
from sluicegate_reports.model.listing import is_finished, is_table, listing
from sluicegate_reports.model.locations import File, Location, LocationError, one_line

_PARTITIONS = ["run", "system", "date"]
"""Partition columns, in the order of a file's folders."""


@dataclass(frozen=True, slots=True)
class Recorded:
    """The files that a call added."""

    files: int
    version: int
    """The table's, which counts its transactions from 0."""


def record(copy: Location) -> Recorded:
    """Add the finished files of a compacted log that the table lacks; makes the table if there is none.

    :param copy: the folder of the compacted log. One call at a time.
    :raises LocationError: if the table cannot be read or written.
    """
    with _failures(copy):
        table = DeltaTable(copy.url, storage_options=_options()) if is_table(copy) else None
        known = set() if table is None else set(pa.table(table.get_add_actions())["path"].to_pylist())
        new = [file for file in _files(copy) if file.location.relative_to(copy) not in known]
        if table is None:
            create_table_with_add_actions(
                copy.url,
                _schema(),
                [_add(file, copy) for file in new],
                partition_by=_PARTITIONS,
                name="sluicegate decisions",
                storage_options=_options(),
            )
            return Recorded(len(new), 0)
        if new:
            _add_columns(table)
            table.create_write_transaction(
                [_add(file, copy) for file in new], "append", table.schema(), partition_by=_PARTITIONS
            )
            # The transaction leaves this object at the version that it read.
            table.update_incremental()
        return Recorded(len(new), table.version())


def _files(copy: Location) -> list[File]:
    return [
        file
        for file in listing(copy).files
        if is_finished(file.location) and list(_folders(file.location, copy)) == _PARTITIONS
    ]


def _folders(file: Location, copy: Location) -> dict[str, str]:
    """The values that the names of a file's folders hold: `run=a/date=2026-11-22` has two."""
    names = (folder.partition("=") for folder in file.parent.relative_to(copy).split("/"))
    return {name: value for name, _, value in names}


def _add(file: File, copy: Location) -> AddAction:
    with pq.ParquetFile(file.location.open()) as opened:
        rows = opened.metadata.num_rows
    return AddAction(
        path=file.location.relative_to(copy),
        size=file.size,
        partition_values=_folders(file.location, copy),
        modification_time=time.time_ns() // 1_000_000,
        data_change=True,
        stats=f'{{"numRecords": {rows}}}',
    )


def _schema() -> Schema:
    return Schema.from_arrow(SCHEMA.remove_metadata().append(pa.field("date", pa.date32())))


def _add_columns(table: DeltaTable) -> None:
    """Add the columns of a later release, which earlier rows lack."""
    known = {field.name for field in table.schema().fields}
    missing = [field for field in _schema().fields if field.name not in known]
    if missing:
        table.alter.add_columns(missing)


def _options() -> dict[str, str]:
    """Allow an endpoint without TLS, which the library, unlike Arrow, does not read from the environment."""
    endpoint = environ.get("AWS_ENDPOINT_URL_S3") or environ.get("AWS_ENDPOINT_URL") or ""
    return {"allow_http": "true"} if endpoint.startswith("http://") else {}


@contextmanager
def _failures(copy: Location) -> Iterator[None]:
    try:
        yield
    except (DeltaError, OSError, ValueError) as error:
        raise LocationError(f"the Delta table {copy} cannot be read or written: {one_line(error)}") from None
