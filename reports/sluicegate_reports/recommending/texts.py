"""Numbers in place of texts: rows of many files are then grouped and sorted quickly, in little memory."""

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


class Texts:
    """Gives each text of a column a number, the same in all tables; nulls stay.

    :param columns: those that have texts.
    """

    def __init__(self, columns: Sequence[str]) -> None:
        self._numbers: dict[str, dict[str, int]] = {name: {} for name in columns}

    def all(self, column: str) -> list[str]:
        """The texts of a column, in order of their numbers."""
        return list(self._numbers[column])

    def numbered(self, rows: pa.Table) -> pa.Table:
        """The same rows with numbers in the columns of texts."""
        for index, name in enumerate(rows.column_names):
            if name in self._numbers:
                rows = rows.set_column(index, name, self._column(rows[name], self._numbers[name]))
        return rows

    def decoded(self, rows: pa.Table) -> list[dict[str, Any]]:
        """Rows with the texts of the columns that have numbers."""
        for index, name in enumerate(rows.column_names):
            if name in self._numbers:
                texts = pa.array(self.all(name), pa.string())
                rows = rows.set_column(index, name, texts.take(rows[name]))
        decoded: list[dict[str, Any]] = rows.to_pylist()
        return decoded

    @staticmethod
    def _column(column: pa.ChunkedArray, numbers: dict[str, int]) -> pa.Array:
        plain = column.combine_chunks()
        coded = plain if pa.types.is_dictionary(plain.type) else plain.dictionary_encode()
        texts = coded.dictionary.to_pylist()
        of_texts = [None if text is None else numbers.setdefault(text, len(numbers)) for text in texts]
        return pa.array(of_texts, pa.int32()).take(coded.indices)
