"""Timestamps in Parquet files: microseconds, as Sluicegate writes them, and nanoseconds of other tools."""

import pyarrow as pa

_US = pa.timestamp("us", tz="UTC")
_NS = pa.timestamp("ns", tz="UTC")


def is_readable(stored: pa.DataType, wanted: pa.DataType) -> bool:
    """Whether a column of one type can be read as another one: only times may differ, in their unit."""
    return bool(stored == wanted or (stored == _NS and wanted == _US))


def in_nanoseconds(schema: pa.Schema) -> frozenset[str]:
    """The columns whose times are in nanoseconds."""
    return frozenset(field.name for field in schema if field.type == _NS)


def in_microseconds(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The same rows with all times in whole microseconds."""
    finer = in_nanoseconds(batch.schema)
    if not finer:
        return batch
    names = batch.schema.names
    columns = [
        column.cast(_US, safe=False) if name in finer else column
        for name, column in zip(names, batch.columns, strict=True)
    ]
    return pa.RecordBatch.from_arrays(columns, names=names)
