"""The usual load of each topic and each principal: rates, sizes and counts, by Arrow alone.

Memory holds sums of the seconds that are not complete yet, and of all others how often each sum occurs.
"""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

import pyarrow as pa
import pyarrow.compute as pc

from sluicegate_reports.recommending.clients import (
    COUNTS,
    MINUTE,
    OF_PRODUCERS,
    OPERATIONS,
    PRODUCES,
    TOPIC,
    Clients,
)
from sluicegate_reports.recommending.texts import Texts
from sluicegate_reports.transforms.distribution import MEASURES, TIMES, Distribution
from sluicegate_reports.transforms.summing import Summing, summed

TEXTS = (*TOPIC, "principal", "client", "subscription", "operation", "action")
COLUMNS = ("time", *TEXTS, "messages", "bytes", "window")
"""What is needed of a log; the values of `TEXTS` repeat."""
_AMOUNTS = ("messages", "bytes")
_NUMBERED = (*TOPIC, "principal", "client", "subscription", "operation")
_RATED = ("publish", "dispatch")
_ASKED = ("allow", "rewrite", "reject", "drop")
_SECOND = "second"
_OF_TOPIC = (*TOPIC, "operation")
_OF_PRINCIPAL = (*TOPIC, "principal", "operation")
_WAITING = 1_048_576
"""Sums that are held before those of complete seconds are taken out."""
_END_S = 2**62
Row: TypeAlias = Mapping[str, Any]


class Rates:
    """The demand of each second with any demand.

    :param keys: columns that make a group, with `operation`.
    """

    def __init__(self, keys: Sequence[str]) -> None:
        self._keys = keys
        self._distributions = {name: Distribution(keys) for name in _AMOUNTS}

    def add(self, seconds: pa.Table) -> None:
        """Add sums of complete seconds."""
        groups = summed(seconds, (*self._keys, _SECOND), _AMOUNTS)
        for name, distribution in self._distributions.items():
            distribution.add(groups, groups[name])

    def table(self) -> pa.Table | None:
        """The keys, `seconds`, and of `messages` and `bytes` each `_p50`, `_p95`, `_p99`, `_peak`."""
        tables = {name: each.percentiles() for name, each in self._distributions.items()}
        columns: dict[str, pa.ChunkedArray] = {}
        for name, table in tables.items():
            if table is None:
                return None
            columns |= {key: table[key] for key in self._keys} | {"seconds": table[TIMES]}
            columns |= {f"{name}_{measure}": table[measure] for measure in MEASURES}
        return pa.table(columns)


class Baseline:
    """What is measured of the rows of a log, which may come in any order.

    Refused and dropped operations are part of the demand: otherwise a baseline under too low a limit would
    confirm it. Held operations count when they passed, a window of a summary in the second in which it began.
    """

    def __init__(self) -> None:
        self.rows = 0
        self.first_s, self.last_s = _END_S, 0
        """First and last second with any demand, since 1970."""
        self._texts = Texts(_NUMBERED)
        self._seconds = Summing((*_OF_PRINCIPAL, _SECOND), _AMOUNTS)
        self._of_topics, self._of_principals = Rates(_OF_TOPIC), Rates(_OF_PRINCIPAL)
        self._sizes = Distribution(TOPIC)
        self._clients = Clients()

    def add(self, rows: pa.Table) -> None:
        """Add rows of `COLUMNS`."""
        self.rows += len(rows)
        second = pc.divide(rows["time"].cast(pa.int64()), 1_000_000)
        numbered = self._texts.numbered(rows.append_column(_SECOND, second))
        is_demand = pc.and_(_is_one_of(rows["operation"], _RATED), _is_one_of(rows["action"], _ASKED))
        asked = numbered.filter(is_demand)
        if len(asked):
            span = pc.min_max(asked[_SECOND]).as_py()
            self.first_s, self.last_s = min(self.first_s, span["min"]), max(self.last_s, span["max"])
            self._seconds.add(asked)
        is_single = pc.and_(pc.equal(rows["action"], "allow"), pc.equal(rows["window"], 0))
        self._add_clients(numbered, rows["operation"], is_single)
        is_message = pc.and_(pc.equal(rows["operation"], "publish"), pc.greater(rows["messages"], 0))
        single = numbered.filter(pc.and_(is_single, is_message))
        # The mean, rounded up; exact for single messages.
        rounding = pc.subtract(single["messages"], 1)
        self._sizes.add(single, pc.divide(pc.add(single["bytes"], rounding), single["messages"]))

    def _add_clients(
        self, numbered: pa.Table, operation: pa.ChunkedArray, is_single: pa.ChunkedArray
    ) -> None:
        minute = pc.divide(numbered[_SECOND], 60)
        produces = _is_one_of(operation, OF_PRODUCERS)
        rows = numbered.append_column(MINUTE, minute).append_column(PRODUCES, produces)
        self._clients.add(rows.filter(pc.and_(is_single, _is_one_of(operation, OPERATIONS))))

    def complete(self, second: int = _END_S) -> None:
        """Say that no row of a second before this one comes any more; by default that none comes at all."""
        if second != _END_S and len(self._seconds) + len(self._clients) < _WAITING:
            return
        self._clients.complete(second // 60)
        seconds = self._seconds.take(pc.field(_SECOND) < second)
        if seconds is not None:
            self._of_topics.add(seconds)
            self._of_principals.add(seconds)

    def topics(self) -> list[str]:
        """Names of all topics, also of those without demand."""
        return self._texts.all("topic")

    def of_topics(self) -> list[Row]:
        """What `Rates.table` says of each topic and operation."""
        return self._decoded(self._of_topics.table())

    def of_principals(self, most: int) -> list[Row]:
        """As `of_topics`, by principal: for each topic the `most` with the highest p99 of messages."""
        by_topic: dict[tuple[str, ...], list[Row]] = {}
        for row in self._decoded(self._of_principals.table()):
            by_topic.setdefault(topic_of(row), []).append(row)
        return [row for rows in by_topic.values() for row in sorted(rows, key=_by_demand)[:most]]

    def sizes(self) -> list[Row]:
        """Sizes of messages in bytes: TOPIC, `times` and `MEASURES`.

        Topics whose allows are only known in windows have no row, as their largest message is not known.
        """
        return self._decoded(self._sizes.percentiles())

    def counts(self) -> list[Row]:
        """The most clients active in one minute: TOPIC and `COUNTS`, see `Clients.most`."""
        most = self._clients.most()
        columns = {name: pa.array([topic[at] for topic in most], pa.int32()) for at, name in enumerate(TOPIC)}
        counted = {name: pa.array([counts[name] for counts in most.values()], pa.int64()) for name in COUNTS}
        return self._decoded(pa.table(columns | counted))

    def _decoded(self, table: pa.Table | None) -> list[Row]:
        return [] if table is None else [*self._texts.decoded(table)]


def _is_one_of(column: pa.ChunkedArray, values: Sequence[str]) -> pa.ChunkedArray:
    return pc.is_in(column, pa.array(values))


def topic_of(row: Row) -> tuple[str, ...]:
    """The columns of TOPIC."""
    return tuple(row[name] for name in TOPIC)


def _by_demand(row: Row) -> tuple[bool, int, str, str]:
    """Order of principals: unknown ones come last."""
    nobody = row["principal"] is None
    return nobody, -row["messages_p99"], row["principal"] or "", row["operation"]
