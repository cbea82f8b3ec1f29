"""The findings of a replay as tables: by topic, by principal, effect of delays, and exactness."""

from collections.abc import Iterator, Sequence

from pyspark.sql import Row

from sluicegate_reports.model.results import Table, Value
from sluicegate_reports.replaying.candidate import Candidate
from sluicegate_reports.replaying.delays import Later, TooLate
from sluicegate_reports.replaying.scope import scope
from sluicegate_reports.replaying.tally import Key

_WHERE = ("system", "door", "gateway", "topic")
_PLACE = ("system", "door", "topic", "operation", "policy")
_TIMES = ("mean (ms)", "longest (ms)", "longest at most (ms)")


def by_topic(rows: Sequence[Row]) -> tuple[Table, Table]:
    """What would be refused, and what delayed; see `replaying.tally.SCHEMA`."""
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
    return *_key_cells(key, asked), *_bounded(group, "refused"), worst["current"], worst["limit"]


def _delayed_row(key: tuple[str, ...], asked: int, group: Sequence[Row]) -> tuple[Value, ...]:
    delayed = total(group, "delayed")
    return (
        *_key_cells(key, asked),
        *_bounded(group, "delayed"),
        total(group, "delay_ns") / delayed / 1e6 if delayed else 0.0,
        max(row["longest_delay_ns"] for row in group) / 1e6,
        max(row["longest_delay_high_ns"] or 0 for row in group) / 1e6,
    )


def _key_cells(key: tuple[str, ...], asked: int) -> tuple[Value, ...]:
    system, door, gateway, topic, operation, policy = key
    return system, f"{door} {gateway}", topic, operation, policy, asked


def _bounded(group: Sequence[Row], what: str) -> tuple[int, int, int, int]:
    """A figure, at least, at most, and how much of it is new."""
    names = (what, f"{what}_low", f"{what}_high", f"newly_{what}")
    count, low, high, newly = (total(group, name) for name in names)
    return count, low, high, newly


def _weight(row: tuple[Value, ...]) -> tuple[object, ...]:
    """Most that is new first, then by name."""
    return -int(row[9] or 0), *map(str, row[:5])


def by_principal(outcomes: Sequence[Row]) -> Table:
    """Refusals and delays by topic and principal."""
    values: list[tuple[Value, ...]] = [
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
    values.sort(key=lambda row: (-int(row[6] or 0), -int(row[8] or 0), *map(str, row[:5])))
    columns = (
        *("system", "door", "topic", "principal", "policy", "refused", "newly refused"),
        *("delayed", "newly delayed", "mean (ms)", "longest (ms)"),
    )
    return Table(columns, tuple(values), "by_principal", "By topic and principal")


def delayed(later: Sequence[Later], too_late: Sequence[TooLate]) -> Iterator[Table]:
    """What the delays of the candidate would do."""
    where = ("system", "door", "topic", "principal")
    if later:
        values = sorted((*_who(each.key), each.messages, each.delay_ms) for each in later)
        title = "Delivered later by fixed_delivery_delay: all that is not refused"
        yield Table((*where, "messages", "later by (ms)"), tuple(values), "delivered_later", title)
    if too_late:
        columns = ("refused then", "still refused", "longest asked (ms)", "limit then (ms)", "limit (ms)")
        rows = sorted(
            (
                *_who(each.key),
                *(each.refused, each.still, each.asked_ms, each.recorded_ms, each.limit_ms),
                each.others,
            )
            for each in too_late
        )
        title = "Refused for the delay that they asked for, asked again"
        yield Table((*where, *columns, "of those let in then"), tuple(rows), "asked_delays", title)


def _who(key: Key) -> tuple[str, str, str, str]:
    return key[0], f"{key[1]} {key[2]}", key[4], key[5] or "(not told)"


def scoped(candidate: Candidate, *, windows: bool) -> Table:
    """How each policy of the candidate is replayed.

    :param windows: whether the log has allows of a summary.
    """
    columns = ("policy", "replayed", "what that means")
    return Table(columns, tuple(scope(candidate, windows=windows)), "scope", "How each policy is replayed")


def total(rows: Sequence[Row], name: str) -> int:
    """A column's sum."""
    return sum(row[name] or 0 for row in rows)
