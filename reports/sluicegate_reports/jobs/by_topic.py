"""Figures of topics and of arms, from parts of them.

A figure has two functions: one makes a part of the rows of a topic, or of one slice of its time, the other
makes rows of all parts with one key. So it does not matter how a log was cut, nor where a part was made: in
tasks of Spark, or in this process.
"""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from sluicegate_reports.spark.session import large_rows
from sluicegate_reports.transforms.packed import Key, Part, Topic, topics

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]


@dataclass(frozen=True, slots=True)
class OfTopic:
    """Figures that concern one topic each."""

    name: str
    """Of this group of figures."""
    of_slice: Callable[[Topic], Any]
    """Makes the part of a slice."""
    together: Callable[[Key, Sequence[Any]], Mapping[str, Sequence[Row]]]
    """Makes rows, by name of the figure, from the place of a topic and its parts in order of time."""


@dataclass(frozen=True, slots=True)
class OfArm:
    """A figure that all topics of an arm have a part in."""

    name: str
    of_topic: Callable[[Topic], Iterable[Part]]
    together: Callable[[Any, Sequence[Any]], Iterable[Row]]
    """Makes rows from a key and all its parts; those of a topic are in order of time."""


class _Told(NamedTuple):
    """A part, or rows."""

    figure: str
    """`_MADE` of rows by name of their figure."""
    key: Key
    slice: int
    body: Any


@dataclass(frozen=True, slots=True)
class Figures:
    """What is to be computed."""

    of_topics: Sequence[OfTopic] = ()
    of_arms: Sequence[OfArm] = ()

    def parts(self, several: Iterable[Topic]) -> Iterator[_Told]:
        """The parts of some topics, or slices; rows of topics that are whole."""
        for topic in several:
            for figure in self.of_topics:
                part = figure.of_slice(topic)
                if topic.is_whole:
                    yield _Told(_MADE, (), 0, dict(figure.together(topic.place, [part])))
                else:
                    yield _Told(figure.name, topic.place, topic.slice, part)
            # Rows without a topic are there a second time.
            for of_arm in self.of_arms if topic.name is not None else ():
                for key, part in of_arm.of_topic(topic):
                    yield _Told(of_arm.name, key, topic.slice, part)

    def together(self, figure: str, key: Key, parts: Iterable[Any]) -> dict[str, Rows]:
        """The rows of all parts with one key."""
        if figure == _MADE:
            return _merged(parts)
        for of_topic in self.of_topics:
            if of_topic.name == figure:
                return _merged([of_topic.together(key, list(parts))])
        (of_arm,) = (each for each in self.of_arms if each.name == figure)
        return {figure: list(of_arm.together(key, list(parts)))}


def _merged(several: Iterable[Mapping[str, Sequence[Row]]]) -> dict[str, Rows]:
    found: dict[str, Rows] = {}
    for rows_of in several:
        for figure, rows in rows_of.items():
            found.setdefault(figure, []).extend(rows)
    return found


_SCHEMA = "figure string, key string, slice bigint, body binary"
_MADE = ""


def measured(packed: DataFrame, figures: Figures) -> dict[str, Rows]:
    """Compute figures, in one job of Spark.

    :param packed: see `packing.packed`.
    :return: their rows by name.
    """
    parts = packed.mapInArrow(partial(_parts, figures=figures), _SCHEMA)
    whole = parts.groupBy("figure", "key").applyInArrow(_together(figures), _SCHEMA)
    with large_rows(packed.sparkSession):
        told = whole.collect()
    return _merged([_nothing(figures), *(_loaded(row["body"]) for row in told)])


def measured_here(several: Iterable[Topic], figures: Figures) -> dict[str, Rows]:
    """Compute figures in this process.

    :return: their rows by name.
    """
    parts: dict[tuple[str, Key], list[_Told]] = {}
    for part in figures.parts(several):
        parts.setdefault((part.figure, part.key), []).append(part)
    made = (
        figures.together(*name, (each.body for each in sorted(own, key=_slice_of)))
        for name, own in parts.items()
    )
    return _merged([_nothing(figures), *made])


def _nothing(figures: Figures) -> dict[str, Rows]:
    return {figure.name: [] for figure in figures.of_arms}


def _slice_of(part: _Told) -> int:
    return part.slice


def _parts(batches: Iterable[pa.RecordBatch], figures: Figures) -> Iterator[pa.RecordBatch]:
    yield from map(_row, figures.parts(topics(batches)))


def _together(figures: Figures) -> Callable[[pa.Table], pa.Table]:
    """What makes rows of all parts with one key; Spark wants to see its types."""

    def together(table: pa.Table) -> pa.Table:
        table = table.sort_by("slice")
        name, key = table["figure"][0].as_py(), tuple(json.loads(table["key"][0].as_py()))
        found = figures.together(name, key, (_loaded(body.as_py()) for body in table["body"]))
        return pa.Table.from_batches([_row(_Told(_MADE, (), 0, found))])

    return together


def _loaded(body: bytes) -> Any:
    # Spark's own processes wrote it, and Spark pickles what it sends them as well.
    return pickle.loads(body)  # noqa: S301


def _row(part: _Told) -> pa.RecordBatch:
    values = (
        (part.figure, pa.string()),
        (json.dumps(part.key), pa.string()),
        (part.slice, pa.int64()),
        (pickle.dumps(part.body), pa.binary()),
    )
    names = [column.split()[0] for column in _SCHEMA.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array([value], kind) for value, kind in values], names=names)
