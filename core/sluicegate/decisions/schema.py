"""The decision log's columns as an Arrow schema, for reading spools and writing Parquet files."""

from collections.abc import Iterable

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
        pa.bool_(),
        pa.list_(REASON_TYPE),
    )
}


def schema_of(columns: Iterable[Column], key: bytes, version: int) -> pa.Schema:
    """The Arrow schema of columns, with meaning and unit in each field's metadata.

    :param key: of the version in the schema's own metadata.
    """
    fields = []
    for column in columns:
        metadata = {"meaning": column.meaning, **({"unit": column.unit} if column.unit else {})}
        fields.append(pa.field(column.name, _TYPES[column.type], nullable=column.nullable, metadata=metadata))
    return pa.schema(fields, metadata={key: str(version).encode()})


SCHEMA = schema_of(COLUMNS, VERSION_KEY, VERSION)
"""The schema of Parquet files and of tables read from the log; fields have meaning and unit as metadata."""


def version_of(schema: pa.Schema) -> int:
    """The version of the decision schema of a file; 0 if it is not a decision log."""
    metadata = schema.metadata or {}
    text = metadata.get(VERSION_KEY, b"0")
    return int(text) if text.isdigit() else 0
