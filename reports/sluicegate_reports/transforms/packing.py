"""Packs logs, see `packed`: one pass over each cuts it into pieces of one topic."""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from sluicegate_reports.model.timestamps import in_microseconds
from sluicegate_reports.transforms.attribution import ATTACHES, MARKED
from sluicegate_reports.transforms.packed import (
    ATTACHING,
    COLUMNS,
    DECISIONS,
    OBSERVATIONS,
    SCHEMA,
    SEPARATOR,
    TEXTS,
    TOPIC_COLUMNS,
    WHOLE,
    alike,
)

DAMAGED = "DAMAGED_PARQUET_FILE"
"""In the message of the error where a file is damaged inside."""
_PIECE_ROWS = 262_144
_MARKED = MARKED.replace("(", "(?P<id>", 1)
_FROM = {
    "time_us": "time",
    "published_us": "published",
    "phase": "scenario",
    "others": "other_reasons",
    "limit_milli": "limit",
}
"""Columns of the logs that packed ones are made of, where their names differ."""
_RUN = "run"
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "binary": pa.binary()}
_KIND = {DECISIONS: "operation", OBSERVATIONS: "event"}


@dataclass(frozen=True, slots=True)
class Kept:
    """Which topics' rows are packed."""

    systems: frozenset[str] | None = None
    """Those of these systems; None for all."""
    without: frozenset[tuple[str, str, str]] = frozenset()
    """System, door and topic of what is left out."""
    run: str = ""
    """Those of this run; empty for all."""

    def __call__(self, system: str, door: str, topic: str) -> bool:
        """Whether a topic's are."""
        return (system, door, topic) not in self.without and (self.systems is None or system in self.systems)

    def of_run(self, table: pa.Table) -> pa.Table:
        """The rows of the run."""
        return table.filter(pc.equal(table[_RUN], self.run)) if self.run else table


SLICE_ROWS = 1_000_000
"""Of a slice: a task of fewer takes longer to be sent and begun than to run."""
CUT_FROM = 4
"""Slices: a topic with the rows of fewer stays whole, as putting parts together costs something too."""
Cuts: TypeAlias = Mapping[tuple[str, str, str | None], int]
"""Topics of which there is so much that they are cut into slices of time: system, door and topic, and the
length of a slice in us."""


@dataclass(frozen=True, slots=True)
class Source:
    """A log that is to be packed."""

    files: tuple[str, ...] = ()
    """On the disks of the machines where it is packed."""
    tables: tuple[pa.Table, ...] = ()
    """Rows in memory."""
    kept: Kept = Kept()


def wanted(log: str, kept: Kept) -> list[str]:
    """The columns of a log that packed ones are made of."""
    wanted = [_KIND[log], "text", *TOPIC_COLUMNS, *(_FROM.get(name, name) for name in COLUMNS[log])]
    return [*wanted, _RUN] if kept.run else wanted


def batches_of(tables: Iterable[pa.Table], columns: Collection[str]) -> Iterator[pa.RecordBatch]:
    """Those columns of rows in memory."""
    for table in tables:
        names = [name for name in table.column_names if name in columns]
        yield from table.select(names).to_batches(_PIECE_ROWS)


def read(files: Iterable[str], columns: Collection[str]) -> Iterator[pa.RecordBatch]:
    """Those columns of some files.

    :raises RuntimeError: with DAMAGED, if one is damaged inside.
    """
    for path in files:
        try:
            with pq.ParquetFile(path) as file:
                names = [name for name in file.schema_arrow.names if name in columns]
                batches_of_file = file.iter_batches(_PIECE_ROWS, columns=names, use_threads=False)
                yield from map(in_microseconds, batches_of_file)
        except (FileNotFoundError, PermissionError):
            raise  # it may be whole
        except (pa.ArrowException, OSError) as error:
            raise RuntimeError(f"{DAMAGED}: {path}: {error}") from None


def packed(batches: Iterable[pa.RecordBatch], log: str, kept: Kept, cuts: Cuts) -> Iterator[pa.RecordBatch]:
    """Pack rows of a log.

    :return: columns of `packed.SCHEMA`.
    """
    held: list[pa.RecordBatch] = []
    for batch in batches:
        held.append(batch)
        if sum(map(len, held)) >= _PIECE_ROWS:
            yield from _cut(_together(held), log, kept, cuts)
            held = []
    if held:
        yield from _cut(_together(held), log, kept, cuts)


def _together(batches: Sequence[pa.RecordBatch]) -> pa.Table:
    """Rows of several files, of which one may lack columns that others have, or exclude nulls in them."""
    return pa.concat_tables((pa.Table.from_batches([batch]) for batch in batches), promote_options="default")


