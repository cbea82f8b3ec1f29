"""The sums that `follow` keeps: a Parquet file for each batch of files, which also names them.

`batch-N.parquet` has the sums of batch N, `batch-FIRST-LAST.parquet` those of all batches from FIRST to LAST.
A file counts unless another one covers its numbers. It appears whole, and with the names of what it was made
of, so there is no moment at which rows of the log are in no file or count twice.
"""

import re
from bisect import bisect_left
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from heapq import merge as in_order
from itertools import chain, groupby, islice

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicegate_reports.model.listing import listing
from sluicegate_reports.model.locations import Location, LocationError, one_line
from sluicegate_reports.spark.log_files import DECISIONS, opened, tables
from sluicegate_reports.transforms.summing import summed

KEYS = ("system", "door", "gateway", "topic", "principal", "operation", "action", "policy")
SUMMED = ("decisions", "messages", "bytes", "delay_ns")
_MINUTE, _FILES = "minute", "files"
_NAMES = pa.list_(pa.string())
SUMS = pa.schema(
    [
        *(pa.field(name, pa.string()) for name in KEYS),
        pa.field(_MINUTE, pa.timestamp("us", tz="UTC")),
        *(pa.field(name, pa.int64()) for name in SUMMED),
        pa.field(_FILES, _NAMES),
    ]
)
"""What is stored: sums of each minute. A few rows also have names of files that took part, by their paths in
the log. These are in order from row to row, so that statistics tell where a name would be."""
TOTAL_OF = ("system", "door", "gateway", "topic", "operation", "policy", "action")
TOTALS = pa.schema(
    [
        *((name, pa.string()) for name in TOTAL_OF),
        *((name, pa.int64()) for name in SUMMED),
        *((name, pa.timestamp("us", tz="UTC")) for name in ("first", "last")),
    ]
)
"""Sums of all minutes, with the first and the last one."""
MERGED_AT_ONCE = 16
"""So many files of one size become one. Each batch is thus written again once for each power of 16, and there
are at most 15 files of each size: 60 of 65,535 batches."""
_PIECE_ROWS = 131_072
"""Sums in memory: of more keys and minutes than twice this, a file has several groups of rows."""
_NAMES_AT_ONCE = 65_536
_FILE = re.compile(r"batch-(\d+)(?:-(\d+))?\.parquet")


@dataclass(frozen=True, slots=True, order=True)
class Stored:
    """A file that has sums."""

    first: int
    last: int
    file: Location

    @property
    def batches(self) -> int:
        """How many it covers."""
        return self.last - self.first + 1

    @property
    def level(self) -> int:
        """How often its batches were merged: the power of `MERGED_AT_ONCE` that their number has reached."""
        level, left = 0, self.batches
        while left >= MERGED_AT_ONCE:
            level, left = level + 1, left // MERGED_AT_ONCE
        return level

    def covers(self, other: "Stored") -> bool:
        """Whether it has all that another one has."""
        return self != other and self.first <= other.first and other.last <= self.last


def stored(sums: Location) -> list[Stored]:
    """The files that count, in the order of their batches."""
    counting: list[Stored] = []
    # Of those that begin alike the longest comes first, so that only the one before can cover a file.
    for each in sorted(_all(sums), key=lambda each: (each.first, -each.last)):
        if not counting or not counting[-1].covers(each):
            counting.append(each)
    return counting


def unknown(sums: Iterable[Stored], names: Collection[str]) -> list[str]:
    """The names, in order, of files that took part in none of the sums."""
    ordered, new = sorted(names), set(names)
    for each in sums:
        with _opened(each) as file:
            for group in range(file.num_row_groups):
                if new and _may_name(file, group, ordered):
                    new.difference_update(_named(file, group))
    return sorted(new)


def put(sums: Location, number: int, files: Mapping[str, Location]) -> None:
    """Store the sums of a batch of files, in place of what an earlier attempt at it may have left.

    :param files: by their names.
    """
    parts = (part for file in files.values() for part in _minutes(file))
    _write(sums / f"batch-{number}.parquet", parts, iter(sorted(files)))


def merge(sums: Location) -> None:
    """Make few files of many. A repeated call completes one that was killed."""
    while due := _due(stored(sums)):
        parts = (part for each in due for part in _rows(each))
        names = in_order(*(_all_named(each) for each in due))
        _write(sums / f"batch-{due[0].first}-{due[-1].last}.parquet", parts, names)
    counting = stored(sums)
    for each in _all(sums):
        if any(other.covers(each) for other in counting):
            each.file.remove()


def totals(sums: Iterable[Stored]) -> pa.Table:
    """All sums together: rows of `TOTALS`, one for each of `TOTAL_OF`."""
    kept = [TOTALS.empty_table()]
    for part in chain.from_iterable(map(_rows, sums)):
        columns = [*(part[name] for name in (*TOTAL_OF, *SUMMED)), part[_MINUTE], part[_MINUTE]]
        kept.append(_total(pa.Table.from_arrays(columns, schema=TOTALS)))
        if sum(map(len, kept)) >= _PIECE_ROWS:
            kept = [_total(pa.concat_tables(kept))]
    return _total(pa.concat_tables(kept))


