"""Rows of a table by their values."""

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc


def rows_with(table: pa.Table, columns: Mapping[str, object]) -> list[dict[str, Any]]:
    """Rows in which these columns have these values; the others are never made objects of Python."""
    for name, value in columns.items():
        table = table.filter(pc.field(name) == value)
    found: list[dict[str, Any]] = table.to_pylist()
    return found