def _cut(table: pa.Table, log: str, kept: Kept, cuts: Cuts) -> Iterator[pa.RecordBatch]:
    """The rows of each topic, or slice, of some rows; and once more, without a topic, what attaches."""
    table = kept.of_run(table)
    columns = [table[name].combine_chunks().dictionary_encode() for name in TOPIC_COLUMNS]
    number = np.zeros(len(table), np.int64)
    for column in columns:
        number = number * len(column.dictionary) + column.indices.to_numpy()
    rows = pa.table({name: _column(table, log, name) for name in COLUMNS[log]})
    order = np.argsort(number, kind="stable")
    # One look at all rows: to take those of each topic alone takes longer the more topics there are.
    rows = rows.take(order).combine_chunks()
    attaching = pc.is_in(table[_KIND[log]], pa.array(ATTACHING)).to_numpy()[order]
    for begin, end in alike(number[order]):
        system, door, topic = (column[int(order[begin])].as_py() for column in columns)
        if not kept(system, door, topic):
            continue
        own = rows.slice(begin, end - begin)
        for at, part in _slices(own, cuts.get((system, door, topic), 0)):
            yield _row(system, door, topic, at, log, _encoded(part))
        if attaching[begin:end].any():
            yield _row(system, door, None, WHOLE, log, _encoded(own.filter(attaching[begin:end])))


def _slices(rows: pa.Table, length_us: int) -> Iterator[tuple[int, pa.Table]]:
    """The rows of each slice, with its number.

    :param length_us: of a slice; 0 for one.
    """
    if not length_us:
        yield WHOLE, rows
        return
    number = rows["time_us"].to_numpy() // length_us
    if (np.diff(number) < 0).any():
        order = np.argsort(number, kind="stable")
        rows, number = rows.take(order).combine_chunks(), number[order]
    for begin, end in alike(number):
        yield int(number[begin]), rows.slice(begin, end - begin)


def _column(table: pa.Table, log: str, name: str) -> pa.ChunkedArray | pa.Array:
    """A column as it is packed; nulls if the log has none."""
    if name == "decision_id":
        return _decision_ids(table, log)
    if name == "text":
        refused = pc.equal(table["event"], "attach_refused")
        return pc.if_else(refused, table["text"], pa.nulls(len(table), pa.string()))
    of = _FROM.get(name, name)
    if of not in table.column_names:
        return pa.nulls(len(table), pa.string() if name in TEXTS else pa.int64())
    if name == "others":
        return _others(table[of])
    if name == "limit_milli":
        return pc.round(pc.multiply(table[of], 1_000)).cast(pa.int64(), safe=False)
    return table[of] if name in TEXTS else table[of].cast(pa.int64())


def _others(reasons: pa.ChunkedArray) -> pa.Array:
    """The policies that a decision names beside the one that decided."""
    if reasons.null_count == len(reasons):
        return pa.nulls(len(reasons), pa.string())
    names = [[each["policy"] or "" for each in row or ()] for row in reasons.to_pylist()]
    return pa.array([SEPARATOR.join(row) if row else None for row in names], pa.string())


def _decision_ids(table: pa.Table, log: str) -> pa.ChunkedArray | pa.Array:
    """What sets a refusal against its decision: the id in the log, or in what its client was told."""
    nothing = pa.nulls(len(table), pa.string())
    if log == DECISIONS:
        refused = pc.and_(
            pc.is_in(table["operation"], pa.array(ATTACHES)), pc.equal(table["action"], "reject")
        )
        wanted = pc.or_(pc.equal(table["operation"], "publish"), refused)
        return pc.if_else(wanted, table["decision_id"], nothing)
    text = table["text"]
    if text.null_count == len(text):
        return nothing
    return pc.struct_field(pc.extract_regex(text, _MARKED), "id")


def _row(*values: str | bytes | int | None) -> pa.RecordBatch:
    names, kinds = zip(*(part.split() for part in SCHEMA.split(", ")), strict=True)
    arrays = [pa.array([value], _ARROW[kind]) for value, kind in zip(values, kinds, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, names=list(names))


def _encoded(rows: pa.Table) -> bytes:
    columns = [
        rows[name].combine_chunks().dictionary_encode() if name in TEXTS else rows[name].combine_chunks()
        for name in rows.column_names
    ]
    batch = pa.RecordBatch.from_arrays(columns, names=rows.column_names)
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema, options=pa.ipc.IpcWriteOptions(compression="lz4")) as stream:
        stream.write_batch(batch)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed
