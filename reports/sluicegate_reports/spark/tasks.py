"""Packs logs and computes figures in tasks of Spark.

Files that are on the disks of the machines where Spark runs are read by its Python processes themselves: by
way of Java each single value would be copied twice, which takes ten times as long. What is elsewhere Spark
reads.
"""

import json
import pickle
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial, reduce
from types import MappingProxyType
from typing import Any

import pyarrow as pa
from pyspark import StorageLevel
from pyspark.sql import DataFrame, SparkSession

from sluicegate_reports.spark.session import large_rows
from sluicegate_reports.transforms.packed import SCHEMA, TOPIC_COLUMNS, topics
from sluicegate_reports.transforms.packing import Cuts, Kept, Source, packed, read, wanted
from sluicegate_reports.transforms.parts import MADE, FigurePart, Figures, Rows, merged

_PARTS = "figure string, key string, slice bigint, body binary"


@dataclass(frozen=True, slots=True)
class Framed:
    """A log that Spark has to read."""

    frame: DataFrame
    kept: Kept


@dataclass(frozen=True, slots=True)
class InTasks:
    """Packed logs on the disks of Spark's executors."""

    frame: DataFrame
    """Columns of `packed.SCHEMA`."""

    def measured(self, figures: Figures) -> dict[str, Rows]:
        """Compute figures, in one job; their rows by name."""
        parts = self.frame.mapInArrow(partial(_parts, figures=figures), _PARTS)
        whole = parts.groupBy("figure", "key").applyInArrow(_together(figures), _PARTS)
        with large_rows(self.frame.sparkSession):
            rows = whole.collect()
        return merged([figures.nothing(), *(_loaded(row["body"]) for row in rows)])


def packed_in_tasks(
    spark: SparkSession,
    sources: Mapping[str, Source | Framed],
    *,
    cuts: Cuts = MappingProxyType({}),
) -> InTasks:
    """Pack logs, of which at least one has rows: a job that reads each once.

    :param sources: by log, `packed.DECISIONS` or `packed.OBSERVATIONS`; none has rows in memory.
    :param cuts: which topics are cut into slices.
    """
    pieces = (_pieces(spark, log, source, dict(cuts)) for log, source in sources.items())
    both = reduce(DataFrame.unionByName, pieces)
    topic_key = (*TOPIC_COLUMNS, "slice")
    gathered = both.repartition(_partitions(spark), *topic_key).sortWithinPartitions(*topic_key)
    return InTasks(gathered.localCheckpoint(storageLevel=StorageLevel.DISK_ONLY))


def _partitions(spark: SparkSession) -> int:
    return int(spark.conf.get("spark.sql.shuffle.partitions") or 1)


def _pieces(spark: SparkSession, log: str, source: Source | Framed, cuts: Cuts) -> DataFrame:
    pack = partial(packed, log=log, kept=source.kept, cuts=cuts)
    columns = wanted(log, source.kept)
    if isinstance(source, Framed):
        here = [name for name in source.frame.columns if name in columns]
        return source.frame.select(*here).mapInArrow(pack, SCHEMA)
    files = source.files
    numbers = spark.range(0, len(files), 1, min(len(files), _partitions(spark)) or 1)
    return numbers.mapInArrow(lambda each: pack(read(_numbered(each, files), columns)), SCHEMA)


def _numbered(batches: Iterable[pa.RecordBatch], files: tuple[str, ...]) -> Iterator[str]:
    for batch in batches:
        yield from (files[number] for number in batch["id"].to_pylist())


def _parts(batches: Iterable[pa.RecordBatch], figures: Figures) -> Iterator[pa.RecordBatch]:
    yield from map(_row, figures.parts(topics(batches)))


def _together(figures: Figures) -> Callable[[pa.Table], pa.Table]:
    """What makes rows of all parts with one key; Spark wants to see its types."""

    def together(table: pa.Table) -> pa.Table:
        table = table.sort_by("slice")
        name, key = table["figure"][0].as_py(), tuple(json.loads(table["key"][0].as_py()))
        rows = figures.together(name, key, (_loaded(body.as_py()) for body in table["body"]))
        return pa.Table.from_batches([_row(FigurePart(MADE, (), 0, rows))])

    return together


def _loaded(body: bytes) -> Any:
    # Spark's own processes wrote it, and Spark pickles what it sends them as well.
    return pickle.loads(body)  # noqa: S301


def _row(part: FigurePart) -> pa.RecordBatch:
    values = (
        (part.figure, pa.string()),
        (json.dumps(part.key), pa.string()),
        (part.slice, pa.int64()),
        (pickle.dumps(part.body), pa.binary()),
    )
    names = [column.split()[0] for column in _PARTS.split(", ")]
    return pa.RecordBatch.from_arrays([pa.array([value], kind) for value, kind in values], names=names)
