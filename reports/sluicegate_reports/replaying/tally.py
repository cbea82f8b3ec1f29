"""Counts a replay: one row for each topic, principal, kind of operation and policy."""

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

import pyarrow as pa

from sluicegate.model import Decision

SCHEMA = (
    "system string, door string, gateway string, namespace string, topic string, principal string, "
    "operation string, policy string, operations bigint, messages bigint, recorded_refused bigint, "
    "recorded_delayed bigint, no_longer_refused bigint, no_longer_delayed bigint, refused bigint, "
    "newly_refused bigint, refused_low bigint, refused_high bigint, delayed bigint, newly_delayed bigint, "
    "delayed_low bigint, delayed_high bigint, delay_ns bigint, longest_delay_ns bigint, "
    "longest_delay_low_ns bigint, longest_delay_high_ns bigint, current double, limit double"
)
"""Columns of a replay's result. A row without a policy has the demand and its recorded outcome; a row with
one, the effect of this policy of the candidate. A row without a principal is of windows, or clients without
one; in a log with windows it has the bounds for all principals of its topic together."""

_KINDS = dict(part.split() for part in SCHEMA.split(", "))
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
ARROW_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in _KINDS.items()])
_ZEROS = {name: 0 for name, kind in _KINDS.items() if kind == "bigint"}

KEY_COLUMNS = ("system", "door", "gateway", "namespace", "topic", "principal", "operation")
Key = tuple[str, str, str, str, str, str | None, str]
"""The values of PLACE."""


@dataclass(slots=True)
class Totals:
    """The demand, and its recorded outcome."""

    operations: int = 0
    messages: int = 0
    recorded_refused: int = 0
    recorded_delayed: int = 0
    no_longer_refused: int = 0
    no_longer_delayed: int = 0


@dataclass(slots=True)
class Outcome:
    """The effect of one policy of the candidate."""

    refused: int = 0
    newly_refused: int = 0
    maybe_refused: int = 0
    """Operations that may be refused too; the log lacks the detail to decide."""
    delayed: int = 0
    newly_delayed: int = 0
    delay_ns: int = 0
    longest_delay_ns: int = 0
    current: float = 0.0
    """The highest value relative to its limit, and that limit."""
    limit: float = 0.0

    def worst(self, decision: Decision) -> None:
        """Remember a reason that is further above its limit than those before."""
        reason = decision.reasons[0] if decision.reasons else None
        if reason is not None and reason.current * (self.limit or 1.0) > self.current * (reason.limit or 1.0):
            self.current, self.limit = float(reason.current), float(reason.limit)

    def columns(self) -> dict[str, Any]:
        """The columns of SCHEMA that it fills; no limit of what was refused without one."""
        columns = asdict(self) | ({} if self.limit else {"current": None, "limit": None})
        return {name: value for name, value in columns.items() if name in _KINDS}


@dataclass(slots=True)
class Range:
    """Bounds on how many operations of a topic are refused or delayed."""

    refused_low: int = 0
    refused_high: int = 0
    delayed_low: int = 0
    delayed_high: int = 0
    longest_delay_low_ns: int = 0
    longest_delay_high_ns: int = 0


@dataclass(slots=True)
class Tally:
    """All rows of a replay."""

    totals: dict[Key, Totals] = field(default_factory=dict)
    outcomes: dict[tuple[Key, str], Outcome] = field(default_factory=dict)
    ranges: dict[tuple[Key, str], Range] = field(default_factory=dict)
    """By the key of the windows, whose principal is None."""

    def totals_of(self, key: Key) -> Totals:
        """The totals of a key, made on demand."""
        return self.totals.setdefault(key, Totals())

    def outcome(self, key: Key, policy: str) -> Outcome:
        """The outcome of a policy, made on demand."""
        return self.outcomes.setdefault((key, policy), Outcome())

    def batch(self) -> pa.RecordBatch:
        """Everything, as rows of SCHEMA."""
        rows = [_row(key, asdict(totals)) for key, totals in self.totals.items() if totals.operations]
        for key, policy in dict.fromkeys((*self.outcomes, *self.ranges)):
            outcome = self.outcomes.get((key, policy), Outcome())
            everyone = (*key[:5], None, key[6])
            windowed = (everyone, policy) in self.ranges
            bounds = self.ranges.get((key, policy))
            values = {"policy": policy, **outcome.columns(), **_bounds(outcome, bounds, windowed=windowed)}
            rows.append(_row(key, values))
        return pa.RecordBatch.from_pylist(rows, ARROW_SCHEMA)


def _row(key: Key, values: Mapping[str, Any]) -> dict[str, Any]:
    return {**_ZEROS, **dict(zip(_KINDS, key, strict=False)), **values}


def _bounds(outcome: Outcome, bounds: Range | None, *, windowed: bool) -> dict[str, Any]:
    """The bounds of a key with windows; otherwise the counts, or nothing if its topic has windows."""
    most = outcome.refused + outcome.maybe_refused
    delayed, longest = outcome.delayed, outcome.longest_delay_ns
    bounded = asdict(bounds or Range(outcome.refused, most, delayed, delayed, longest, longest))
    return dict.fromkeys(bounded) if windowed and bounds is None else bounded
