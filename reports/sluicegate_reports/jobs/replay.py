"""What-if: replays a log under candidate policies and reports new refusals and delays."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sluicegate.policies.delay import MAX_DELAY
from sluicegate_reports.jobs import replay_tables as tables
from sluicegate_reports.jobs.replay_tables import total
from sluicegate_reports.model.listing import Listed
from sluicegate_reports.model.results import Results, of_log
from sluicegate_reports.replaying.attaching import attached, attempts
from sluicegate_reports.replaying.candidate import Candidate
from sluicegate_reports.replaying.cutting import Cuts, cuts
from sluicegate_reports.replaying.delays import Delays, refused_for_delay
from sluicegate_reports.replaying.demand import demand
from sluicegate_reports.replaying.scope import EXACT, scope
from sluicegate_reports.replaying.tally import KEY_COLUMNS, SCHEMA
from sluicegate_reports.replaying.walk import replayed
from sluicegate_reports.spark.log_files import LeftOut
from sluicegate_reports.spark.reading import read_decisions
from sluicegate_reports.transforms.packing import CUT_FROM, SLICE_ROWS


class ReplayError(Exception):
    """Nothing can be replayed; the message says why, and what to do."""


@dataclass(frozen=True, slots=True)
class Replay:
    """A replay that is ready to run; its frame computes it each time that it is used."""

    frame: DataFrame
    """See `replaying.tally.SCHEMA`."""
    demand: DataFrame
    """What is asked."""
    candidate: Candidate
    files: int
    rows: int
    left_out: tuple[LeftOut, ...]
    long_tasks: tuple[str, ...] = ()
    """Notes about topics that one task replays though they have many rows."""


def replay(
    spark: SparkSession, directory: Listed, candidate: Candidate, slice_rows: int = SLICE_ROWS
) -> Replay:
    """Ask a candidate's policies about every operation of a log, topic by topic in order of time.

    :param directory: the decision log's, or the files of several.
    :param slice_rows: topics of `CUT_FROM` times as many rows are cut into slices, at pauses.
    :raises ReplayError: if there is nothing to ask.
    """
    log = read_decisions(directory)
    if not log.rows:
        left_out = [f"{left.path} is left out: it {left.reason}" for left in log.left_out]
        nothing = (
            f"there is not one decision in {str(directory)!r}: give the directory of a decision log, "
            "<state_dir>/decisions of a gateway, or `decisions` of a comparison run"
        )
        raise ReplayError("\n".join([*left_out, nothing]))
    frame = log.frame(spark)
    slices = cuts(frame, candidate, slice_rows) if log.rows >= CUT_FROM * slice_rows else Cuts()
    return Replay(
        replay_frame(frame, candidate, slices.starts),
        frame,
        candidate,
        log.files,
        log.rows,
        log.left_out,
        tuple(slices.notes),
    )


def replay_frame(
    decisions: DataFrame, candidate: Candidate, starts: Mapping[int, Sequence[int]] | None = None
) -> DataFrame:
    """As `replay`, of a frame of decisions: rows of `replaying.tally.SCHEMA`.

    :param starts: where slices of topics begin, see `replaying.cutting`.
    """
    asked = demand(decisions, counts=candidate.counts, unacked=candidate.unacked, starts=starts)
    frame = asked.mapInArrow(partial(replayed, candidate), SCHEMA)
    if starts:
        frame = _together(frame)
    if not candidate.attachments:
        return frame
    return frame.unionByName(attempts(decisions).mapInArrow(partial(attached, candidate), SCHEMA))


def _together(frame: DataFrame) -> DataFrame:
    """One row for what each of a topic's slices has a row of."""
    key = (*KEY_COLUMNS, "policy")
    # As `Outcome.worst`: the value that is highest relative to its limit, and that limit.
    worst = {name: F.max_by(name, F.col("current") / F.col("limit")) for name in ("current", "limit")}
    rest = [name for name in frame.columns if name not in key and name not in worst]
    sums = {name: F.max(name) if name.startswith("longest") else F.sum(name) for name in rest}
    aggregates = [column.alias(name) for name, column in {**sums, **worst}.items()]
    return frame.groupBy(*key).agg(*aggregates).select(*frame.columns)


