"""The sums that `follow` keeps: a folder for each batch, and for many batches that were merged.

`batch=N` has the sums of batch N, `batch=FIRST-LAST` those of all batches from FIRST to LAST. A folder counts
once Spark's mark of success is in it, and unless another one that counts covers its numbers. So there is no
moment at which a reader that keeps to this finds a batch twice or not at all.
"""

import re
import shutil
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import groupby
from pathlib import Path

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.model.places import Place
from sluicegate_reports.spark.session import partitions_for

SUMS = (
    "system string, door string, gateway string, topic string, principal string, operation string, "
    "action string, policy string, minute timestamp, decisions bigint, messages bigint, bytes bigint, "
    "delay_ns bigint"
)
"""What is stored: sums of each minute."""
KEYS = ("system", "door", "gateway", "topic", "principal", "operation", "action", "policy")
SUMMED = ("decisions", "messages", "bytes", "delay_ns")
MERGED_AT_ONCE = 16
"""So many folders of one size become one. Each batch is thus written again once for each power of 16, and
there are at most 15 folders of each size: 60 of 65,535 batches."""
_DONE = "_SUCCESS"
"""What Spark writes last of all."""
_NAME = re.compile(r"batch=(\d+)(?:-(\d+))?")


@dataclass(frozen=True, slots=True, order=True)
class Stored:
    """A folder that has sums."""

    first: int
    last: int
    folder: Place

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


def stored(sums: Place) -> list[Stored]:
    """The folders that count, in the order of their batches."""
    whole = [folder for folder, file in _folders(sums) if file.name == _DONE]
    counting: list[Stored] = []
    # Of those that begin alike the longest comes first, so that only the one before can cover a folder.
    for each in sorted(whole, key=lambda each: (each.first, -each.last)):
        if not counting or not counting[-1].covers(each):
            counting.append(each)
    return counting


def summed(decisions: DataFrame) -> DataFrame:
    """Sums of each minute: rows of SUMS."""
    return decisions.groupBy(*KEYS, F.date_trunc("minute", "time").alias("minute")).agg(
        F.sum("decisions").alias("decisions"),
        F.sum("messages").alias("messages"),
        F.sum("bytes").alias("bytes"),
        F.sum("delay").alias("delay_ns"),
    )


def together(spark: SparkSession, found: list[Stored]) -> DataFrame:
    """Several folders as one: rows of SUMS, one for each key and minute."""
    if not found:
        return spark.createDataFrame([], SUMS)
    rows = spark.read.schema(SUMS).parquet(*(str(each.folder) for each in found))
    return rows.groupBy(*KEYS, "minute").agg(*(F.sum(name).alias(name) for name in SUMMED))


def put(sums: Place, batch: DataFrame, number: int) -> None:
    """Store a batch under its number, in place of what an earlier attempt at it may have left."""
    # The sums of a batch are one file that one task writes: Spark's 200 partitions would only be parts of it.
    with partitions_for(batch.sparkSession, 0):
        _write(sums, summed(batch), str(number))


def merge(spark: SparkSession, sums: Place) -> None:
    """Make few folders of many. A repeated call completes one that was killed.

    Call it only while Spark's checkpoint knows all batches to be done: one that is computed again would find
    its place taken.
    """
    while due := _due(stored(sums)):
        with partitions_for(spark, 0):
            _write(sums, together(spark, due), f"{due[0].first}-{due[-1].last}")
    counting = stored(sums)
    # Also folders that a call has removed in part: the mark may be missing while the rows are there.
    for each in {each for each, _ in _folders(sums)}:
        if any(other.covers(each) for other in counting):
            each.folder.remove()


def place_batch(unfinished: Path, target: Path) -> None:
    """Move a written folder into place."""
    # An older attempt holds the same sums: between the two steps the checkpoint still lacks the batch.
    shutil.rmtree(target, ignore_errors=True)
    unfinished.rename(target)


def _write(sums: Place, rows: DataFrame, name: str) -> None:
    target, unfinished = sums / f"batch={name}", sums / f".batch-{name}.unfinished"
    # A store has no renaming in one step: there a folder counts from Spark's mark of success on.
    written = unfinished if sums.is_local else target
    rows.coalesce(1).write.mode("overwrite").parquet(str(written))
    if sums.is_local:
        place_batch(unfinished.path, target.path)


def _due(found: list[Stored]) -> list[Stored]:
    """The folders to merge next, if there are enough; later folders do not change the choice."""
    for _, group in groupby(found, key=lambda each: each.level):
        alike = list(group)
        if len(alike) >= MERGED_AT_ONCE:
            return alike[:MERGED_AT_ONCE]
    return []


def _folders(sums: Place) -> Iterator[tuple[Stored, Place]]:
    """Each file in a folder that is named like one of sums, with that folder, whether or not it is whole."""
    for file in sums.files():
        folder = file.place.parent
        if name := _NAME.fullmatch(folder.name):
            yield Stored(int(name[1]), int(name[2] or name[1]), folder), file.place
