"""Reads what was lately published and dispatched on some topics, within bounds of rows, bytes and time."""

import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicegate.decisions.reading import check_schema, coded_tables
from sluicegate.decisions.schema import SCHEMA
from sluicegate.decisions.spool import DecisionLogError, parquet_files, parquet_path, spools

_NUMBERS = ("time", "messages", "bytes", "window")
_NAMES = ("gateway", "topic", "principal", "client", "subscription", "operation", "policy", "action")
"""Columns in the order of `Row`."""
_CODED = pa.dictionary(pa.int32(), pa.string())
_TIMES = SCHEMA.field("time").type
_READ = pa.schema(
    [(name, _CODED) for name in _NAMES] + [(name, SCHEMA.field(name).type) for name in _NUMBERS]
)
_SCHEMA = pa.schema([(name, _CODED) for name in _NAMES] + [(name, pa.int64()) for name in _NUMBERS])
_OPERATIONS = pa.array(["publish", "dispatch"])
_ACTIONS = pa.array(["allow", "reject", "drop"])
"""How an operation ends. One that was held ends later in a row of its own, and if one was only observed,
another row says what was done."""
_BATCH_ROWS = 65_536
_ROWS_AT_ONCE = 1_024
"""More would keep other threads waiting while they are converted."""

Wanted = Callable[[str, str], bool]
"""Whether the rows of a topic are wanted, by the names of the gateway's broker entry and of the topic."""


class Bounds(NamedTuple):
    """What a look back may cost."""

    rows: int = 200_000
    """Most rows that are returned; some hundred bytes each."""
    bytes: int = 1 << 30
    """Most bytes of files that are opened."""
    seconds: float = 3.0
    """Longest time."""


BOUNDS = Bounds()


class Row(NamedTuple):
    """A row of the log, or a window; texts and values as its columns have them."""

    time_us: int
    """Since 1970."""
    messages: int
    bytes: int
    window: int
    gateway: str
    topic: str
    principal: str | None
    client: str | None
    subscription: str | None
    operation: str
    policy: str | None
    action: str


class Lookback(NamedTuple):
    """What was found."""

    table: pa.Table
    """In order of time, for `rows`."""
    notes: tuple[str, ...]
    """Why it is not everything; empty if it is."""
    has_files: bool
    """Whether there is a log at all."""


def look_back(directory: Path, since_s: float, wanted: Wanted, bounds: Bounds = BOUNDS) -> Lookback:
    """Read the rows of some topics since a time, those of the newest files first.

    :param directory: the log's directory; it need not exist.
    :param since_s: seconds since 1970.
    :param wanted: asked once for each topic of a part of a file.
    """
    files = _files(directory)
    newest, notes = _Newest(bounds.rows), []
    until = time.monotonic() + bounds.seconds
    left = bounds.bytes
    for modified, size, file in files:
        if modified < since_s:
            break
        if size > left:
            notes.append(f"only the newest {bounds.bytes >> 20} MiB of the decision log were read")
            break
        left -= size
        try:
            for table in _tables(file, since_s):
                newest.add(_chosen(table, since_s, wanted))
                if time.monotonic() > until:
                    notes.append(f"reading took longer than {bounds.seconds:g} s, the rest was left out")
                    return Lookback(newest.table(), (*newest.notes, *notes), True)
        except FileNotFoundError:
            continue  # removed meanwhile, as it is too old
        except (OSError, pa.ArrowException, DecisionLogError) as error:
            notes.append(f"a file of the decision log cannot be read: {error}")
    return Lookback(newest.table(), (*newest.notes, *notes), bool(files))


def rows(table: pa.Table) -> Iterator[Row]:
    """The rows of `Lookback.table`, converted a few at a time."""
    columns = [table.column(name).combine_chunks() for name in (*_NUMBERS, *_NAMES)]
    texts = [(*each.dictionary.to_pylist(), None) for each in columns[len(_NUMBERS) :]]
    for start in range(0, len(table), _ROWS_AT_ONCE):
        parts = [each.slice(start, _ROWS_AT_ONCE) for each in columns]
        numbers = [_integers(each) for each in parts[: len(_NUMBERS)]]
        indices = [_integers(each.indices) for each in parts[len(_NUMBERS) :]]
        named = [[known[index] for index in of] for known, of in zip(texts, indices, strict=True)]
        yield from map(Row, *numbers, *named)


