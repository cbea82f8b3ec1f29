"""Usage by principal and topic from a decision log, for chargeback; and who was refused or held most."""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from datetime import date

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate_reports.jobs import kept_seconds, service_level
from sluicegate_reports.jobs.hold_times import HoldTimes
from sluicegate_reports.jobs.kept_seconds import KeptSeconds
from sluicegate_reports.jobs.log_days import days_of, files_with_rows, rows_of_day
from sluicegate_reports.model.listing import Listed, is_spool, listing
from sluicegate_reports.model.results import Results, Table, Value, of_log
from sluicegate_reports.transforms.summing import Summing, summed

KEYS = ("system", "door", "gateway", "namespace", "topic", "principal")
SUMMED = (
    "published_messages",
    "published_bytes",
    "delivered_messages",
    "delivered_bytes",
    "refused",
    "refused_messages",
    "refused_bytes",
    "would_refuse",
    "held",
    "held_ns",
)
USAGE = pa.schema(
    [
        pa.field("day", pa.date32()),
        *(pa.field(name, pa.string()) for name in KEYS),
        *(pa.field(name, pa.int64()) for name in SUMMED),
    ]
)
"""A row for each day, gateway, topic and principal; docs/reports.md says what the columns mean."""
_WANTED = (
    *("time", *KEYS, "policy", "operation", "action", "messages", "bytes", "delay", "decisions"),
    *("limit", "policy_version"),
)
_TEXTS = ("system", "gateway", "topic", "subscription")
_GROUPS = (*KEYS, "policy")
_VIOLATION_KEYS = ("principal", "system", "topic", "policy")
_VIOLATIONS = ("refused", "refused_messages", "would_refuse", "held", "held_ns")
_USED = (
    "published_messages",
    "published_bytes",
    "delivered_messages",
    "delivered_bytes",
    "refused",
    "held",
    "held_ns",
)
_MOST = 50
"""Rows of a table that is shown; the files have all."""


class UsageError(Exception):
    """There is nothing to sum; the message says why, and what to do."""


@dataclass(slots=True)
class Usage:
    """What was summed."""

    days: list[date] = field(default_factory=list)
    """Those that have rows, in order."""
    by: dict[str, pa.Table] = field(default_factory=dict)
    """Sums by principal, namespace, topic and day."""
    violations: pa.Table | None = None
    """By principal, topic and policy."""
    level: pa.Table = field(default_factory=service_level.SERVICE_LEVEL.empty_table)
    """As `SERVICE_LEVEL`."""
    unfinished: int = 0
    """Files that are still being written, and do not count."""


def usage(
    log: Listed,
    since: date | None,
    before: date | None,
    write: Callable[[pa.Table], None],
    burst_s: float = 1.0,
) -> Usage:
    """Sum a log's finished files.

    :param since: the first day, in UTC; None for that of the log.
    :param before: the day after the last one; None for the end of the log.
    :param write: gets the rows of each day in turn, in `USAGE`.
    :param burst_s: the policies' `burst_seconds`.
    :raises UsageError: if the log has no finished file.
    :raises LocationError: if a file is damaged, or a store fails.
    """
    listed = listing(log)
    files = files_with_rows(listed)
    if not files:
        raise UsageError(f"there is no finished file of a decision log in {str(listed)!r}")
    used = Usage(unfinished=sum(is_spool(file.location) for file in listed.files))
    kept, holds = KeptSeconds(burst_s), HoldTimes()
    for day in days_of(files):
        if (since is None or day >= since) and (before is None or day < before):
            summing = Summing(_GROUPS, SUMMED)
            for rows in rows_of_day(files, day, _WANTED, _GROUPS):
                summing.add(_measured(rows))
                holds.add(rows, day)
                kept.name(rows)
            groups = summing.sums()
            if groups is not None:
                _add_day(used, day, groups, write)
            if kept.names_any:
                # What a row late in the day names holds for its beginning too.
                for rows in rows_of_day(files, day, kept_seconds.ADMITTED, _TEXTS):
                    kept.add(rows)
                kept.end(day)
    used.level = service_level.service_level(kept, holds)
    return used


def _add_day(total: Usage, day: date, groups: pa.Table, write: Callable[[pa.Table], None]) -> None:
    """Write the rows of a day, and add them to the sums of all."""
    used = _not_zero(summed(groups, KEYS, SUMMED), SUMMED)
    if not len(used):
        return
    used = used.sort_by([(name, "ascending") for name in ("namespace", "topic", "principal", *KEYS[:3])])
    days = pa.chunked_array([pa.array([day] * len(used), pa.date32())])
    used = used.add_column(0, USAGE.field("day"), days)
    write(used)
    total.days.append(day)
    for name in ("day", "principal", "namespace", "topic"):
        total.by[name] = _added(total.by.get(name), used, (name,), SUMMED)
    violations = _not_zero(groups, _VIOLATIONS)
    total.violations = _added(total.violations, violations, _VIOLATION_KEYS, _VIOLATIONS)


def _added(before: pa.Table | None, table: pa.Table, keys: Sequence[str], amounts: Sequence[str]) -> pa.Table:
    """The sums of what was before and of what comes to it."""
    parts = [] if before is None else [before]
    return summed(pa.concat_tables([*parts, table.select([*keys, *amounts])]), keys, amounts)


