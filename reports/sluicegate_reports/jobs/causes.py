"""Names the causes of what is not kept, in words."""

from collections.abc import Iterator
from dataclasses import replace
from itertools import pairwise

from sluicegate_reports.jobs.measuring import Measures, Row
from sluicegate_reports.model.finding import Cause, Figures, Finding
from sluicegate_reports.model.quantities import number, quantity
from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.model.verdict import Verdict
from sluicegate_reports.transforms import causes
from sluicegate_reports.transforms.lanes import microseconds

_EXPLAINED = (Verdict.DISPUTED, Verdict.OFF)
TOO_SLOW = "clients_too_slow"
CLOCK_STEPPED = "clock_stepped"
_SET_S = 1.0
"""Smaller steps are drift, which is followed."""


def with_causes(index: int, trial: Trial, figures: Figures, finding: Finding, measures: Measures) -> Finding:
    """A finding with what explains it; one that is kept needs no cause.

    :param index: the trial's index in the run's list.
    """
    causes_found: list[Cause] = []
    if finding.verdict in _EXPLAINED:
        rows = [row for row in measures.causes if row["lane"] == index]
        steps = list(_steps(trial, measures)) if measured_as(trial).family is Family.RATE else []
        # Where a clock was set forward, its log seems to have a gap.
        causes_found = [_cause(row) for row in rows if not (row["kind"] == causes.LOG_GAP and steps)] + steps
    elif finding.verdict is Verdict.NOT_REACHED and measured_as(trial).family is Family.RATE:
        causes_found = [_too_slow(trial, figures)]
    text = "; ".join([finding.text, *(cause.text for cause in causes_found)])
    return replace(finding, text=text, causes=tuple(causes_found)) if causes_found else finding


def _cause(row: Row) -> Cause:
    return Cause(row["kind"], _text(row), row["from_s"], row["to_s"], row["messages"])


def _text(row: Row) -> str:
    names, messages = row["names"], row["messages"]
    begin, end = number(round(row["from_s"], 1)), number(round(row["to_s"], 1))
    match row["kind"]:
        case causes.LOG_TWICE:
            return f"the log has each row twice: {messages:,} messages are counted again"
        case causes.LOG_GAP:
            return f"the log has nothing from {begin} s to {end} s, when clients saw {messages:,} messages"
        case causes.NO_ANSWERS:
            return f"nobody got an answer from {begin} s to {end} s, and {messages:,} sends failed"
        case causes.GATEWAYS:
            return f"{len(names)} gateways ({', '.join(names)}) each kept the whole limit by itself"
        case causes.LIMIT_CHANGED:
            return f"the gateway's limit changed at {begin} s, from {names[0]} to {names[-1]}"
        case causes.POLICIES_CHANGED:
            return f"the policies changed at {begin} s (version {names[0]} to {names[-1]})"
    raise AssertionError(row["kind"])


def _steps(trial: Trial, measures: Measures) -> Iterator[Cause]:
    """Where a gateway's clock was set."""
    clocks = measures.clocks.get((trial.system, trial.door), ())
    begin_us, end_us = microseconds(trial.start), microseconds(trial.end)
    for (_, before_us), (at_us, after_us) in pairwise(clocks):
        at_s, step_s = (at_us - begin_us) / 1e6, (after_us - before_us) / 1e6
        if begin_us <= at_us < end_us and abs(step_s) >= _SET_S:
            direction = "back" if step_s < 0 else "forward"
            by = number(round(abs(step_s), 1))
            text = f"the gateway's clock was set {direction} at about {number(round(at_s, 1))} s, by {by} s"
            yield Cause(CLOCK_STEPPED, text, at_s, at_s + step_s, 0)


def _too_slow(trial: Trial, figures: Figures) -> Cause:
    length_s = (trial.end - trial.start).total_seconds()
    asked = figures.get("seen_asked") or figures.get("asked") or 0
    return Cause(
        TOO_SLOW, f"clients asked for {quantity(asked / length_s, 'messages/s')}", 0.0, length_s, int(asked)
    )
