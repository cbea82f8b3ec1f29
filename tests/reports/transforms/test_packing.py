"""A log is packed the same way whichever reader reads it."""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from tests.reports.planted.book import Book
from tests.reports.planted.faults import library

from sluicegate_reports.spark import reading
from sluicegate_reports.spark.tasks import Framed, InTasks, packed_in_tasks
from sluicegate_reports.transforms.here import packed_here
from sluicegate_reports.transforms.packed import COLUMNS, MANY, TEXTS, Piece, Topic, topics
from sluicegate_reports.transforms.packing import Kept, Source

_FAULTS = list(library())[:3]
KEPT = Kept(frozenset({"kafka"}), frozenset({("kafka", "proxy", "left-out")}), "r1")


def values(piece: Piece, name: str) -> list[Any]:
    """A column, with None for what is null."""
    if name in TEXTS:
        text = piece.text(name)
        return [[*text.names, None][code] for code in text.codes]
    known = piece.known(name)
    known_values = iter(piece.each(name, known) if name in MANY else piece.number(name)[known].tolist())
    return [next(known_values) if is_known else None for is_known in known]


def rows(pieces: list[Piece], log: str) -> list[tuple[Any, ...]]:
    """All rows, in a fixed order."""
    columns = [zip(*(values(piece, name) for name in COLUMNS[log]), strict=True) for piece in pieces]
    return sorted((row for each in columns for row in each), key=str)


def in_tasks(logs: InTasks) -> list[Topic]:
    """The topics that Spark has packed."""
    return list(topics([pa.RecordBatch.from_pylist([row.asDict() for row in logs.frame.collect()])]))


def content(several: Iterable[Topic]) -> dict[tuple[str, str, str | None], tuple[list[Any], list[Any]]]:
    """What is packed of each topic."""

    def rows_of(topic: Topic) -> tuple[list[Any], list[Any]]:
        decided = list(topic.decisions(*COLUMNS["decisions"]))
        return rows(decided, "decisions"), rows(
            list(topic.observations(*COLUMNS["observations"])), "observations"
        )

    return {(topic.system, topic.door, topic.name): rows_of(topic) for topic in several}


@pytest.fixture
def run(tmp_path: Path) -> Path:
    """A run with refusals, of which some name their decision, and with attachments."""
    book = Book()
    for fault in _FAULTS:
        fault.plant(book, fault.name)
    _FAULTS[0].plant(book, "left-out")
    book.write(tmp_path)
    return tmp_path


def test_spark_and_its_processes_read_the_same(spark: SparkSession, run: Path) -> None:
    logs = (
        reading.read_decisions(run / "decisions"),
        reading.read_observations(run / "observations"),
    )
    assert all(log.paths for log in logs)
    names = ("decisions", "observations")
    framed = {name: Framed(log.frame(spark), KEPT) for name, log in zip(names, logs, strict=True)}
    sources = {name: Source(log.paths, kept=KEPT) for name, log in zip(names, logs, strict=True)}
    by_spark = content(in_tasks(packed_in_tasks(spark, framed)))
    of_files = content(in_tasks(packed_in_tasks(spark, sources)))
    assert of_files == by_spark == content(packed_here(sources).topics)
    assert all(decided and seen for (_, _, topic), (decided, seen) in of_files.items() if topic)
    assert {topic for _, _, topic in of_files} >= {fault.name for fault in _FAULTS}
    assert "left-out" not in {topic for _, _, topic in of_files}


@pytest.mark.parametrize("by_spark", [True, False])
def test_rows_of_another_run_are_not_packed(spark: SparkSession, run: Path, by_spark: bool) -> None:
    log = reading.read_observations(run / "observations")
    kept = Kept(run="r0")
    source = Framed(log.frame(spark), kept) if by_spark else Source(log.paths, kept=kept)
    assert not packed_in_tasks(spark, {"observations": source}).frame.count()


def test_a_file_that_is_damaged_inside_is_told_from_other_failures(spark: SparkSession, run: Path) -> None:
    log = reading.read_observations(run / "observations")
    damaged = run / "damaged.parquet"
    content = np.frombuffer(Path(log.paths[0]).read_bytes(), np.uint8).copy()
    content[100:-2_000:7] ^= 255
    damaged.write_bytes(content.tobytes())
    with pytest.raises(Exception) as raised:  # noqa: PT011 - which class it is depends on the session
        packed_in_tasks(spark, {"observations": Source((str(damaged),))})
    assert reading.is_damage(raised.value)
    with pytest.raises(Exception) as raised:  # noqa: PT011 - likewise
        packed_in_tasks(spark, {"observations": Source((str(run / "gone.parquet"),))})
    assert not reading.is_damage(raised.value)
