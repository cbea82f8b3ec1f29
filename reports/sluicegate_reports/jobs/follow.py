"""Follows a log: each call counts the files that are new, and none twice.

Spark's checkpoint says which files belong to which batch; each batch is summed up and stored under its
number, written beside it and then renamed. A process may be ended at any time: a batch that was stored
and not yet noted by the checkpoint is computed again from the same files and takes its own place. Once
the checkpoint has noted all of them, many folders of sums become one.
"""

from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sluicegate_reports.jobs import follow_sums
from sluicegate_reports.jobs.follow_sums import KEYS, SUMMED, Stored
from sluicegate_reports.model.listing import FOLLOWED, Listing, is_finished, is_followed, is_spool, listing
from sluicegate_reports.model.places import Location, Place, place
from sluicegate_reports.model.results import Results, Table, Value, of_log
from sluicegate_reports.spark.reading import decisions_ddl, read_decisions

FILES_PER_BATCH = 64
"""So many at most, for a bounded memory; a file has up to some million rows."""

_ANY_AGE = "36500d"
"""Spark passes over files that are older than the newest one by 7 days unless it is told of another age. What
it has seen is in its checkpoint for good, so a greater age doubles nothing."""
_MINUTE = "yyyy-MM-dd HH:mm"


class FollowError(Exception):
    """A log cannot be followed; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What is known by now."""

    sums: DataFrame
    """All batches together: rows of SUMS, one for each key and minute."""
    batches: int
    new_batches: int
    """Of them, those of this call."""
    notes: tuple[str, ...] = ()
    """What is not in it yet."""
    new_rows: int = 0
    """Rows of the log that this call read; of more than a hundred batches, those of the last hundred."""


def follow(
    spark: SparkSession, directory: Location, state: Location, *, files_per_batch: int = FILES_PER_BATCH
) -> Followed:
    """Process the new files of a decision log, and return all sums.

    Only finished files are processed: a gateway finishes one after 5 minutes at most.

    :param directory: the log's; its path or URL must stay the same from call to call.
    :param state: where checkpoint and sums are kept; made if it does not exist. One call at a time.
    :raises FollowError: for files that are damaged or not of this log's form, and for sums without their
        checkpoint.
    """
    directory, state = place(directory).absolute(), place(state).absolute()
    listed = listing(directory)
    _refuse_damaged(spark, listed)
    sums = state / "sums"
    if sums.is_local:
        sums.path.mkdir(parents=True, exist_ok=True)
    before = follow_sums.stored(sums)
    _refuse_without_checkpoint(state, before)
    rows = 0
    if any(is_followed(file.place, directory) for file in listed.files):
        rows = _take_in(spark, directory, state, files_per_batch)
        # The checkpoint knows all batches to be done now, so none of them is computed again.
        follow_sums.merge(spark, sums)
    found = follow_sums.stored(sums)
    notes = tuple(_not_yet(listed, found))
    batches = _batches(found)
    return Followed(follow_sums.together(spark, found), batches, batches - _batches(before), notes, rows)


def findings(found: Followed) -> Results:
    """Tell the sums of all that was not simply allowed, and who asked most."""
    rows = found.sums.groupBy(*KEYS[:4], "operation", "policy", "action").agg(
        *(F.sum(name).alias(name) for name in SUMMED),
        # A collected timestamp would be told in this machine's zone, a text is in the session's.
        F.date_format(F.min("minute"), _MINUTE).alias("first"),
        F.date_format(F.max("minute"), _MINUTE).alias("last"),
    )
    collected = rows.collect()
    decided = sum(row["decisions"] for row in collected)
    refused = sum(row["decisions"] for row in collected if row["action"] in ("reject", "drop"))
    return of_log(
        title="What a log says by now",
        summary=f"{decided:,} decisions, of them {refused:,} refused or dropped.",
        facts={
            "batches": f"{found.batches}, {found.new_batches} of them new",
            "read by this call": f"{found.new_rows:,} rows of the log",
        },
        tables=(_table(collected),),
        notes=found.notes,
    )


def _not_yet(listed: Listing, found: list[Stored]) -> Iterator[str]:
    """What a reader of the sums might miss."""
    unfinished = sum(is_spool(file.place) for file in listed.files)
    if unfinished:
        yield f"{unfinished} files are being written, and are taken in when they are finished."
    if not found:
        yield (
            f"There is no finished file in {str(listed.folder)!r}, and there never was: it takes 5 minutes "
            "at most until a gateway finishes one; is that a decision log's directory, <state_dir>/decisions?"
        )


def _refuse_damaged(spark: SparkSession, listed: Listing) -> None:
    """Spark would fail on them at every call, and passing over them would leave a gap."""
    damaged = [left for left in read_decisions(spark, listed).left_out if is_finished(left.path)]
    if damaged:
        told = "\n".join(f"{left.path} {left.reason}" for left in damaged)
        raise FollowError(f"{told}\nmove what cannot be read out of {listed.folder}, then call again")


def _refuse_without_checkpoint(state: Place, found: list[Stored]) -> None:
    """Spark would take in the whole log once more, under numbers that have sums already."""
    if found and not (state / "checkpoint" / "offsets").files():
        raise FollowError(
            f"{state} has sums and no checkpoint, so nothing says which files are in them; "
            "remove all of it and call again, or put the checkpoint back"
        )


def _batches(found: list[Stored]) -> int:
    return sum(each.batches for each in found)


def _take_in(spark: SparkSession, directory: Place, state: Place, files_per_batch: int) -> int:
    """Read new files; returns the number of rows."""
    source = spark.readStream.schema(decisions_ddl()).option("maxFilesPerTrigger", files_per_batch)
    source = source.option("maxFileAge", _ANY_AGE)
    stream = source.parquet(str(directory / FOLLOWED))
    query = (
        stream.writeStream.foreachBatch(partial(follow_sums.put, state / "sums"))
        .option("checkpointLocation", str(state / "checkpoint"))
        .trigger(availableNow=True)
        .start()
    )
    query.awaitTermination()
    return sum(batch.numInputRows for batch in query.recentProgress)


def _table(rows: list[Row]) -> Table:
    told: list[tuple[Value, ...]] = [
        (
            *(row[name] for name in KEYS[:4]),
            row["operation"],
            row["policy"],
            row["action"],
            row["decisions"],
            row["messages"],
            row["bytes"],
            row["first"],
            row["last"],
        )
        for row in rows
    ]
    told.sort(key=lambda row: (row[6] == "allow", -int(row[7] or 0), *map(str, row[:7])))
    columns = (*KEYS[:4], "operation", "policy", "action", "decisions", "messages", "bytes", "first", "last")
    return Table(columns, tuple(told), "sums", "By topic, policy and action (times in UTC)")
