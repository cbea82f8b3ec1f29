"""Follows a log: each call counts the files that are new, and none twice.

It needs no Spark. Files are read in batches; the sums of a batch and the names of its files are one file, see
`follow_sums`. So a process may be ended at any time, and the next call goes on.
"""

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from sluicegate.decisions.spool import locked
from sluicegate_reports.jobs import follow_sums
from sluicegate_reports.jobs.follow_sums import TOTAL_OF, Stored
from sluicegate_reports.model.listing import Listed, Listing, is_followed, is_spool, listing
from sluicegate_reports.model.locations import File, Location, LocationLike, locate
from sluicegate_reports.model.results import Results, Table, Value, of_log
from sluicegate_reports.spark.log_files import DECISIONS, DamagedError, remedy, whole
from sluicegate_reports.spark.progress import tell

FILES_PER_BATCH = 64
"""Files of one batch: as many as a killed call has to read again."""


class FollowError(Exception):
    """A log cannot be followed; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Followed:
    """What is known by now."""

    totals: pa.Table
    """All batches together: a row for each of `follow_sums.TOLD`."""
    batches: int
    new_batches: int
    """Of them, those of this call."""
    notes: tuple[str, ...] = ()
    """What is not in it yet."""
    new_rows: int = 0
    """Rows of the log that this call read."""


def follow(directory: Listed, state: LocationLike, *, files_per_batch: int = FILES_PER_BATCH) -> Followed:
    """Process the new files of a decision log, and return the sums of all.

    Only finished files are processed: a gateway finishes one after 5 minutes at most.

    :param directory: the log's. Files are known by their paths in it, or in the further log that has them.
    :param state: where the sums are kept; made if it does not exist. One call at a time.
    :raises FollowError: for files that are damaged or not of this log's form, for a state that another call
        uses, and for one of a release that used Spark.
    :raises LocationError: if a store fails, or the state cannot be read.
    """
    state = locate(state).absolute()
    with _alone(state):
        _refuse_of_spark(state)
        sums = state / "sums"
        if sums.is_local:
            sums.path.mkdir(exist_ok=True)
        listed, before = listing(directory), follow_sums.stored(sums)
        rows = _take_in(listed, sums, before, files_per_batch)
        follow_sums.merge(sums)
        now = follow_sums.stored(sums)
        notes = tuple(_not_yet(listed, now))
        return Followed(follow_sums.totals(now), _batches(now), _batches(now) - _batches(before), notes, rows)


def findings(followed: Followed) -> Results:
    """Tell the sums of all that was not simply allowed, and who asked most."""
    rows = followed.totals.to_pylist()
    decided = sum(row["decisions"] for row in rows)
    refused = sum(row["decisions"] for row in rows if row["action"] in ("reject", "drop"))
    return of_log(
        title="What a log says by now",
        summary=f"{decided:,} decisions, of them {refused:,} refused or dropped.",
        facts={
            "batches": f"{followed.batches}, {followed.new_batches} of them new",
            "read by this call": f"{followed.new_rows:,} rows of the log",
        },
        tables=(_table(rows),),
        notes=followed.notes,
    )


@contextmanager
def _alone(state: Location) -> Iterator[None]:
    """Make the folder of a state, and keep other calls on this machine out of it."""
    if not state.is_local:
        yield
        return
    state.path.mkdir(parents=True, exist_ok=True)
    with locked(state.path) as mine:
        if not mine:
            raise FollowError(f"another call uses {state}: wait for its end, then call again")
        yield


def _refuse_of_spark(state: Location) -> None:
    """What is in a checkpoint of Spark cannot be read, so all of the log would count twice."""
    if (state / "checkpoint").exists() or any(
        file.location.parent.name.startswith("batch=") for file in listing(state / "sums").files
    ):
        raise FollowError(
            f"{state} is of an earlier release, which kept a checkpoint of Spark there: remove all of it and "
            "call again; then the files that the log still has are counted anew. Keep a copy of its folder "
            "sums if the log has lost some"
        )


def _take_in(listed: Listing, sums: Location, before: Sequence[Stored], files_per_batch: int) -> int:
    """Read what is new; returns the number of rows."""
    files = {listed.name(file.location): file for file in listed.files}
    names = [name for name, file in files.items() if is_followed(file.location, name)]
    new = _with_rows([files[name] for name in follow_sums.unknown(before, names)], listed.folder)
    # A call after one that was killed writes the same number again, so no batch counts twice.
    first = before[-1].last + 1 if before else 0
    starts = range(0, len(new), files_per_batch)
    for number, start in enumerate(starts):
        tell(number, len(starts))
        batch = [file for file, _ in new[start : start + files_per_batch]]
        try:
            follow_sums.put(sums, first + number, {listed.name(file): file for file in batch})
        except DamagedError as error:
            raise FollowError(f"{error}\n{remedy(listed.folder)}") from None
    return sum(rows for _, rows in new)


def _with_rows(files: Sequence[File], log: Location) -> list[tuple[Location, int]]:
    """The files that have rows, with their number.

    :raises FollowError: for damaged ones: to pass over them would leave a gap.
    """
    try:
        files_with_counts = whole(files, log, DECISIONS, lambda file: int(file.metadata.num_rows))
    except DamagedError as error:
        raise FollowError(str(error)) from None
    return [(file.location, rows) for file, rows in files_with_counts if rows]


def _not_yet(listed: Listing, stored: Sequence[Stored]) -> Iterator[str]:
    """What a reader of the sums might miss."""
    unfinished = sum(is_spool(file.location) for file in listed.files)
    if unfinished:
        yield f"{unfinished} files are being written, and are taken in when they are finished."
    if not stored:
        yield (
            f"There is no finished file in {str(listed)!r}, and there never was: it takes 5 minutes "
            "at most until a gateway finishes one; is that a decision log's directory, <state_dir>/decisions?"
        )


def _batches(stored: Sequence[Stored]) -> int:
    return sum(each.batches for each in stored)


def _table(rows: Sequence[dict[str, Any]]) -> Table:
    columns = (*TOTAL_OF, "decisions", "messages", "bytes", "first", "last")
    texts = [{**row, **{name: f"{row[name]:%Y-%m-%d %H:%M}" for name in ("first", "last")}} for row in rows]
    lines: list[tuple[Value, ...]] = [tuple(row[name] for name in columns) for row in texts]
    lines.sort(key=lambda line: (line[6] == "allow", -int(line[7] or 0), *map(str, line[:7])))
    return Table(columns, tuple(lines), "sums", "By topic, policy and action (times in UTC)")
