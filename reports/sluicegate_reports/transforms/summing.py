"""Sums the rows of a log by Arrow alone, part by part, so that few rows are in memory at once."""

from collections.abc import Sequence

import pyarrow as pa
import pyarrow.compute as pc

_PIECE_ROWS = 131_072
"""Groups that wait to be added up, at least."""


def summed(table: pa.Table, keys: Sequence[str], amounts: Sequence[str]) -> pa.Table:
    """A row for each group, with sums; texts become plain ones, as parts have dictionaries of their own.

    :param keys: columns that make a group.
    :param amounts: columns of integers.
    """
    sums = [(name, "sum") for name in amounts]
    grouped = table.group_by([*keys], use_threads=False).aggregate(sums)
    columns = [_plain(grouped[name]) for name in keys]
    columns += [grouped[f"{name}_sum"] for name in amounts]
    return pa.Table.from_arrays(columns, names=[*keys, *amounts])


class Summing:
    """Sums many parts, few of which are in memory at once; parameters as for `summed`."""

    def __init__(self, keys: Sequence[str], amounts: Sequence[str] = ()) -> None:
        self._keys, self._amounts = keys, amounts
        self._held: list[pa.Table] = []
        self._most = 0

    def __len__(self) -> int:
        """Groups that are held; one may be in several parts."""
        return sum(map(len, self._held))

    def add(self, part: pa.Table) -> None:
        """Add the rows of a part, which may have further columns."""
        if len(part):
            self._held.append(summed(part, self._keys, self._amounts))
        # Twice as many as there were: else many groups would be added up anew with each part.
        if len(self) >= max(_PIECE_ROWS, self._most):
            self._most = 2 * len(self.sums() or ())

    def sums(self) -> pa.Table | None:
        """The sums of what was added; None if there was nothing."""
        if not self._held:
            return None
        self._held = [summed(pa.concat_tables(self._held), self._keys, self._amounts)]
        return self._held[0]

    def take(self, chosen: pc.Expression) -> pa.Table | None:
        """The sums of some groups, which are no longer held; None if there are none."""
        sums = self.sums()
        if sums is None:
            return None
        self._held = [rest] if len(rest := sums.filter(~chosen)) else []
        taken = sums.filter(chosen)
        return taken if len(taken) else None


def _plain(column: pa.ChunkedArray) -> pa.ChunkedArray:
    return column.cast(pa.string()) if pa.types.is_dictionary(column.type) else column