def _not_zero(table: pa.Table, amounts: Sequence[str]) -> pa.Table:
    """Rows in which any of these is not 0."""
    first, *others = (pc.field(name) != 0 for name in amounts)
    for each in others:
        first = first | each
    return table.filter(first)


def _measured(rows: pa.Table) -> pa.Table:
    """Rows with what each adds to the sums."""
    nothing = pa.scalar(0, pa.int64())

    def where(mask: pa.ChunkedArray, amount: str) -> pa.ChunkedArray:
        return pc.if_else(mask, rows[amount], nothing)

    def is_one_of(column: str, *values: str) -> pa.ChunkedArray:
        return pc.is_in(rows[column], pa.array(values))

    passed = is_one_of("action", "allow", "rewrite")
    published = pc.and_(passed, is_one_of("operation", "publish"))
    delivered = pc.and_(passed, is_one_of("operation", "dispatch"))
    refused, held = is_one_of("action", "reject", "drop"), is_one_of("action", "delay")
    sums = (
        where(published, "messages"),
        where(published, "bytes"),
        where(delivered, "messages"),
        where(delivered, "bytes"),
        where(refused, "decisions"),
        where(refused, "messages"),
        where(refused, "bytes"),
        where(is_one_of("action", "would_reject", "would_drop"), "decisions"),
        where(held, "decisions"),
        where(held, "delay"),
    )
    columns = [*(rows[name] for name in _GROUPS), *sums]
    return pa.Table.from_arrays(columns, names=[*_GROUPS, *SUMMED])


def findings(used: Usage) -> Results:
    """Tell the sums by day, principal, namespace and topic, and who was refused or held most."""
    total = dict.fromkeys(SUMMED, 0)
    if "day" in used.by:
        total = {name: int(pc.sum(used.by["day"][name]).as_py()) for name in SUMMED}
    days = f"{used.days[0]} to {used.days[-1]} (UTC)" if used.days else "none in that time"
    summary = (
        f"{total['published_messages']:,} messages published, {total['delivered_messages']:,} delivered, "
        f"{total['refused']:,} operations refused, {total['held']:,} held."
    )
    titles = {"day": "By day", "principal": "By principal", "namespace": "By namespace", "topic": "By topic"}
    tables = [_table(used.by[name], name, title) for name, title in titles.items() if name in used.by]
    if used.violations is not None and len(used.violations):
        tables.append(_violators(used.violations))
    if (level := service_level.shown(used.level)) is not None:
        tables.append(level)
    return of_log(
        title="Who used how much",
        summary=summary,
        facts={"days": days, "days with rows": str(len(used.days))},
        tables=tables,
        notes=tuple(_notes(used, total)),
    )


def _table(table: pa.Table, name: str, title: str) -> Table:
    order = [("day", "ascending")] if name == "day" else [("bytes", "descending"), (name, "ascending")]
    with_bytes = table.append_column("bytes", pc.add(table["published_bytes"], table["delivered_bytes"]))
    rows = with_bytes.sort_by(order).slice(0, None if name == "day" else _MOST).to_pylist()
    columns = (name, *map(_heading, _USED))
    lines = tuple((_shown(row[name]), *(_cell(row, each) for each in _USED)) for row in rows)
    return Table(columns, lines, f"by_{name}", title, total=len(table))


def _violators(table: pa.Table) -> Table:
    """The principals with most refusals, then with the longest holds, on which topic and by which policy."""
    order = [(name, "descending") for name in ("refused", "would_refuse", "held_ns")]
    order += [(key, "ascending") for key in _VIOLATION_KEYS]
    rows = table.sort_by(order).slice(0, _MOST).to_pylist()
    lines = [
        [*(row[key] for key in _VIOLATION_KEYS), *(_cell(row, each) for each in _VIOLATIONS)] for row in rows
    ]
    columns = (*_VIOLATION_KEYS, *map(_heading, _VIOLATIONS))
    title = "Who was refused or held most"
    return Table(columns, tuple(map(tuple, lines)), "violators", title, total=len(table))


def _heading(name: str) -> str:
    if name == "held_ns":
        return "held (s)"
    words = name.replace("_", " ")
    return f"{words.removesuffix(' bytes')} (bytes)" if name.endswith("_bytes") else words


def _cell(row: dict[str, Value], name: str) -> Value:
    value = row[name]
    return round(value / 1e9, 3) if name == "held_ns" and isinstance(value, int) else value


def _shown(key: object) -> Value:
    return key if isinstance(key, str) or key is None else str(key)


def _notes(used: Usage, total: dict[str, int]) -> Iterator[str]:
    if used.unfinished:
        yield f"{used.unfinished} files are being written, and count when they are finished."
    by = used.by.get("principal")
    if by is None:
        return
    nobody = by.filter(pc.field("principal").is_null())
    lost = sum(
        int(pc.sum(nobody[name]).as_py() or 0) for name in ("published_messages", "delivered_messages")
    )
    if lost:
        share = 100 * lost / (total["published_messages"] + total["delivered_messages"])
        yield (
            f"{share:.1f} % of the messages have no principal, as their gateway sums up what it allows. "
            "For usage by principal, set `decisions.detail: full`."
        )
