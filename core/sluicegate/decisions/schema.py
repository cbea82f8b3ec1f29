"""The decision log's columns as an Arrow schema, for reading spools and writing Parquet files."""

import pyarrow as pa

from sluicegate.decisions.columns import COLUMNS, VERSION, Column

VERSION_KEY = b"sluicegate.decisions.version"
"""Key of the version in the metadata of an Arrow or Parquet schema."""

REASON_TYPE = pa.struct(
    [
        ("policy", pa.string()),
        ("level", pa.string()),
        ("reason", pa.string()),
        ("current", pa.float64()),
        ("limit", pa.float64()),
    ]
)
_TYPES = {
    str(each): each
    for each in (
        pa.timestamp("us", tz="UTC"),
        pa.string(),
        pa.float64(),
        pa.int64(),
        pa.int32(),
        pa.list_(REASON_TYPE),
    )
}


def _field(column: Column) -> pa.Field:
    metadata = {"meaning": column.meaning, **({"unit": column.unit} if column.unit else {})}
    return pa.field(column.name, _TYPES[column.type], nullable=column.nullable, metadata=metadata)


SCHEMA = pa.schema([_field(column) for column in COLUMNS], metadata={VERSION_KEY: str(VERSION).encode()})
"""The schema of Parquet files and of tables read from the log; fields have meaning and unit as metadata."""


def version_of(schema: pa.Schema) -> int:
    """The version of the decision schema of a file; 0 if it is not a decision log."""
    metadata = schema.metadata or {}
    text = metadata.get(VERSION_KEY, b"0")
    return int(text) if text.isdigit() else 0
