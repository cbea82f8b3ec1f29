"""Figures of single topics and of all topics of an arm, computed where Spark has the packed logs."""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, TypeAlias

import pyarrow as pa
from pyspark.sql import DataFrame

from sluicegate_reports.spark.session import large_rows
from sluicegate_reports.transforms.packed import Part, Topic, topics

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]
OfTopic: TypeAlias = Callable[[Topic], Mapping[str, Sequence[Row]]]
"""Figures of a topic alone: rows by name of the figure."""


@dataclass(frozen=True, slots=True)
class OfArm:
    """A figure that all topics of an arm have a part in."""

    name: str
    of_topic: Callable[[Topic], Iterable[Part]]
    together: Callable[[Any, Sequence[Any]], Iterable[Row]]
    """Makes rows from a key and all its parts."""


_SCHEMA = "figure string, key string, body binary"
_ALONE = ""


def measured(packed: DataFrame, alone: Sequence[OfTopic], of_arms: Sequence[OfArm]) -> dict[str, Rows]:
    """Compute figures, in one job.

    :param packed: see `packing.packed`.
    :param alone: figures of topics.
    :param of_arms: figures of arms.
    :return: their rows by name.
    """
    parts = packed.mapInArrow(partial(_parts, alone=alone, of_arms=of_arms), _SCHEMA)
    of_arm = {figure.name: figure for figure in of_arms}
    whole = parts.groupBy("figure", "key").applyInArrow(_together(of_arm), _SCHEMA)
    found: dict[str, Rows] = {name: [] for name in of_arm}
    with large_rows(packed.sparkSession):
        told = whole.collect()
    for row in told:
        for name, rows in _loaded(row["body"]).items():
            found.setdefault(name, []).extend(rows)
    return found


def _parts(
    batches: Iterable[pa.RecordBatch], alone: Sequence[OfTopic], of_arms: Sequence[OfArm]
) -> Iterator[pa.RecordBatch]:
    for topic in topics(batches):
        for figures in alone:
            yield _row(_ALONE, (), dict(figures(topic)))
        # Rows without a topic are there a second time.
        for figure in of_arms if topic.name is not None else ():
            for key, part in figure.of_topic(topic):
                yield _row(figure.name, key, part)


def _together(of_arm: Mapping[str, OfArm]) -> Callable[[pa.Table], pa.Table]:
    """What makes rows of all parts with one key."""

    def together(table: pa.Table) -> pa.Table:
        name, key = table["figure"][0].as_py(), table["key"][0].as_py()
        parts = [_loaded(body) for body in table["body"].to_pylist()]
        found: dict[str, Rows] = {}
        if name == _ALONE:
            for figure, rows in (told for part in parts for told in part.items()):
                found.setdefault(figure, []).extend(rows)
        else:
            found[name] = list(of_arm[name].together(tuple(json.loads(key)), parts))
        return pa.Table.from_batches([_row(name, (), found)])

    return together


def _loaded(body: bytes) -> Any:
    # Spark's own processes wrote it, and Spark pickles what it sends them as well.
    return pickle.loads(body)  # noqa: S301


def _row(figure: str, key: Sequence[str | int], body: object) -> pa.RecordBatch:
    values = ((figure, pa.string()), (json.dumps(key), pa.string()), (pickle.dumps(body), pa.binary()))
    names = [part.split()[0] for part in _SCHEMA.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array([value], kind) for value, kind in values], names=names)