def findings(replay: Replay) -> Results:
    """Run a replay, and report its results."""
    rows = replay.frame.collect()
    delays = Delays(replay.candidate)
    brokers = _brokers(replay)
    later = list(delays.later(row.asDict() for row in rows if row["policy"] is None))
    too_late = list(delays.too_late(_refused_for_delay(replay)))
    still = sum(each.still for each in too_late)
    totals = [row for row in rows if row["policy"] is None]
    outcomes = [row for row in rows if row["policy"] is not None]
    refused, newly = total(outcomes, "refused") + still, total(outcomes, "newly_refused")
    delayed, newly_delayed = total(outcomes, "delayed"), total(outcomes, "newly_delayed")
    summary = (
        f"Of {total(totals, 'operations'):,} operations {replay.candidate.name} would refuse {refused:,} "
        f"({newly:,} of them newly) and delay {delayed:,} ({newly_delayed:,} newly); "
        f"{total(totals, 'no_longer_refused') - still:,} that were refused would pass."
    )
    if later:
        summary += f" {sum(each.messages for each in later):,} messages would be delivered later."
    return of_log(
        title=f"What {replay.candidate.name} would do",
        summary=summary,
        facts={"log": f"{replay.rows:,} rows in {replay.files} files"},
        tables=(
            *tables.by_topic(rows),
            tables.by_principal(outcomes),
            *tables.delayed(later, too_late),
            tables.scoped(replay.candidate, windows=any(windows for *_, windows in brokers)),
        ),
        notes=tuple(_notes(replay, rows, brokers)),
    )


def _refused_for_delay(replay: Replay) -> list[dict[str, Any]]:
    """Looked for only if the candidate has such a limit: each question to the log costs."""
    if not replay.candidate.sets(MAX_DELAY):
        return []
    return [row.asDict() for row in refused_for_delay(replay.demand).collect()]


def _brokers(replay: Replay) -> list[tuple[str, str, bool]]:
    """System and gateway of all brokers in the log, and whether it has them in windows."""
    by = replay.demand.groupBy("system", "gateway").agg((F.max("window") > 0).alias("windows"))
    return sorted(tuple(row) for row in by.collect())


def _notes(replay: Replay, rows: Sequence[Row], brokers: Sequence[tuple[str, str, bool]]) -> Iterator[str]:
    for left in replay.left_out:
        yield f"{left.path} is left out: it {left.reason}."
    yield from replay.long_tasks
    yield from replay.candidate.notes
    yield from _not_covered(replay, brokers)
    for policy, how, meaning in scope(replay.candidate, windows=any(windows for *_, windows in brokers)):
        if how != EXACT:
            yield f"{policy}: {how}: {meaning}."
    if any(row["refused_low"] is None or (row["principal"] is None and row["policy"]) for row in rows):
        yield (
            "Allows of a summary are known in windows of 100 ms: 'at least' and 'at most' hold wherever in "
            "its window each operation came, if those of a window are alike. Who sent them is not known."
        )
    elif any(row["refused_low"] != row["refused_high"] for row in rows):
        yield (
            "The log lacks departures and the sizes within a batch. Bounds: clients leave after their last "
            "operation, or never; a batch's largest message has its mean size, or its whole."
        )
    if total([row for row in rows if row["policy"]], "delayed"):
        yield "The replay keeps the recorded times; clients that are held would really ask later."


def _not_covered(replay: Replay, brokers: Sequence[tuple[str, str, bool]]) -> Iterator[str]:
    """Systems of the log that the candidate has no broker for."""
    for system, gateway, _ in brokers:
        if replay.candidate.entry(system, gateway) is None:
            where = f"{system} ({gateway})"
            yield f"{where} is not replayed: the file has no broker of that system."
