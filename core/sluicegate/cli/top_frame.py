"""One frame of `sluicegate top`: rates by the difference of two answers, sorted, filtered and fitted."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from sluicegate.model import visible

Row = Mapping[str, Any]
_NARROWEST = 12
_K, _M = 10_000, 10_000_000


class Column(NamedTuple):
    """One column of a view."""

    head: str
    width: int
    cell: Callable[[Row], str]
    key: Callable[[Row], Any]
    """What the rows are sorted by, largest first."""


@dataclass(frozen=True)
class View:
    """One table."""

    path: str
    """Of the admin API, below `/api/v1`."""
    name: str
    """Key of a row's name, and of the answer's list."""
    plural: str
    columns: Sequence[Column]
    rates: Sequence[str] = ()
    """Totals whose rates are shown, under the same name with `_rate`."""

    def column(self, head: str) -> Column:
        """The column of a head; the first one if there is none of that name."""
        return next((each for each in self.columns if each.head == head), self.columns[0])


def amount(value: float) -> str:
    """A number in at most six characters: `412`, `12.3k`, `4.1M`; an empty text for 0."""
    if value >= _M:
        return f"{value / 1_000_000:.0f}M"
    if value >= _K:
        return f"{value / 1_000:.0f}k"
    return f"{value:.0f}" if value >= 10 or value == int(value) else f"{value:.1f}"


def most_used(row: Row) -> tuple[float, str, float]:
    """Of a row's limits the one that is used most: its share, its policy and its value."""
    used = [
        (use["used_1s"] / use["in_force"], policy, use["in_force"])
        for policy, use in row.get("use", {}).items()
        if use.get("used_1s") is not None and use["in_force"]
    ]
    return max(used, default=(-1.0, "", 0.0))


def _use(row: Row) -> str:
    share, _, _ = most_used(row)
    return "" if share < 0 else f"{100 * share:.0f}%"


def _limit(row: Row) -> str:
    _, policy, value = most_used(row)
    return f"{amount(value)} {policy.removeprefix('max_').removesuffix('_per_topic')}" if policy else ""


def _number(head: str, width: int, key: str) -> Column:
    return Column(
        head, width, lambda row: amount(row[key]) if row.get(key) else "", lambda row: row.get(key, 0)
    )


_RATES = ("published_messages", "dispatched_messages", "refused", "delayed")
_TRAFFIC = (
    _number("in/s", 6, "published_messages_rate"),
    _number("out/s", 6, "dispatched_messages_rate"),
    Column("use", 5, _use, most_used),
    _number("held", 5, "held"),
    _number("refused/s", 9, "refused_rate"),
)
_LIMIT = Column("limit", 22, _limit, lambda row: -most_used(row)[2])
TOPICS = View("/topics", "topic", "topics", (*_TRAFFIC, _number("prod", 5, "producers"), _LIMIT), _RATES)
PRINCIPALS = View("/principals", "principal", "principals", (*_TRAFFIC, _LIMIT), _RATES)
CLIENTS = View("/clients", "client", "clients", _TRAFFIC, _RATES)
HELD = View(
    "/held",
    "client",
    "held",
    (
        Column("for s", 6, lambda row: f"{row['for_s']:.1f}", lambda row: row["for_s"]),
        Column("operation", 15, lambda row: str(row["operation"]), lambda row: row["operation"]),
        Column("policy", 26, lambda row: str(row["policy"]), lambda row: row["policy"]),
        Column("topic", 20, lambda row: str(row["topic"]), lambda row: row["topic"]),
    ),
)
REASONS = View(
    "/topics",
    "policy",
    "topics",
    (
        _number("by/s", 7, "count_rate"),
        _number("in all", 8, "count"),
        Column("busiest topic", 30, lambda row: str(row["topic"]), lambda row: row["topic"]),
    ),
    ("count",),
)
VIEWS = {"topics": TOPICS, "principals": PRINCIPALS, "clients": CLIENTS, "held": HELD, "reasons": REASONS}


def by_reason(topics: Sequence[Row]) -> list[dict[str, Any]]:
    """Refusals and holds of all topics, added up by policy."""
    totals: dict[tuple[str, str], dict[str, Any]] = {}
    for row in topics:
        for policy, count in row.get("by_policy", {}).items():
            fresh = {"broker": row["broker"], "policy": policy, "count": 0, "topic": "", "most": 0}
            total = totals.setdefault((row["broker"], policy), fresh)
            total["count"] += count
            if count > total["most"]:
                total["most"], total["topic"] = count, row["topic"]
    return list(totals.values())


def with_rates(
    view: View, rows: Sequence[Row], before: Sequence[Row], seconds: float
) -> list[dict[str, Any]]:
    """Rows with the rates of their totals since the answer before; a total that fell began anew."""
    known = {(row["broker"], row[view.name]): row for row in before}
    changed = []
    for row in rows:
        old = known.get((row["broker"], row[view.name]), row)
        rates = {f"{key}_rate": max(0.0, row[key] - old[key]) / seconds for key in view.rates}
        changed.append({**row, **rates})
    return changed


def frame(view: View, rows: Sequence[Row], sort: str, text: str, width: int, height: int) -> list[str]:
    """The table as lines.

    :param sort: head of the column by which it is sorted; by name if it is `name`.
    :param text: only rows whose name contains it, without case.
    :param width: columns of the terminal.
    :param height: lines that there is room for.
    """
    columns = list(view.columns)
    while len(columns) > 1 and width - _taken(columns) < _NARROWEST:
        columns.pop()
    name_width = max(_NARROWEST, width - _taken(columns))
    wanted = [row for row in rows if text.lower() in str(row[view.name]).lower()]
    if sort == "name":
        wanted.sort(key=lambda row: str(row[view.name]))
    else:
        wanted.sort(key=view.column(sort).key, reverse=True)
    brokers = {row["broker"] for row in rows}
    head = view.name.ljust(name_width) + "".join(f" {each.head:>{each.width}}" for each in columns)
    lines = [head.rstrip()]
    for row in wanted[: max(0, height - 1)]:
        name = row[view.name] if len(brokers) < 2 else f"{row[view.name]} @{row['broker']}"
        cells = (f" {_fitted(each.cell(row), each.width):>{each.width}}" for each in columns)
        lines.append((_fitted(name, name_width).ljust(name_width) + "".join(cells)).rstrip())
    if not wanted:
        lines.append("nothing" if not text else f"nothing has {visible(text)!r} in its name")
    return lines


def _taken(columns: Sequence[Column]) -> int:
    return sum(each.width + 1 for each in columns)


def _fitted(name: object, width: int) -> str:
    """A text in at most so many characters, with its begin and its end."""
    text = visible(str(name))
    if len(text) <= width:
        return text
    end = (width - 1) // 2
    return f"{text[: width - 1 - end]}…{text[-end:]}"
