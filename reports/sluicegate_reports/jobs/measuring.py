"""Runs the transforms over a run and collects their results; all of them are small.

Several queries run at once: the time of a small one is mostly planning and waiting.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime
from functools import partial
from types import MappingProxyType
from typing import Any, TypeAlias

from pyspark.sql import DataFrame, SparkSession

from sluicegate_reports.progress import tell
from sluicegate_reports.runs import Family, Trial
from sluicegate_reports.transforms import (
    bounds,
    chunks,
    cost,
    counts,
    delay,
    delivery,
    engage,
    fairness,
    first_second,
    flows,
    lag,
    lanes,
    over_time,
    overshoot,
    pressure,
    refusals,
    served,
    skew,
    slots,
    throttle,
    totals,
    transit,
    windows,
)
from sluicegate_reports.verdicts.thresholds import IDLE_S, STALL_S, TRANSIT_S, WINDOW_S

Row: TypeAlias = dict[str, Any]
Rows: TypeAlias = list[Row]

_QUERIES_AT_ONCE = 3
_FINE_UP_TO_S = 600
"""Phases up to this long are looked at in slots of 100 ms, longer ones in seconds."""
_JUDGED_US = 60_000_000
"""So much of each phase is judged decision by decision: that pass is sequential."""
_IN_ONE_PIECE = 500_000
"""Up to so many sums are one task of each query: exchanging them between tasks takes longer than adding."""
DELAY_SHARES = delay.SHARES
_UNTOLD: Mapping[tuple[str, str], datetime] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Measures:
    """What was found, by transform; rows carry `lane` or `trial`, the trial's place in the run's list."""

    skews: Rows = field(default_factory=list)
    seconds: Rows = field(default_factory=list)
    errors: Rows = field(default_factory=list)
    """As `windows.rate_error`, with `window_s`."""
    overshoots: Rows = field(default_factory=list)
    firsts: Rows = field(default_factory=list)
    shares: Rows = field(default_factory=list)
    engaged: Rows = field(default_factory=list)
    judged: Rows = field(default_factory=list)
    totals: Rows = field(default_factory=list)
    lags: Rows = field(default_factory=list)
    """As `lag.most`."""
    unanswered: Rows = field(default_factory=list)
    attachments: Rows = field(default_factory=list)
    served: Rows = field(default_factory=list)
    bounded: Rows = field(default_factory=list)
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
    spark: SparkSession,
    trials: Sequence[Trial],
    decisions: DataFrame | None,
    observations: DataFrame | None,
    read_until: Mapping[tuple[str, str], datetime] = _UNTOLD,
) -> Measures:
    """Measure everything that the logs allow.

    :param decisions: the decision log; None if it has no rows.
    :param observations: likewise.
    :param read_until: when the consumers of an arm stopped reading, by system and door, where it is told.
    """
    with ThreadPoolExecutor(_QUERIES_AT_ONCE) as pool:
        # What needs no common clock runs beside what finds it; the longest first.
        clocks = pool.submit(_skews, decisions, observations)
        awaited = {
            name: pool.submit(_run, make)
            for name, make in _apart(spark, trials, decisions, observations, read_until)
        }
        ahead_us = skew.ahead_us(clocks.result())
        rates = _of_rates(spark, trials, decisions, observations, ahead_us)
        bases = [pool.submit(frame.localCheckpoint) for frame in rates.bases] if rates else []
        later = _by_one_clock(spark, trials, decisions, observations, ahead_us)
        awaited |= {name: pool.submit(_run, make) for name, make in later}
        if rates:
            if observations is not None:
                late = lag.unanswered(observations, rates.lanes)
                awaited["unanswered"] = pool.submit(collect, late)
            small = rates.small(*(base.result() for base in bases))
            awaited |= {name: pool.submit(collect, frame) for name, frame in small.items()}
        collected: dict[str, Rows] = {}
        for name, rows in awaited.items():
            tell(len(collected), len(awaited))
            collected[name] = rows.result()
    joined = [
        {**row, "window_s": int(name.removeprefix(_ERRORS))}
        for name in [name for name in collected if name.startswith(_ERRORS)]
        for row in collected.pop(name)
    ]
    bounded = [row for name in ("sizes", "asked") for row in collected.pop(name, [])]
    return Measures(skews=clocks.result(), errors=joined, bounded=bounded, **collected)


def _run(make: Callable[[], DataFrame]) -> Rows:
    """The rows of a frame, which some transforms need a job of their own to make."""
    return collect(make())


def _skews(decisions: DataFrame | None, observations: DataFrame | None) -> Rows:
    if decisions is None or observations is None:
        return []
    by = ("system", "door", "gateway", "who")
    return sorted(collect(skew.skew(decisions, observations)), key=lambda row: [row[name] for name in by])


def window_s(trial: Trial) -> int:
    """Length of the windows that a trial's rate is measured over: shorter where its phase is."""
    steady = (trial.end - trial.start).total_seconds() - 2 * trial.burst_seconds - 1
    return max(1, min(WINDOW_S, int(steady)))


def collect(frame: DataFrame) -> Rows:
    """All rows of a small frame."""
    return [row.asDict() for row in frame.collect()]


