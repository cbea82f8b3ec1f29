"""What if: a candidate's policies over a recorded log; who would newly be refused or delayed, by how much."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

from pyspark.sql import DataFrame, Row, SparkSession
from pyspark.sql import functions as F  # noqa: N812

from sluicegate.builtin.delay import MAX_DELAY
from sluicegate_reports.findings import Findings
from sluicegate_reports.reading import LeftOut, read_decisions
from sluicegate_reports.replaying.attaching import attached, attempts
from sluicegate_reports.replaying.candidate import Candidate
from sluicegate_reports.replaying.delays import Delays, Later, TooLate, refused_for_delay
from sluicegate_reports.replaying.demand import demand
from sluicegate_reports.replaying.scope import EXACT, scope
from sluicegate_reports.replaying.tally import SCHEMA, Place
from sluicegate_reports.replaying.walk import replayed
from sluicegate_reports.results import Table, Value

_WHERE = ("system", "door", "gateway", "topic")
_PLACE = ("system", "door", "topic", "operation", "policy")
_TIMES = ("mean (ms)", "longest (ms)", "longest at most (ms)")


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


def replay(spark: SparkSession, directory: Path, candidate: Candidate) -> Replay:
    """Ask a candidate's policies about every operation of a log, topic by topic in order of time.

    :param directory: the decision log's.
    :raises ReplayError: if there is nothing to ask.
    """
    log = read_decisions(spark, directory)
    if not log.rows:
        told = [f"{left.path} is left out: it {left.reason}" for left in log.left_out]
        nothing = (
            f"there is not one decision in {str(directory)!r}: give the directory of a decision log, "
            "<state_dir>/decisions of a gateway, or `decisions` of a comparison run"
        )
        raise ReplayError("\n".join([*told, nothing]))
    return Replay(
        replay_frame(log.frame, candidate),
        log.frame,
        candidate,
        log.files,
        log.rows,
        log.left_out,
    )


def replay_frame(decisions: DataFrame, candidate: Candidate) -> DataFrame:
    """The same of a frame of decisions: rows of `replaying.tally.SCHEMA`."""
    asked = demand(decisions, counts=candidate.counts, unacked=candidate.unacked)
    frame = asked.mapInArrow(partial(replayed, candidate), SCHEMA)
    if not candidate.attachments:
        return frame
    return frame.unionByName(attempts(decisions).mapInArrow(partial(attached, candidate), SCHEMA))


def findings(found: Replay) -> Findings:
    """Run a replay, and tell what it found."""
    rows = found.frame.collect()
    delays = Delays(found.candidate)
    brokers = _brokers(found)
    later = list(delays.later(row.asDict() for row in rows if row["policy"] is None))
    too_late = list(delays.too_late(_refused_for_delay(found)))
    still = sum(each.still for each in too_late)
    totals = [row for row in rows if row["policy"] is None]
    outcomes = [row for row in rows if row["policy"] is not None]
    refused, newly = _sum(outcomes, "refused") + still, _sum(outcomes, "newly_refused")
    delayed, newly_delayed = _sum(outcomes, "delayed"), _sum(outcomes, "newly_delayed")
    summary = (
        f"Of {_sum(totals, 'operations'):,} operations {found.candidate.name} would refuse {refused:,} "
        f"({newly:,} of them newly) and delay {delayed:,} ({newly_delayed:,} newly); "
        f"{_sum(totals, 'no_longer_refused') - still:,} that were refused would pass."
    )
    if later:
        summary += f" {sum(each.messages for each in later):,} messages would be delivered later."
    return Findings(
        title=f"What {found.candidate.name} would do",
        summary=summary,
        facts={"log": f"{found.rows:,} rows in {found.files} files"},
        tables=(
            *_by_topic(rows),
            _by_principal(outcomes),
            *_delayed(later, too_late),
            _scope(found.candidate, windows=any(windows for *_, windows in brokers)),
        ),
        notes=tuple(_notes(found, rows, brokers)),
    )


def _refused_for_delay(found: Replay) -> list[dict[str, Any]]:
    """Looked for only if the candidate has such a limit: each question to the log costs."""
    if not found.candidate.sets(MAX_DELAY):
        return []
    return [row.asDict() for row in refused_for_delay(found.demand).collect()]


def _brokers(found: Replay) -> list[tuple[str, str, bool]]:
    """System and gateway of all brokers in the log, and whether it tells of them in windows."""
    by = found.demand.groupBy("system", "gateway").agg((F.max("window") > 0).alias("windows"))
    return sorted(tuple(row) for row in by.collect())


def _delayed(later: Sequence[Later], too_late: Sequence[TooLate]) -> Iterator[Table]:
    where = ("system", "door", "topic", "principal")
    if later:
        told = sorted((*_who(each.place), each.messages, each.delay_ms) for each in later)
        title = "Delivered later by fixed_delivery_delay: all that is not refused"
        yield Table((*where, "messages", "later by (ms)"), tuple(told), "delivered_later", title)
    if too_late:
        columns = ("refused then", "still refused", "longest asked (ms)", "limit then (ms)", "limit (ms)")
        rows = sorted(
            (
                *_who(each.place),
                *(each.refused, each.still, each.asked_ms, each.recorded_ms, each.limit_ms),
                each.others,
            )
            for each in too_late
        )
        title = "Refused for the delay that they asked for, asked again"
        yield Table((*where, *columns, "of those let in then"), tuple(rows), "asked_delays", title)


def _who(place: Place) -> tuple[str, str, str, str]:
    return place[0], f"{place[1]} {place[2]}", place[4], place[5] or "(not told)"


def _scope(candidate: Candidate, *, windows: bool) -> Table:
    columns = ("policy", "replayed", "what that means")
    return Table(columns, tuple(scope(candidate, windows=windows)), "scope", "How each policy is replayed")


def _notes(found: Replay, rows: Sequence[Row], brokers: Sequence[tuple[str, str, bool]]) -> Iterator[str]:
    for left in found.left_out:
        yield f"{left.path} is left out: it {left.reason}."
    yield from found.candidate.notes
    yield from _not_covered(found, brokers)
    for policy, how, meaning in scope(found.candidate, windows=any(windows for *_, windows in brokers)):
        if how != EXACT:
            yield f"{policy}: {how}: {meaning}."
    if any(row["refused_low"] is None or (row["principal"] is None and row["policy"]) for row in rows):
        yield (
            "Allows of a summary are known in windows of 100 ms: 'at least' and 'at most' hold wherever in "
            "its window each operation came, if those of a window are alike. Who sent them is not known."
        )
    elif any(row["refused_low"] != row["refused_high"] for row in rows):
        yield (
            "Counts lie between clients that leave with their last operation and clients that never leave, "
            "sizes of batches between their mean and their whole: the log does not tell."
        )
    if _sum([row for row in rows if row["policy"]], "delayed"):
        yield "Clients are taken to ask when they asked then; where they are held they would ask later."


def _not_covered(found: Replay, brokers: Sequence[tuple[str, str, bool]]) -> Iterator[str]:
    """Systems of the log that the candidate has no broker for."""
    for system, gateway, _ in brokers:
        if found.candidate.entry(system, gateway) is None:
            where = f"{system} ({gateway})"
            yield f"{where} is not replayed: the file has no broker of that system."


def _by_topic(rows: Sequence[Row]) -> tuple[Table, Table]:
    groups: dict[tuple[str, ...], list[Row]] = {}
    asked: dict[tuple[str, ...], int] = {}
    for row in rows:
        key = (*(row[name] for name in _WHERE), row["operation"])
        if row["policy"] is None:
            asked[key] = asked.get(key, 0) + row["operations"]
        else:
            groups.setdefault((*key, row["policy"]), []).append(row)
    refused = [_refused_row(key, asked.get(key[:5], 0), group) for key, group in groups.items()]
    delayed = [_delayed_row(key, asked.get(key[:5], 0), group) for key, group in groups.items()]
    return (
        Table(
            (*_PLACE, "asked", "refused", "at least", "at most", "newly", "highest", "limit"),
            tuple(sorted((row for row in refused if row[6] or row[8]), key=_weight)),
            "refused",
            "Refused or dropped, by topic and policy",
        ),
        Table(
            (*_PLACE, "asked", "delayed", "at least", "at most", "newly", *_TIMES),
            tuple(sorted((row for row in delayed if row[6] or row[8]), key=_weight)),
            "delayed",
            "Delayed, by topic and policy",
        ),
    )


def _refused_row(key: tuple[str, ...], asked: int, group: Sequence[Row]) -> tuple[Value, ...]:
    worst = max(group, key=lambda row: (row["current"] or 0) / (row["limit"] or 1))
    return *_place(key, asked), *_bounded(group, "refused"), worst["current"], worst["limit"]


def _delayed_row(key: tuple[str, ...], asked: int, group: Sequence[Row]) -> tuple[Value, ...]:
    delayed = _sum(group, "delayed")
    return (
        *_place(key, asked),
        *_bounded(group, "delayed"),
        _sum(group, "delay_ns") / delayed / 1e6 if delayed else 0.0,
        max(row["longest_delay_ns"] for row in group) / 1e6,
        max(row["longest_delay_high_ns"] or 0 for row in group) / 1e6,
    )


def _place(key: tuple[str, ...], asked: int) -> tuple[Value, ...]:
    system, door, gateway, topic, operation, policy = key
    return system, f"{door} {gateway}", topic, operation, policy, asked


def _bounded(group: Sequence[Row], what: str) -> tuple[int, int, int, int]:
    """A figure, at least, at most, and how much of it is new."""
    names = (what, f"{what}_low", f"{what}_high", f"newly_{what}")
    told, low, high, newly = (_sum(group, name) for name in names)
    return told, low, high, newly


def _weight(row: tuple[Value, ...]) -> tuple[object, ...]:
    """Most that is new first, then by name."""
    return -int(row[9] or 0), *map(str, row[:5])


def _by_principal(outcomes: Sequence[Row]) -> Table:
    told: list[tuple[Value, ...]] = [
        (
            row["system"],
            f"{row['door']} {row['gateway']}",
            row["topic"],
            row["principal"] or "(not told)",
            row["policy"],
            row["refused"],
            row["newly_refused"],
            row["delayed"],
            row["newly_delayed"],
            row["delay_ns"] / row["delayed"] / 1e6 if row["delayed"] else 0.0,
            row["longest_delay_ns"] / 1e6,
        )
        for row in outcomes
        if row["refused"] or row["delayed"]
    ]
    told.sort(key=lambda row: (-int(row[6] or 0), -int(row[8] or 0), *map(str, row[:5])))
    columns = (
        *("system", "door", "topic", "principal", "policy", "refused", "newly refused"),
        *("delayed", "newly delayed", "mean (ms)", "longest (ms)"),
    )
    return Table(columns, tuple(told), "by_principal", "By topic and principal")


def _sum(rows: Sequence[Row], name: str) -> int:
    return sum(row[name] or 0 for row in rows)
