"""Sentences about clock skew of clients and gates: its size, the evidence, and how it was corrected."""

from collections.abc import Iterator

from sluicegate_reports.jobs.measuring import Measures, Row, Rows
from sluicegate_reports.model.results import ClockSpan, RunFacts, Skew
from sluicegate_reports.transforms.lanes import moment
from sluicegate_reports.transforms.skew import EVERYBODY

_ALL = "all"
_DAY_US = 86_400_000_000
_TOLD_US = 100
"""Smaller differences are not reported: a thread may wait this long before it reads a clock."""


def skews(facts: RunFacts, measures: Measures) -> Iterator[Skew]:
    """What the runner asked before each arm, then what messages show of each gateway and client."""
    yield from facts.skews
    for row in measures.skews:
        low, high = row["at_least_us"], row["at_most_us"]
        client = _ALL if row["who"] == EVERYBODY else row["who"]
        of = "" if row["who"] == EVERYBODY else " of this client"
        basis = f"{row['pairs']:,} messages{of}: decided after they were sent, before they were acknowledged"
        if low - high >= _TOLD_US:
            basis += f"; the clocks drifted by {(low - high) / 1000:,.1f} ms or more meanwhile"
        yield Skew(
            client,
            row["system"],
            row["door"],
            -(low + high) / 2,
            abs(high - low) / 2,
            row["gateway"],
            basis,
            row["host"],
        )


def spans(measures: Measures) -> Iterator[ClockSpan]:
    """The clock offsets that were used to correct gateways' times."""
    for (system, door), steps in measures.clocks.items():
        for since_us, us in steps:
            yield ClockSpan(system, door, moment(since_us), us)


def notes(measures: Measures) -> Iterator[str]:
    """Clocks that disagree, and what was done about it."""
    arms: dict[tuple[str, str], Rows] = {}
    for row in measures.skews:
        arms.setdefault((row["system"], row["door"]), []).append(row)
    for (system, door), rows in arms.items():
        yield from _of_arm(f"{system} {door}", rows)


def _of_arm(name: str, rows: Rows) -> Iterator[str]:
    chosen = [row for row in rows if row["who"] == EVERYBODY] or rows
    for row in chosen:
        low, high = row["at_least_us"], row["at_most_us"]
        which = name if len(chosen) == 1 else f"{name}, {_gate(row, chosen)}, client {row['who']}"
        least, most = min(low, high), max(low, high)
        if low - high >= _TOLD_US:
            drift = f"{(low - high) / 1000:,.1f} ms"
            yield f"{which}: the clocks of gate and clients drifted apart by {drift} or more"
        elif least > 0 or most < 0:
            span = f"{least / 1000:,.1f} to {most / 1000:,.1f} ms"
            # Of clocks days apart the milliseconds say nothing.
            if max(-least, most) > _DAY_US:
                span = f"about {least / _DAY_US:,.1f} days"
            yield (
                f"{which}: the gateway's clock differs from the clients' by {span}; the middle was taken off "
                "the gateway's times"
            )
    yield from _apart(name, [row for row in rows if row["at_least_us"] <= row["at_most_us"]])


def _apart(name: str, rows: Rows) -> Iterator[str]:
    """Clients, or gates, whose bounds no single difference satisfies."""
    if not rows:
        return
    highest = max(rows, key=lambda row: row["at_least_us"])
    lowest = min(rows, key=lambda row: row["at_most_us"])
    apart_us = highest["at_least_us"] - lowest["at_most_us"]
    if apart_us >= _TOLD_US:
        yield (
            f"{name}: clocks disagree by {apart_us / 1000:,.1f} ms or more: "
            f"{_pair(highest, rows)} and {_pair(lowest, rows)}; "
            "one difference was taken off all of the gateway's times, so theirs are off by up to that"
        )


def _pair(row: Row, rows: Rows) -> str:
    who = "all clients" if row["who"] == EVERYBODY else f"client {row['who']}"
    return f"{_gate(row, rows)} against {who}"


def _gate(row: Row, rows: Rows) -> str:
    """The gate of a row, with its host if there are several."""
    several = len({each["host"] for each in rows}) > 1
    return f"gate {row['gateway']}" + (f" on {row['host'] or 'an unnamed host'}" if several else "")