def _integers(array: pa.Array) -> list[int]:
    """The values of an array, -1 for null; many times as fast as its own conversion."""
    filled = array.fill_null(-1)
    buffer = memoryview(filled.buffers()[1])
    values = buffer.cast("i") if filled.type == pa.int32() else buffer.cast("q")
    return list(values[filled.offset : filled.offset + len(filled)])


class _Newest:
    """Keeps the newest rows.

    :param most: so many.
    """

    def __init__(self, most: int) -> None:
        self._most = most
        self._tables: list[pa.Table] = []
        self._rows = 0
        self.notes: tuple[str, ...] = ()

    def add(self, table: pa.Table) -> None:
        """Add rows in any order."""
        self._tables.append(table)
        self._rows += len(table)
        if self._rows > 2 * self._most:
            self.table()

    def table(self) -> pa.Table:
        """The newest rows in order of time."""
        joined = pa.concat_tables([_SCHEMA.empty_table(), *self._tables]).unify_dictionaries()
        joined = joined.sort_by("time")
        if len(joined) > self._most:
            self.notes = (f"only the last {self._most} rows of the decision log were replayed",)
            joined = joined.slice(len(joined) - self._most)
        self._tables, self._rows = [joined], len(joined)
        return joined


def _files(directory: Path) -> list[tuple[float, int, Path]]:
    """Spools and Parquet files with the time of their last change and their size, newest first."""
    # Spools are listed first: one that is compacted meanwhile is found twice, but read once.
    spooled = spools(directory)
    finished = parquet_files(directory)
    done = set(finished)
    files = []
    for path in [*finished, *(spool for spool in spooled if parquet_path(spool) not in done)]:
        try:
            status = path.stat()
        except OSError:
            continue
        files.append((status.st_mtime, status.st_size, path))
    return sorted(files, reverse=True)


def _tables(file: Path, since_s: float) -> Iterator[pa.Table]:
    if file.suffix != ".jsonl":
        yield from _parquet_tables(file, since_s)
        return
    try:
        yield from coded_tables(file, _BATCH_ROWS)
    except FileNotFoundError:  # it was compacted after it was listed
        yield from _parquet_tables(parquet_path(file), since_s)


def _parquet_tables(file: Path, since_s: float) -> Iterator[pa.Table]:
    with pq.ParquetFile(file, read_dictionary=list(_NAMES)) as parquet:
        check_schema(parquet.schema_arrow, file)
        groups = [each for each in range(parquet.num_row_groups) if _may_have(parquet, each, since_s)]
        names = [*_NAMES, *_NUMBERS]
        for batch in parquet.iter_batches(_BATCH_ROWS, row_groups=groups, columns=names):
            yield pa.Table.from_batches([batch])


def _may_have(parquet: pq.ParquetFile, group: int, since_s: float) -> bool:
    """Whether a row group has rows since a time, by its statistics."""
    index = parquet.schema_arrow.get_field_index("time")
    statistics = parquet.metadata.row_group(group).column(index).statistics
    if statistics is None or not statistics.has_min_max:
        return True
    return bool(statistics.max.timestamp() >= since_s)


def _chosen(table: pa.Table, since_s: float, wanted: Wanted) -> pa.Table:
    since = pa.scalar(int(since_s * 1e6), _TIMES)
    table = table.select(_READ.names).cast(_READ)
    table = table.filter(
        pc.and_(
            pc.greater_equal(table["time"], since),
            pc.and_(_is_in(table["operation"], _OPERATIONS), _is_in(table["action"], _ACTIONS)),
        )
    ).cast(_SCHEMA)
    parts = []
    for gateway in pc.unique(table["gateway"].cast(pa.string())).to_pylist():
        own = table.filter(_is_in(table["gateway"], pa.array([gateway])))
        topics = pc.unique(own["topic"].cast(pa.string())).to_pylist()
        asked = [topic for topic in topics if wanted(gateway, topic)]
        parts.append(own.filter(_is_in(own["topic"], pa.array(asked, pa.string()))))
    return pa.concat_tables([_SCHEMA.empty_table(), *parts])


def _is_in(column: pa.ChunkedArray, values: pa.Array) -> pa.ChunkedArray:
    return pc.is_in(column.cast(pa.string()), value_set=values)
