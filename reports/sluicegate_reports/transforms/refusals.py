"""Refusals against a perfect gate: each decision is judged in order of time."""

from collections.abc import Iterator
from typing import TypeAlias

import numpy as np
import pyarrow as pa
from pyspark.sql import DataFrame
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.ideal import judge
from sluicegate_reports.transforms.chunks import AMOUNT_BITS, CHUNK_US

SCHEMA = (
    "lane int, admitted bigint, refused bigint, wrongly_admitted bigint, wrongly_refused bigint, "
    "ideal_refused bigint"
)
_NAMES = tuple(part.split()[0] for part in SCHEMA.split(", "))
_Array: TypeAlias = np.ndarray[tuple[int, ...], np.dtype[np.int64]]
_SLACK_US = 2
"""A gate decides to the nanosecond and the log tells the microsecond: a refill may fall on either side."""


def refusals(chunks: DataFrame, lanes: DataFrame, within_us: int) -> DataFrame:
    """Judge the log of each lane with a row for each decision; those with summed up allows have no row here.

    What a gateway holds is not judged: it waits for its turn behind others, however much the bucket holds.
    Where Spark runs, Python must have this package.

    :param chunks: see `chunks`, with what was refused within this time.
    :param lanes: see `lanes.lanes`.
    :param within_us: from each lane's start, whole seconds: a lane is judged in one piece, in memory.
    :return: columns of `SCHEMA`.
    """
    decided = chunks.where(F.col("source") == "log")
    summed_up = decided.where(F.col("window_ms") > 0).select("lane").distinct()
    rows = (
        decided.where(F.col("chunk") < within_us // CHUNK_US)
        .join(F.broadcast(summed_up), on="lane", how="left_anti")
        .join(F.broadcast(lanes.select("lane", "rate", "burst", "full")), on="lane", how="inner")
        .select("lane", "rate", "burst", "full", "chunk", "admitted", "limited")
    )
    return rows.groupBy("lane").applyInArrow(_judged, SCHEMA)


def _judged(rows: pa.Table) -> pa.Table:
    lane, rate, burst, full = (rows[name][0].as_py() for name in ("lane", "rate", "burst", "full"))
    found = judge(_requests(rows), rate, burst, _SLACK_US, full=full)
    values = [lane, *(getattr(found, name) for name in _NAMES[1:])]
    kinds = [pa.int32(), *(pa.int64() for _ in _NAMES[1:])]
    return pa.table([pa.array([v], k) for v, k in zip(values, kinds, strict=True)], names=list(_NAMES))


def _requests(rows: pa.Table) -> Iterator[tuple[int, int, bool]]:
    """In order of time; of one microsecond what passed is first, and what is large."""
    admitted, limited = (_unpacked(rows, name) for name in ("admitted", "limited"))
    at_us, amounts = (np.concatenate(pair) for pair in zip(admitted, limited, strict=True))
    refused = np.repeat([False, True], [len(admitted[0]), len(limited[0])])
    order = np.lexsort((-amounts, refused, at_us))
    yield from zip(at_us[order].tolist(), amounts[order].tolist(), (~refused[order]).tolist(), strict=True)


def _unpacked(rows: pa.Table, name: str) -> tuple[_Array, _Array]:
    """Times in us and amounts of all rows of the chunks."""
    lists = rows[name].combine_chunks()
    packed = lists.flatten().to_numpy(zero_copy_only=False)
    counts = lists.value_lengths().to_numpy(zero_copy_only=False)
    starts = rows["chunk"].to_numpy() * CHUNK_US
    return np.repeat(starts, counts) + (packed >> AMOUNT_BITS), packed & ((1 << AMOUNT_BITS) - 1)
