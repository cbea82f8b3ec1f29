"""How long operations were held, by month, topic and policy."""

from collections.abc import Iterator
from datetime import date
from itertools import groupby
from typing import Any, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate_reports.transforms.summing import Summing

KEYS = ("month", "system", "gateway", "topic", "policy")
_HELD = "held_ns"
"""Rounded up to two digits, so that few different ones are kept."""


class Held(NamedTuple):
    """The holds of one policy on one topic in one month."""

    operations: int
    p50_ms: float
    p99_ms: float


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

    def by_policy(self) -> dict[tuple[Any, ...], Held]:
        """The holds, by `KEYS`."""
        sums = self._counts.sums()
        return {} if sums is None else dict(_by_policy(sums))


def _by_policy(sums: pa.Table) -> Iterator[tuple[tuple[Any, ...], Held]]:
    rows = sums.sort_by([(name, "ascending") for name in (*KEYS, _HELD)]).to_pylist()
    for key, group in groupby(rows, key=lambda row: tuple(row[name] for name in KEYS)):
        counts = [(row[_HELD], row["held"]) for row in group]
        yield key, Held(sum(count for _, count in counts), _quantile(counts, 0.5), _quantile(counts, 0.99))


def _quantile(counts: list[tuple[int, int]], share: float) -> float:
    """The least time in ms that so large a share of holds does not exceed."""
    total, passed = sum(count for _, count in counts), 0
    for held_ns, count in counts:
        passed += count
        if passed >= share * total:
            return held_ns / 1e6
    return 0.0


def _two_digits(delay_ns: pa.ChunkedArray) -> pa.ChunkedArray:
    """Numbers rounded up to two digits."""
    exponent = pc.subtract(pc.floor(pc.log10(pc.max_element_wise(delay_ns, 1).cast(pa.float64()))), 1.0)
    scale = pc.power(10.0, pc.max_element_wise(exponent, 0.0))
    return pc.multiply(pc.ceil(pc.divide(delay_ns.cast(pa.float64()), scale)), scale).cast(pa.int64())
