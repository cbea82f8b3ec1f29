"""Exact percentiles of many values by group, from the number of times that each value occurs."""

from collections.abc import Sequence

import numpy as np
import pyarrow as pa

from sluicegate_reports.transforms.summing import Summing

PERCENTS = {"p50": 50, "p95": 95, "p99": 99}
MEASURES = (*PERCENTS, "peak")
TIMES = "times"
_VALUE = "value"


class Distribution:
    """Counts values of each group; memory holds one row for each value that is different.

    :param keys: columns that make a group.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = tuple(keys)
        self._counts = Summing((*keys, _VALUE), (TIMES,))

    def add(self, rows: pa.Table, value: pa.ChunkedArray) -> None:
        """Count a value of each row.

        :param rows: with the keys.
        """
        times = pa.repeat(pa.scalar(1, pa.int64()), len(rows))
        columns = [*(rows[name] for name in self._keys), value, times]
        self._counts.add(pa.Table.from_arrays(columns, names=[*self._keys, _VALUE, TIMES]))

    def percentiles(self) -> pa.Table | None:
        """For each group `times`, the number of its values, and `MEASURES`; None if there is no value.

        A percentile is the value at rank ceil(share * times). Groups are in order of their keys.
        """
        counted = self._counts.sums()
        if counted is None:
            return None
        counted = counted.sort_by([(name, "ascending") for name in (*self._keys, _VALUE)])
        upto = np.cumsum(counted[TIMES].to_numpy())
        last = _last_of_groups(counted, self._keys)
        before = np.concatenate([[0], upto[last[:-1]]])
        times = upto[last] - before
        # In integers: 0.99 * 100 may be a little more than 99.
        ranks = {name: before - (-times * percent) // 100 for name, percent in PERCENTS.items()}
        rows = {name: np.searchsorted(upto, rank) for name, rank in ranks.items()} | {"peak": last}
        columns = {name: counted[name].take(pa.array(last)) for name in self._keys}
        columns |= {TIMES: pa.array(times)}
        return pa.table(columns | {name: counted[_VALUE].take(pa.array(row)) for name, row in rows.items()})


def _last_of_groups(ordered: pa.Table, keys: Sequence[str]) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    """The last row of each group of a table that is in order of the groups."""
    differs = np.zeros(len(ordered), np.bool_)
    differs[-1] = True
    for name in keys:
        # Nulls are a group of their own.
        codes = ordered[name].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        differs[:-1] |= codes[1:] != codes[:-1]
    return np.flatnonzero(differs)
