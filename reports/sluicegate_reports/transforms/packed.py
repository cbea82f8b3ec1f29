"""Packed logs: the rows of each topic as columns in binary, so that Spark moves few rows, not millions.

`packing` makes them. Whatever looks at single rows is then a function of a `Topic`, in numpy.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import groupby, pairwise
from operator import itemgetter
from typing import Any, NamedTuple, TypeAlias

import numpy as np
import pyarrow as pa

Numbers: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.int64]]
Flags: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.bool_]]
Key: TypeAlias = tuple[str | int | None, ...]
"""System and door first."""
Part: TypeAlias = tuple[Key, Any]
"""What one topic, or a slice of it, gives to a figure of several, and the key of those."""

TOPIC_COLUMNS = ("system", "door", "topic")
ATTACHING = ("attach_producer", "attach_consumer", "attached", "attach_refused")
"""Operations of decisions and events of observations that a limit over all topics of an arm counts."""
SEPARATOR = "\x1f"
"""Separator of the policies in `others`."""
NEVER = np.iinfo(np.int64).min
"""Sentinel: no such time."""
SCHEMA = "system string, door string, topic string, slice bigint, log string, rows binary"
"""A row for each piece; all pieces of a topic's slice are in one partition, one after the other."""
WHOLE = -1
"""Sentinel: the slice of a topic that is not cut."""
DECISIONS, OBSERVATIONS = "decisions", "observations"
COLUMNS = {
    DECISIONS: (
        *("time_us", "gateway", "client", "operation", "subscription", "policy", "action", "others"),
        *("delay", "bytes", "messages", "decisions", "decision_cost", "window", "decision_id"),
        *("policy_version", "limit_milli", "host", "worker"),
    ),
    OBSERVATIONS: (
        *("time_us", "phase", "client", "role", "event", "subscription", "producer"),
        *("sequence", "messages", "bytes", "latency_ns", "delay_ms", "published_us", "decision_id"),
        *("code", "text", "acknowledges"),
    ),
}
"""What a piece has of each row, but for its topic."""
TEXTS = frozenset(
    {
        *("gateway", "client", "operation", "subscription", "policy", "action", "others", "host"),
        *("phase", "role", "event", "producer", "code"),
    }
)
"""Columns of texts of which there are few; those of `MANY` are of many, the others are numbers."""
MANY = ("decision_id", "text")
"""Texts that are all different. `text` is what a client was told that may not attach."""


def alike(values: np.ndarray[Any, Any]) -> Iterator[tuple[int, int]]:
    """Begin and end of each part of equal values."""
    changes = (np.flatnonzero(np.diff(values)) + 1).tolist()
    yield from pairwise([0, *changes, len(values)] if len(values) else [])


class Text(NamedTuple):
    """A column of texts: each row's index in `names`, -1 of a null."""

    codes: np.ndarray[tuple[int], np.dtype[np.int32]]
    names: list[str]

    def among(self, *values: str | None) -> Flags:
        """Rows that have one of these values."""
        wanted = np.array([*(name in values for name in self.names), None in values])
        return wanted[self.codes]

    def where(self, rows: Flags) -> "Text":
        """Those rows."""
        return Text(self.codes[rows], self.names)


class Names:
    """Numbers for the texts of one column, the same in all pieces."""

    def __init__(self) -> None:
        self._numbers: dict[str | None, int] = {}

    def of(self, text: Text) -> Numbers:
        """The number of each row's text; a null has one too."""
        for name in (*text.names, None):
            self._numbers.setdefault(name, len(self._numbers))
        return np.array([self._numbers[name] for name in (*text.names, None)])[text.codes]

    def number(self, name: str | None) -> int:
        """The number of a text; -1 if it has none."""
        return self._numbers.get(name, -1)

    def of_others(self, others: "Names") -> Numbers:
        """For each number of others' the own one."""
        numbers = (self._numbers.setdefault(name, len(self._numbers)) for name in others)
        return np.fromiter(numbers, np.int64, len(others))

    def __iter__(self) -> Iterator[str | None]:
        return iter(self._numbers)

    def __getitem__(self, number: int) -> str | None:
        return list(self._numbers)[number]

    def __len__(self) -> int:
        return len(self._numbers)


class Piece:
    """Some rows of one log, all of one topic."""

    def __init__(self, table: pa.Table) -> None:
        self._table = table

    def where(self, rows: Flags) -> "Piece":
        """Those rows."""
        return Piece(self._table.filter(pa.array(rows)))

    def number(self, name: str, absent: int = 0) -> Numbers:
        """A column of whole numbers, and what stands for a null."""
        numbers: Numbers = self._table[name].fill_null(absent).to_numpy()
        return numbers

    def known(self, name: str) -> Flags:
        """Rows that have a value."""
        known: Flags = self._table[name].is_valid().to_numpy()
        return known

    def text(self, name: str) -> Text:
        """A column of texts of which there are few."""
        column = self._table[name].combine_chunks()
        return Text(
            column.indices.fill_null(-1).to_numpy(zero_copy_only=False), column.dictionary.to_pylist()
        )

    def each(self, name: str, rows: Flags) -> list[str]:
        """A column of texts that are all different, of some rows."""
        texts: list[str] = self._table[name].filter(pa.array(rows)).to_pylist()
        return texts

    def rows(self, rows: Flags) -> pa.Table:
        """Some rows with all columns that were asked for."""
        return self._table.filter(pa.array(rows))


@dataclass(frozen=True, slots=True)
class Topic:
    """All that both logs have of a topic, or of one slice of its time.

    Without a name, what attaches to any topic of its arm.
    """

    system: str
    door: str
    name: str | None
    pieces: tuple[tuple[str, bytes], ...]
    slice: int = WHOLE
    """In order of time; the logs are cut by their own clocks."""

    @property
    def topic_key(self) -> tuple[str, str, str | None]:
        """System, door and name."""
        return self.system, self.door, self.name

    @property
    def is_whole(self) -> bool:
        """Whether this is all of it."""
        return self.slice == WHOLE

    @property
    def arm(self) -> tuple[str, str]:
        """System and door."""
        return self.system, self.door

    @property
    def is_observed(self) -> bool:
        """Whether clients saw anything of it."""
        return any(log == OBSERVATIONS for log, _ in self.pieces)

    def decisions(self, *columns: str) -> Iterator[Piece]:
        """The decision log's rows, piece by piece, with these columns."""
        return self._read(DECISIONS, columns)

    def observations(self, *columns: str) -> Iterator[Piece]:
        """The observations, piece by piece, with these columns."""
        return self._read(OBSERVATIONS, columns)

    def _read(self, log: str, columns: tuple[str, ...]) -> Iterator[Piece]:
        for of, rows in self.pieces:
            if of == log:
                # What is not asked for is not decompressed.
                fields = sorted(COLUMNS[log].index(name) for name in columns)
                options = pa.ipc.IpcReadOptions(use_threads=False, included_fields=fields)
                with pa.ipc.open_stream(rows, options=options) as stream:
                    yield Piece(stream.read_all())


def topics(batches: Iterable[pa.RecordBatch]) -> Iterator[Topic]:
    """The topics of a partition of packed logs, or their slices."""
    rows = (row for batch in batches for row in batch.to_pylist())
    for topic_key, own in groupby(rows, itemgetter(*TOPIC_COLUMNS, "slice")):
        system, door, topic, number = topic_key
        yield Topic(system, door, topic, tuple((row["log"], row["rows"]) for row in own), number)
