"""In how many seconds the limit of a rate was kept, by month, topic and policy, from a decision log.

Rows name a limit where it was met. It holds for all rows of the same gateway, topic and version of the
policies, from the day on which a row first names it. A second is kept if no window of whole seconds that
ends with it admitted more than rate x its length + burst. What a summary tells of 100 ms counts with the
second in which they begin, so there the bound is rate x (its length + 0.1 s) + burst. An operation that is
larger than the burst may pass a full bucket, and counts as not kept.
"""

from collections.abc import Iterable, Iterator
from datetime import date
from typing import Any, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from sluicegate_reports.registry import policies
from sluicegate_reports.registry.measured import Family, Measured
from sluicegate_reports.transforms.packed import Numbers, alike
from sluicegate_reports.transforms.summing import Summing

ADMITTED = (
    *("time", "system", "gateway", "topic", "subscription", "operation", "action", "policy_version"),
    *("messages", "bytes", "window"),
)
"""Columns that `add` reads."""
_PLACE = ("system", "gateway", "topic", "operation", "subscription")
_BY_SECOND = (*_PLACE, "second", "policy_version")
_SUMS = ("messages", "bytes", "windows")
_ROUNDING = 1e-9
"""Of sums of many floats, as a share of them."""
_Numbers: TypeAlias = "np.ndarray[Any, np.dtype[np.float64]]"
_Key: TypeAlias = tuple[Any, ...]


class KeptSeconds:
    """Counts the seconds of a log, day by day: first `name` and then `add` all rows of a day, then `end` it.

    :param burst_s: how many seconds' worth a full bucket holds; the log does not tell.
    """

    def __init__(self, burst_s: float) -> None:
        self._burst_s = burst_s
        self._rates = {name: each for name, each in policies().items() if _is_in_logs(each)}
        self._limits: dict[_Key, float] = {}
        self._sums = Summing(_BY_SECOND, _SUMS)
        self._carried: dict[_Key, tuple[int, float, float]] = {}
        self.by_policy: dict[_Key, tuple[int, int]] = {}
        """Seconds in which something was admitted, and those of them that were kept, by month, system,
        gateway, topic and policy. Where each subscription has a limit, each one's seconds count."""

    @property
    def names_any(self) -> bool:
        """Whether any limit is known."""
        return bool(self._limits)

    def name(self, rows: pa.Table) -> None:
        """Note the limits that rows name; the largest of one version counts."""
        chosen = pc.and_(_among(rows, "policy", self._rates), pc.is_valid(rows["limit"]))
        chosen = pc.and_(chosen, _among(rows, "action", ("delay", "reject", "drop")))
        keys = ("system", "gateway", "topic", "policy", "policy_version")
        named = rows.filter(chosen).select([*keys, "limit"])
        if len(named):
            for row in named.group_by([*keys], use_threads=False).aggregate([("limit", "max")]).to_pylist():
                key = tuple(row[name] for name in keys)
                self._limits[key] = max(self._limits.get(key, 0.0), row["limit_max"])

    def add(self, rows: pa.Table) -> None:
        """Add what was admitted on topics that have a limit."""
        passed = pc.and_(
            _among(rows, "action", ("allow", "rewrite")), _among(rows, "operation", ("publish", "dispatch"))
        )
        passed = pc.and_(passed, _among(rows, "topic", {key[2] for key in self._limits}))
        rows = rows.filter(passed)
        if len(rows):
            second = pc.floor(pc.divide(rows["time"].cast(pa.int64()).cast(pa.float64()), 1e6)).cast(
                pa.int64()
            )
            is_window = pc.greater(pc.fill_null(rows["window"], 0), 0).cast(pa.int64())
            self._sums.add(rows.append_column("second", second).append_column("windows", is_window))

    def end(self, day: date) -> None:
        """Judge the seconds of a day."""
        sums, self._sums = self._sums.sums(), Summing(_BY_SECOND, _SUMS)
        if sums is None:
            return
        sums = sums.sort_by([(name, "ascending") for name in _BY_SECOND])
        for name, measured in self._rates.items():
            of_policy = sums.filter(pc.field("operation") == measured.operation)
            by = _PLACE if measured.by_subscription else _PLACE[:-1]
            for key, rows in _groups(of_policy, by):
                self._judge(f"{day:%Y-%m}", key, name, measured, rows)

    def _judge(self, month: str, key: _Key, policy: str, measured: Measured, rows: pa.Table) -> None:
        where = (*key[:3], policy)
        versions = rows["policy_version"].to_pylist()
        rate = np.array([self._limits.get((*where, version), 0.0) for version in versions])
        amount = rows["bytes" if measured.unit == "bytes/s" else "messages"].to_numpy().astype(np.float64)
        second, limited = rows["second"].to_numpy(), rate > 0
        slack_s = 0.1 if pc.sum(rows["windows"]).as_py() else 0.0
        seconds, kept = 0, 0
        for at_s, of_second, limit in _alike(*_by_second(second[limited], amount[limited], rate[limited])):
            over = self._over((*key, policy), at_s, of_second, limit)
            seconds += len(over)
            kept += int((over <= limit * (self._burst_s + slack_s) + _ROUNDING * of_second.sum()).sum())
        before = self.by_policy.get((month, *where), (0, 0))
        if seconds:
            self.by_policy[month, *where] = before[0] + seconds, before[1] + kept

    def _over(self, lane: _Key, at_s: Numbers, amount: _Numbers, rate: float) -> _Numbers:
        """What windows had beyond the rate, of those that end with each second; also windows from before."""
        last_s, over, last_rate = self._carried.get(lane, (0, 0.0, 0.0))
        # A window may begin on the day before: its excess goes on as an amount of its last second.
        carries = over > 0 and last_rate == rate and last_s < at_s[0]
        if carries:
            at_s, amount = np.append(last_s, at_s), np.append(over + rate, amount)
        beyond = most_over(at_s, amount, rate)
        self._carried[lane] = int(at_s[-1]), float(beyond[-1]), rate
        return beyond[1:] if carries else beyond


