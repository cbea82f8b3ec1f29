"""Counts a replay: one row for each topic, principal, kind of operation and policy."""

from dataclasses import dataclass, field

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
"""Of what a replay gives. A row without a policy tells what was asked and what the record says became of it;
a row with one, what this policy of the candidate would do. A row without a principal is of windows, or of
clients that have none; in a log with windows it has the bounds for all principals of its topic together."""

_NAMES = tuple(part.split()[0] for part in SCHEMA.split(", "))
_ARROW = {"string": pa.string(), "bigint": pa.int64(), "double": pa.float64()}
ARROW_SCHEMA = pa.schema([(name, _ARROW[kind]) for name, kind in (p.split() for p in SCHEMA.split(", "))])

Place = tuple[str, str, str, str, str, str | None, str]
"""System, door, gateway, namespace, topic, principal, operation."""


@dataclass(slots=True)
class Totals:
    """What was asked, and its recorded outcome."""

    operations: int = 0
    messages: int = 0
    recorded_refused: int = 0
    recorded_delayed: int = 0
    no_longer_refused: int = 0
    no_longer_delayed: int = 0


@dataclass(slots=True)
class Outcome:
    """What one policy of the candidate would do."""

    refused: int = 0
    newly_refused: int = 0
    maybe_refused: int = 0
    """Further ones that may be refused; the log is not detailed enough to decide."""
    delayed: int = 0
    newly_delayed: int = 0
    delay_ns: int = 0
    longest_ns: int = 0
    current: float = 0.0
    """The furthest that anything was above its limit, and that limit."""
    limit: float = 0.0

    def worst(self, decision: Decision) -> None:
        """Remember a reason that is further above its limit than those before."""
        reason = decision.reasons[0] if decision.reasons else None
        if reason is not None and reason.current * (self.limit or 1.0) > self.current * (reason.limit or 1.0):
            self.current, self.limit = float(reason.current), float(reason.limit)


@dataclass(slots=True)
class Range:
    """How many of all of a topic's operations are refused or delayed, at least and at most."""

    refused_low: int = 0
    refused_high: int = 0
    delayed_low: int = 0
    delayed_high: int = 0
    longest_low_ns: int = 0
    longest_high_ns: int = 0


@dataclass(slots=True)
class Tally:
    """All rows of a replay."""

    totals: dict[Place, Totals] = field(default_factory=dict)
    outcomes: dict[tuple[Place, str], Outcome] = field(default_factory=dict)
    ranges: dict[tuple[Place, str], Range] = field(default_factory=dict)
    """By the place of the windows, whose principal is None."""

    def totals_of(self, place: Place) -> Totals:
        """The totals of a place, made on demand."""
        return self.totals.setdefault(place, Totals())

    def outcome(self, place: Place, policy: str) -> Outcome:
        """The outcome of a policy, made on demand."""
        return self.outcomes.setdefault((place, policy), Outcome())

    def batch(self) -> pa.RecordBatch:
        """Everything, as rows of SCHEMA."""
        rows = [
            (*place, None, *_of_totals(totals)) for place, totals in self.totals.items() if totals.operations
        ]
        for place, policy in dict.fromkeys((*self.outcomes, *self.ranges)):
            outcome = self.outcomes.get((place, policy), Outcome())
            everyone = (*place[:5], None, place[6])
            windowed = (everyone, policy) in self.ranges
            bounds = self.ranges.get((place, policy))
            rows.append((*place, policy, *_of_outcome(outcome, bounds, windowed=windowed)))
        columns = zip(*rows, strict=True) if rows else [()] * len(_NAMES)
        arrays = [pa.array(list(c), f.type) for c, f in zip(columns, ARROW_SCHEMA, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=ARROW_SCHEMA)


def _of_totals(totals: Totals) -> tuple[int | float | None, ...]:
    told = (
        totals.operations,
        totals.messages,
        totals.recorded_refused,
        totals.recorded_delayed,
        totals.no_longer_refused,
        totals.no_longer_delayed,
    )
    return (*told, *(0,) * 12, None, None)


def _of_outcome(outcome: Outcome, bounds: Range | None, *, windowed: bool) -> tuple[int | float | None, ...]:
    refused: tuple[int | None, int | None] = (outcome.refused, outcome.refused + outcome.maybe_refused)
    delayed: tuple[int | None, int | None] = (outcome.delayed, outcome.delayed)
    longest: tuple[int | None, int | None] = (outcome.longest_ns, outcome.longest_ns)
    if bounds is not None:
        refused = bounds.refused_low, bounds.refused_high
        delayed = bounds.delayed_low, bounds.delayed_high
        longest = bounds.longest_low_ns, bounds.longest_high_ns
    elif windowed:
        refused = delayed = longest = (None, None)
    return (
        *(0,) * 6,
        outcome.refused,
        outcome.newly_refused,
        *refused,
        outcome.delayed,
        outcome.newly_delayed,
        *delayed,
        outcome.delay_ns,
        outcome.longest_ns,
        *longest,
        outcome.current if outcome.limit else None,
        outcome.limit or None,
    )
