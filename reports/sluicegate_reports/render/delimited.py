"""Tables as CSV that spreadsheets and terminals can be given, whatever names it quotes."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import BinaryIO

import pyarrow as pa
from pyarrow import csv

from sluicegate.model import visible

_FORMULA = ("=", "+", "-", "@")
"""A spreadsheet takes a cell that begins so for a formula, which may run programs or send data (CWE-1236)."""


def safe_cell(text: str) -> str:
    """A text that no spreadsheet computes and no terminal obeys: an apostrophe goes before a formula."""
    shown = visible(text)
    return f"'{shown}" if shown.lstrip().startswith(_FORMULA) else shown


@contextmanager
def csv_writer(file: BinaryIO | pa.NativeFile, schema: pa.Schema) -> Iterator[Callable[[pa.Table], None]]:
    """Write the heading; the block gets what writes further rows.

    :param schema: of the rows.
    """
    texts = [name for name, kind in zip(schema.names, schema.types, strict=True) if kind == pa.string()]
    with csv.CSVWriter(file, schema) as writer:

        def write(table: pa.Table) -> None:
            for name in texts:
                index = schema.get_field_index(name)
                table = table.set_column(index, schema.field(name), _safe(table[name]))
            writer.write_table(table)

        yield write


def _safe(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Each different text is looked at once."""
    coded = column.combine_chunks().dictionary_encode()
    texts = pa.array([safe_cell(text) for text in coded.dictionary.to_pylist()], pa.string())
    return pa.chunked_array([texts.take(coded.indices)])
