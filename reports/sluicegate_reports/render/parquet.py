"""The results as Parquet files or Delta tables, for notebooks and BI tools: the matrix, and each table."""

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate_reports.model.results import Cell, Results, Table, Value

if TYPE_CHECKING:
    from sluicegate_reports.model.locations import Location

_CELLS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in ("run", "policy", "system", "door", "verdict")),
        *(pa.field(name, pa.float64()) for name in ("figure", "bound")),
        *(pa.field(name, pa.string()) for name in ("unit", "text")),
        *(pa.field(name, pa.float64()) for name in ("low", "high")),
        pa.field("causes", pa.list_(pa.string())),
    ]
)
HEADING = b"heading"
"""Key of a column's metadata: its heading in the report, with the unit."""


def write_tables(results: Results, folder: "Location", *, delta: bool = False) -> list[str]:
    """Write all tables of results; those that are there are replaced.

    :param folder: made if it is not there.
    :param delta: as Delta tables, which keep earlier versions.
    :return: their names.
    :raises OSError: if one cannot be written.
    """
    if folder.is_local:
        folder.path.mkdir(parents=True, exist_ok=True)
    names = []
    for name, table in arrow_tables(results):
        if delta:
            _write_delta(table, folder / name)
        else:
            with (folder / f"{name}.parquet").written() as file:
                pq.write_table(table, file, compression="zstd")
        names.append(name)
    return names


def arrow_tables(results: Results) -> Iterator[tuple[str, pa.Table]]:
    """The matrix as `cells`, and each table of the results under its name in lower case."""
    if results.matrix:
        yield "cells", _cells(results.run.run, results.matrix)
    for name, table in results.tables().items():
        yield _plain(name), _table(table)


def _cells(run: str, cells: Sequence[Cell]) -> pa.Table:
    rows = [
        {
            **{field: getattr(cell, field) for field in _CELLS.names if hasattr(cell, field)},
            "run": run,
            "verdict": str(cell.verdict),
            "causes": [cause.kind for cause in cell.causes],
        }
        for cell in cells
    ]
    return pa.Table.from_pylist(rows, _CELLS)


def _table(table: Table) -> pa.Table:
    columns = [[row[index] for row in table.rows] for index in range(len(table.columns))]
    arrays = [_array(column) for column in columns]
    fields = [
        pa.field(name, array.type, metadata={HEADING: heading.encode()})
        for name, array, heading in zip(_names(table.columns), arrays, table.columns, strict=True)
    ]
    return pa.Table.from_arrays(arrays, schema=pa.schema(fields))


def _array(values: Sequence[Value]) -> pa.Array:
    """Of one type: whole numbers, numbers, truths, or texts."""
    known = {type(value) for value in values if value is not None}
    if known <= {int}:
        return pa.array(values, pa.int64())
    if known <= {int, float}:
        return pa.array(values, pa.float64())
    if known == {bool}:
        return pa.array(values, pa.bool_())
    return pa.array([None if value is None else str(value) for value in values], pa.string())


def _names(headings: Sequence[str]) -> list[str]:
    """Plain names, all different."""
    names: list[str] = []
    for heading in headings:
        name = _plain(heading)
        names.append(name if name not in names else f"{name}_{len(names)}")
    return names


def _plain(heading: str) -> str:
    """In lower case, with underscores: `limit (messages/s)` becomes `limit_messages_per_s`."""
    text = heading.lower().replace("/", " per ").replace("%", " percent ")
    return re.sub(r"[^a-z0-9]+", "_", text).strip("_") or "column"


def _write_delta(table: pa.Table, location: "Location") -> None:
    from deltalake import write_deltalake

    write_deltalake(location.url, table, mode="overwrite", schema_mode="overwrite")
