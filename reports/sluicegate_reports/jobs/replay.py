"""What if: a candidate's policies over a recorded log; who would newly be refused or delayed, by how much."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from pyspark.sql import DataFrame, Row, SparkSession

from sluicegate_reports.findings import Findings
from sluicegate_reports.reading import LeftOut, read_decisions
from sluicegate_reports.replaying.candidate import Candidate
from sluicegate_reports.replaying.demand import demand
from sluicegate_reports.replaying.tally import SCHEMA
from sluicegate_reports.replaying.walk import replayed
from sluicegate_reports.results import Table, Value

_WHERE = ("system", "door", "gateway", "topic")
_PLACE = ("system", "door", "topic", "operation", "policy")
_TIMES = ("mean (ms)", "longest (ms)", "longest at most (ms)")


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
    """
    log = read_decisions(spark, directory)
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
    return asked.mapInArrow(partial(replayed, candidate), SCHEMA)


def findings(found: Replay) -> Findings:
    """Run a replay, and tell what it found."""
    rows = found.frame.collect()
    totals = [row for row in rows if row["policy"] is None]
    outcomes = [row for row in rows if row["policy"] is not None]
    refused, newly = _sum(outcomes, "refused"), _sum(outcomes, "newly_refused")
    delayed, newly_delayed = _sum(outcomes, "delayed"), _sum(outcomes, "newly_delayed")
    summary = (
        f"Of {_sum(totals, 'operations'):,} operations {found.candidate.name} would refuse {refused:,} "
        f"({newly:,} of them newly) and delay {delayed:,} ({newly_delayed:,} newly); "
        f"{_sum(totals, 'no_longer_refused'):,} that were refused would pass."
    )
    return Findings(
        title=f"What {found.candidate.name} would do",
        summary=summary,
        facts={"log": f"{found.rows:,} rows in {found.files} files"},
        tables=(*_by_topic(rows), _by_principal(outcomes)),
        notes=tuple(_notes(found, rows)),
    )


def _notes(found: Replay, rows: Sequence[Row]) -> Iterator[str]:
    for left in found.left_out:
        yield f"{left.path} is left out: it {left.reason}."
    yield from found.candidate.notes
    yield from _not_covered(found)
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


def _not_covered(found: Replay) -> Iterator[str]:
    """Systems of the log that the candidate has no broker for."""
    systems = found.demand.select("system", "gateway").distinct().collect()
    for row in sorted(systems):
        if found.candidate.entry(row["system"], row["gateway"]) is None:
            where = f"{row['system']} ({row['gateway']})"
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
            row["topic"],
            row["principal"] or "(not told)",
            row["policy"],
            row["refused"],
            row["newly_refused"],
            row["delayed"],
            row["newly_delayed"],
            row["longest_delay_ns"] / 1e6,
        )
        for row in outcomes
        if row["refused"] or row["delayed"]
    ]
    told.sort(key=lambda row: (-int(row[5] or 0), -int(row[7] or 0), *map(str, row[:4])))
    columns = (
        *("system", "topic", "principal", "policy", "refused", "newly refused"),
        *("delayed", "newly delayed", "longest (ms)"),
    )
    return Table(columns, tuple(told), "by_principal", "By principal")


def _sum(rows: Sequence[Row], name: str) -> int:
    return sum(row[name] or 0 for row in rows)