def _total(table: pa.Table) -> pa.Table:
    aggregates = [*((name, "sum") for name in SUMMED), ("first", "min"), ("last", "max")]
    grouped = table.group_by([*TOTAL_OF], use_threads=False).aggregate(aggregates)
    columns = [*TOTAL_OF, *("_".join(each) for each in aggregates)]
    return pa.Table.from_arrays([grouped[name] for name in columns], schema=TOTALS)


def _rows(sums: Stored) -> Iterator[pa.Table]:
    """The rows of a file without the names, some at a time."""
    with _opened(sums) as file:
        for batch in file.iter_batches(columns=[name for name in SUMS.names if name != _FILES]):
            yield pa.Table.from_batches([batch])


def _minutes(file: Location) -> Iterator[pa.Table]:
    """Sums of the rows of a log's file: parts, each of some rows."""
    wanted = (*KEYS, "time", *(_of_log(name) for name in SUMMED))
    for table in tables(file, wanted, DECISIONS, texts=KEYS):
        minute = pc.floor_temporal(table["time"], unit=_MINUTE)
        columns = (table[name] for name in KEYS), (minute,), (table[_of_log(name)] for name in SUMMED)
        yield _summed(pa.Table.from_arrays(list(chain(*columns)), names=[*KEYS, _MINUTE, *SUMMED]))


def _of_log(name: str) -> str:
    return "delay" if name == "delay_ns" else name


def _summed(table: pa.Table) -> pa.Table:
    return summed(table, (*KEYS, _MINUTE), SUMMED)


def _pieces(parts: Iterable[pa.Table]) -> Iterator[pa.Table]:
    """The same sums in few tables, in order of their minutes; few keys and minutes are in two of them."""
    sums: list[pa.Table] = []
    count = 0
    for part in parts:
        sums.append(part)
        count += len(part)
        if count < 2 * _PIECE_ROWS:
            continue
        sums = [_summed(pa.concat_tables(sums))]
        count = len(sums[0])
        if count >= _PIECE_ROWS:
            yield sums[0]
            sums, count = [], 0
    if sums:
        yield _summed(pa.concat_tables(sums))


def _write(target: Location, parts: Iterable[pa.Table], names: Iterator[str]) -> None:
    """Write a file of sums atomically.

    :param names: in order.
    """
    pieces = _pieces(parts)
    piece = next(pieces, None)
    with target.written() as file, pq.ParquetWriter(file, SUMS, compression="zstd") as writer:
        while piece is not None:
            after = next(pieces, None)
            # The first row of each group has some, and that of the last one all that are left.
            named = list(names if after is None else islice(names, _NAMES_AT_ONCE))
            others = pa.nulls(len(piece) - 1, _NAMES)
            files = pa.chunked_array([pa.array([named or None], _NAMES), others])
            group = piece.sort_by([(_MINUTE, "ascending"), ("topic", "ascending")])
            writer.write_table(group.append_column(_FILES, files), row_group_size=len(group))
            piece = after


@contextmanager
def _opened(sums: Stored) -> Iterator[pq.ParquetFile]:
    try:
        with opened(sums.file) as file:
            yield file
    except (pa.ArrowException, OSError) as error:
        raise LocationError(
            f"cannot read {sums.file}: {one_line(error)}; without it files would count twice: put it back, "
            "or remove all of the state and call again"
        ) from None


def _may_name(file: pq.ParquetFile, group: int, ordered: Sequence[str]) -> bool:
    """Whether a group of rows may have one of these names."""
    # It is the last column, and a list has one column of values.
    known = file.metadata.row_group(group).column(len(SUMS) - 1).statistics
    if known is None or not known.has_min_max:
        return True
    at = bisect_left(ordered, known.min)
    return at < len(ordered) and ordered[at] <= known.max


def _named(file: pq.ParquetFile, group: int) -> list[str]:
    names: list[str] = pc.list_flatten(file.read_row_group(group, columns=[_FILES])[_FILES]).to_pylist()
    return names


def _all_named(sums: Stored) -> Iterator[str]:
    with _opened(sums) as file:
        for group in range(file.num_row_groups):
            yield from _named(file, group)


def _due(sums: list[Stored]) -> list[Stored]:
    """The files to merge next, if there are enough; later files do not change the choice."""
    for _, group in groupby(sums, key=lambda each: each.level):
        alike = list(group)
        if len(alike) >= MERGED_AT_ONCE:
            return alike[:MERGED_AT_ONCE]
    return []


def _all(sums: Location) -> Iterator[Stored]:
    """Every file that is named like one of sums."""
    for file in listing(sums).files:
        if name := _FILE.fullmatch(file.location.name):
            yield Stored(int(name[1]), int(name[2] or name[1]), file.location)
