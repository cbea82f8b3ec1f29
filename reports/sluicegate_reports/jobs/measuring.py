"""Measures everything that the logs of a run allow, and collects it; all of it is small.

All of it works on packed logs, which each log is read once for.
"""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from datetime import datetime
from functools import partial
from types import MappingProxyType

from sluicegate_reports.jobs.other_figures import of_others, of_transit
from sluicegate_reports.jobs.rate_figures import rates
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.registry import systems
from sluicegate_reports.transforms import ahead, cost, delay, delivery, lanes, over_time, skew, throttle
from sluicegate_reports.transforms.ahead import Ahead
from sluicegate_reports.transforms.packed import DECISIONS, OBSERVATIONS, Key, Topic
from sluicegate_reports.transforms.parts import Figures, Logs, OfArm, OfTopic, Row, Rows
from sluicegate_reports.verdicts.thresholds import IDLE_S

__all__ = ["DELAY_SHARES", "Measures", "Row", "Rows", "measure"]

DELAY_SHARES = delay.SHARES
_UNTOLD: Mapping[tuple[str, str], datetime] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Measures:
    """What was found, by transform; rows carry `lane` or `trial`, the trial's index in the run's list."""

    skews: Rows = field(default_factory=list)
    clocks: Ahead = field(default_factory=dict)
    seconds: Rows = field(default_factory=list)
    laws: Rows = field(default_factory=list)
    """Rows of `excess.excess`."""
    owed: Rows = field(default_factory=list)
    """Rows of `shortfall.shortfall`."""
    shares: Rows = field(default_factory=list)
    places: Rows = field(default_factory=list)
    """What each gateway, host and worker admitted and refused of a lane."""
    engaged: Rows = field(default_factory=list)
    judged: Rows = field(default_factory=list)
    totals: Rows = field(default_factory=list)
    carried: Rows = field(default_factory=list)
    """Rows of `lag.carried`."""
    unanswered: Rows = field(default_factory=list)
    causes: Rows = field(default_factory=list)
    """Rows of `causes.causes`."""
    attachments: Rows = field(default_factory=list)
    served: Rows = field(default_factory=list)
    bounded: Rows = field(default_factory=list)
    rejected: Rows = field(default_factory=list)
    """Messages that logs say were refused, as `rejections.rejections`."""
    unacked: Rows = field(default_factory=list)
    delays: Rows = field(default_factory=list)
    holds: Rows = field(default_factory=list)
    latencies: Rows = field(default_factory=list)
    answers: Rows = field(default_factory=list)
    """Over time, as `over_time.answers`; `held` likewise."""
    held: Rows = field(default_factory=list)
    costs: Rows = field(default_factory=list)
    deliveries: Rows = field(default_factory=list)
    further: Rows = field(default_factory=list)
    """What other packages measure: `metric`, `trial`, `value`."""


def measure(
    trials: Sequence[Trial],
    logs: Logs,
    read_until: Mapping[tuple[str, str], datetime] = _UNTOLD,
    *,
    available: Collection[str],
) -> Measures:
    """Measure everything that the logs allow.

    :param logs: both, as far as they have rows.
    :param available: which of the two that is, see `packed`.
    :param read_until: when the consumers of an arm stopped reading, by system and door, where it is told.
    """
    before = replace(_CLOCKS, of_arms=[*_CLOCKS.of_arms, *of_transit(trials)])
    clock_rows = logs.measured(before) if OBSERVATIONS in available else {}
    spans, seen = clock_rows.get("spans", []), clock_rows.get("ends", [])
    clocks = ahead.ahead(spans)
    ends = {arm: lanes.microseconds(moment) for arm, moment in read_until.items()}
    of_all = _of_all(trials, clocks, delivery.read_until(seen, ends))
    others = of_others(trials, clocks, clock_rows.get("transits", []), has_log=DECISIONS in available)
    collected = logs.measured(replace(of_all, of_arms=[*of_all.of_arms, *others]))
    bounded = [row for name in ("sizes", "asked") for row in collected.pop(name, [])]
    return Measures(skews=ahead.skews(spans), clocks=clocks, bounded=bounded, **collected)


def _spans(topic: Key, parts: Sequence[skew.OfSlice]) -> dict[str, Rows]:
    return {"spans": skew.spans(topic, parts)}


_CLOCKS = Figures(
    (OfTopic("clocks", skew.of_slice, _spans),),
    (OfArm("ends", delivery.ends, delivery.ends_together),),
)


def _of_all(
    trials: Sequence[Trial],
    clocks: Ahead,
    end_us: Mapping[tuple[str, str], int],
) -> Figures:
    """The figures that look at all rows."""
    of_arms = [OfArm("costs", cost.costs, cost.costs_together)]
    if trials:
        span = over_time.span(trials)
        answers = partial(over_time.answers, span=span)
        held = partial(over_time.holds, span=span, clocks=clocks)
        of_arms += [
            OfArm("answers", answers, over_time.answers_together),
            OfArm("held", held, over_time.holds_together),
        ]
    of_rates = rates(trials, clocks)
    # Where Spark runs, a registered system need not be known.
    unordered = [system.name for system in systems().values() if system.unordered_calls]
    deliveries = partial(_deliveries, end_us=end_us, unordered=unordered)
    of_topics = (
        OfTopic("rates", of_rates.of_slice, of_rates.together),
        OfTopic("deliveries", delivery.seen, deliveries),
        OfTopic("throttled", _throttled, _of_throttled),
    )
    return Figures(of_topics, of_arms)


def _deliveries(
    topic: Key,
    parts: Sequence[delivery.Seen | None],
    end_us: Mapping[tuple[str, str], int],
    unordered: Sequence[str],
) -> dict[str, Rows]:
    until_us = end_us.get((str(topic[0]), str(topic[1])), 0)
    return {"deliveries": delivery.delivery(topic, parts, IDLE_S, until_us, unordered)}


def _throttled(topic: Topic) -> throttle.Throttled | None:
    # Rows without a topic are there a second time.
    return throttle.throttled(topic) if topic.name is not None else None


def _of_throttled(topic: Key, parts: Sequence[throttle.Throttled | None]) -> dict[str, Rows]:
    known = [part for part in parts if part is not None]
    return {"latencies": throttle.latencies(topic, known), "holds": throttle.holds(topic, known)}
