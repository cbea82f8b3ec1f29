"""How long operations were held, by month, topic and policy: evidence for a service level."""

from collections.abc import Iterator
from datetime import date
from itertools import groupby

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate_reports.model.results import Table
from sluicegate_reports.transforms.summing import Summing

KEYS = ("month", "system", "gateway", "topic", "policy")
_HELD = "held_ns"
"""Rounded up to two digits, so that few different ones are kept."""
_QUANTILE = 0.99
_MOST = 50


class HoldTimes:
    """Counts holds by their length."""

    def __init__(self) -> None:
        self._counts = Summing((*KEYS, _HELD), ("held",))

    def add(self, rows: pa.Table, day: date) -> None:
        """Count the holds among rows of a log, of one day."""
        held = rows.filter(pc.field("action") == "delay")
        if not len(held):
            return
        columns = [
            pa.repeat(f"{day:%Y-%m}", len(held)),
            *(held[name] for name in KEYS[1:]),
            _two_digits(held["delay"]),
            held["decisions"],
        ]
        self._counts.add(pa.Table.from_arrays(columns, names=[*KEYS, _HELD, "held"]))

    def table(self) -> Table | None:
        """The holds of each month, the longest first; None if nothing was held."""
        found = self._counts.sums()
        if found is None:
            return None
        lines = list(_lines(found))
        lines.sort(key=lambda line: (line[0], -line[-1]))
        columns = (*KEYS, "held", "held p99 (ms)")
        title = "How long operations were held, by month"
        return Table(columns, tuple(lines[:_MOST]), "hold_times", title, total=len(lines))


def _lines(found: pa.Table) -> Iterator[tuple[str, str, str, str, str, int, float]]:
    rows = found.sort_by([(name, "ascending") for name in (*KEYS, _HELD)]).to_pylist()
    for key, group in groupby(rows, key=lambda row: tuple(row[name] for name in KEYS)):
        counts = [(row[_HELD], row["held"]) for row in group]
        total, passed = sum(count for _, count in counts), 0
        for held_ns, count in counts:
            passed += count
            if passed >= _QUANTILE * total:
                yield (*key, total, held_ns / 1e6)
                break


def _two_digits(delay_ns: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers rounded up to two digits."""
    exponent = pc.subtract(pc.floor(pc.log10(pc.max_element_wise(delay_ns, 1).cast(pa.float64()))), 1.0)
    scale = pc.power(10.0, pc.max_element_wise(exponent, 0.0))
    return pc.multiply(pc.ceil(pc.divide(delay_ns.cast(pa.float64()), scale)), scale).cast(pa.int64())