def most_over(at_s: Numbers, amount: _Numbers, rate: float) -> _Numbers:
    """The largest excess over rate x length of the windows of whole seconds that end with each second.

    :param at_s: seconds in which there was anything, ascending.
    :param amount: of each.
    """
    total, since_s = np.cumsum(amount), at_s - at_s[0]
    before = total - amount - rate * since_s
    beyond: _Numbers = total - rate * (since_s + 1) - np.minimum.accumulate(before)
    return beyond


def _among(rows: pa.Table, column: str, values: Iterable[str]) -> pa.ChunkedArray:
    return pc.is_in(rows[column], pa.array([*values], pa.string()))


def _is_in_logs(measured: Measured) -> bool:
    """Whether a log tells by topic what a policy admits a second."""
    return measured.family is Family.RATE and measured.operation in ("publish", "dispatch")


def _groups(table: pa.Table, by: tuple[str, ...]) -> Iterator[tuple[_Key, pa.Table]]:
    """The rows of each group; a group's lie together in the table."""
    if not len(table):
        return
    changes = np.zeros(len(table) - 1, np.bool_)
    for name in by:
        codes = table[name].combine_chunks().dictionary_encode(null_encoding="encode").indices.to_numpy()
        changes |= np.diff(codes) != 0
    for begin, end in alike(np.append(0, np.cumsum(changes))):
        rows = table.slice(begin, end - begin)
        yield tuple(rows[name][0].as_py() for name in by), rows


def _by_second(second: Numbers, amount: _Numbers, rate: _Numbers) -> tuple[Numbers, _Numbers, _Numbers]:
    """The sums of each second, and its largest rate."""
    at_s, index = np.unique(second, return_inverse=True)
    most: _Numbers = np.zeros(len(at_s))
    np.maximum.at(most, index, rate)
    return at_s, np.bincount(index, amount, len(at_s)).astype(np.float64), most


def _alike(at_s: Numbers, amount: _Numbers, rate: _Numbers) -> Iterator[tuple[Numbers, _Numbers, float]]:
    """Stretches with one rate: windows that span a change of the limit are not judged."""
    for begin, end in alike(rate):
        yield at_s[begin:end], amount[begin:end], float(rate[begin])