_ERRORS = "errors of windows of s: "
_Query: TypeAlias = tuple[str, Callable[[], DataFrame]]
"""The name of a figure, and what makes its frame."""


def _apart(
    spark: SparkSession,
    trials: Sequence[Trial],
    decisions: DataFrame | None,
    observations: DataFrame | None,
    read_until: Mapping[tuple[str, str], datetime],
) -> Iterator[_Query]:
    """Figures of one log by its own clock."""
    if observations is not None:
        ends = lanes.ends(spark, read_until)
        yield "deliveries", partial(delivery.delivery, observations, IDLE_S, ends)
        yield "latencies", partial(throttle.latencies, observations)
        if trials:
            yield "answers", partial(over_time.answers, observations, *over_time.span(trials))
    if decisions is not None:
        yield "costs", partial(cost.percentiles, decisions)
        yield "holds", partial(throttle.holds, decisions)


def _by_one_clock(
    spark: SparkSession,
    trials: Sequence[Trial],
    decisions: DataFrame | None,
    observations: DataFrame | None,
    ahead_us: Mapping[tuple[str, str], float],
) -> Iterator[_Query]:
    """What sets times of gates against those of clients, and the other figures of trials."""
    if decisions is not None and trials:
        yield "held", partial(over_time.holds, decisions, *over_time.span(trials), ahead_us)
    if observations is None:
        return
    families: dict[Family, tuple[str, Callable[[DataFrame], DataFrame]]] = {
        Family.COUNT: (
            "attachments",
            lambda tried: counts.attachments(observations, tried, decisions, ahead_us),
        ),
        Family.SIZE: ("sizes", lambda tried: bounds.messages(observations, tried, "bytes")),
        Family.ASKED_DELAY: ("asked", lambda tried: bounds.messages(observations, tried, "delay_ms")),
        Family.UNACKED: ("unacked", lambda tried: bounds.unacked(observations, tried)),
        Family.DELAY: (
            "delays",
            lambda tried: delay.errors(
                observations, tried, transit.transit(observations, transit.keeping(spark, trials))
            ),
        ),
    }
    for family, (name, transform) in families.items():
        if any(trial.measured.family is family for trial in trials):
            yield name, partial(transform, lanes.tries(spark, trials, family))
    if any(trial.measured.family is Family.COUNT for trial in trials):
        yield "served", partial(served.served, observations, lanes.tries(spark, trials, Family.COUNT))


@dataclass(frozen=True, slots=True)
class _Rates:
    """What the figures of rates are made of."""

    trials: Sequence[Trial]
    tried: Sequence[Trial]
    lanes: DataFrame
    flows: DataFrame
    width_us: int
    """Of a slot."""

    @property
    def bases(self) -> tuple[DataFrame, DataFrame]:
        """The two that one pass over the logs makes; all figures are made of them."""
        return slots.by_client(self.flows, self.width_us), chunks.chunks(self.flows, _JUDGED_US)

    def small(self, sums: DataFrame, rows: DataFrame) -> dict[str, DataFrame]:
        """The figures, out of what `bases` gave."""
        if sums.count() <= _IN_ONE_PIECE:
            sums = sums.coalesce(1)
        frames = {
            "seconds": windows.per_second(sums, self.width_us),
            "overshoots": overshoot.overshoot(rows, self.lanes),
            "firsts": first_second.first_second(rows, self.lanes),
            "shares": fairness.jain(sums),
            "engaged": engage.engage(sums, self.lanes, self.width_us),
            "totals": totals.totals(sums),
            "judged": refusals.refusals(rows, self.lanes, _JUDGED_US),
        }
        # Several figures start from these two, which would each time be planned and computed anew.
        late = lag.lag(sums, self.lanes, self.width_us, STALL_S, TRANSIT_S).localCheckpoint()
        frames["lags"] = lag.most(late)
        under = pressure.pressure(sums, self.lanes, self.width_us).localCheckpoint()
        for length in sorted({window_s(trial) for trial in self.tried}):
            numbers = [n for n, t in enumerate(self.trials) if t in self.tried and window_s(t) == length]
            chosen = self.lanes.where(self.lanes["lane"].isin(numbers))
            frames[f"{_ERRORS}{length}"] = windows.rate_error(
                sums, chosen, self.width_us, length, under, late
            )
        return frames


def _of_rates(
    spark: SparkSession,
    trials: Sequence[Trial],
    decisions: DataFrame | None,
    observations: DataFrame | None,
    ahead_us: Mapping[tuple[str, str], float],
) -> _Rates | None:
    tried = [t for t in trials if t.measured.family is Family.RATE and not t.missing and not t.not_applicable]
    if not tried or (decisions is None and observations is None):
        return None
    of = lanes.lanes(spark, trials, ahead_us)
    parts = [] if decisions is None else [flows.from_decisions(decisions, of)]
    parts += [] if observations is None else [flows.from_observations(observations, of)]
    both = parts[0] if len(parts) == 1 else parts[0].unionByName(parts[1])
    longest_s = max((trial.end - trial.start).total_seconds() for trial in tried)
    width_us = slots.FINE_US if longest_s <= _FINE_UP_TO_S else slots.COARSE_US
    return _Rates(trials, tried, of, both, width_us)
