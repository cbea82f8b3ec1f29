"""All figures of rates: of each topic's lanes, out of what both logs tell of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluicegate_reports.jobs.by_topic import Row, Rows
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.transforms import (
    engage,
    fairness,
    first_second,
    flows,
    lag,
    lanes,
    overshoot,
    pressure,
    refusals,
    slots,
    totals,
    windows,
)
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.packed import Topic
from sluicegate_reports.transforms.requests import Gathered
from sluicegate_reports.transforms.slots import Slots
from sluicegate_reports.verdicts.thresholds import STALL_S, TRANSIT_S, WINDOW_S

_FINE_UP_TO_S = 600
"""Phases up to this long are looked at in slots of 100 ms, longer ones in seconds."""
_JUDGED_US = 60_000_000
"""So much of each phase is judged decision by decision: that pass is sequential."""


@dataclass(slots=True)
class _Seen:
    """What is known of a lane, by source."""

    slots: dict[str, Slots] = field(default_factory=dict)
    gathered: dict[str, Gathered] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Rates:
    """The figures of the rates of a run."""

    lanes: Sequence[Lane]
    window_s: Mapping[int, int]
    """Length of the windows that each is measured over, by number of the lane."""
    width_us: int
    """Of a slot."""

    def __call__(self, topic: Topic) -> dict[str, Rows]:
        """The figures of a topic's lanes, by name: each row has `lane` and `source`."""
        place = (topic.system, topic.door, topic.name)
        own = [lane for lane in self.lanes if lane.place == place]
        seen = self._seen(topic, own)
        known = [lane for lane in own if seen[lane.number].slots]
        carried = lag.carried([(lane, seen[lane.number].slots) for lane in known])
        found: dict[str, Rows] = {}
        for lane in known:
            of_lane = seen[lane.number]
            for name, source, row in self._figures(lane, of_lane, carried.get(lane.number, lag.Carried())):
                found.setdefault(name, []).append({"lane": lane.number, "source": source, **row})
        late = lag.unanswered(topic, own)
        rows = [{"lane": lane, "source": CLIENTS, "unanswered": count} for lane, count in late.items()]
        return {**found, "unanswered": rows}

    def _seen(self, topic: Topic, own: Sequence[Lane]) -> dict[int, _Seen]:
        seen = {lane.number: _Seen() for lane in own}
        for lane, source, part in flows.of_topic(topic, own):
            if len(part.at_us):
                of_lane = seen[lane.number]
                of_lane.slots.setdefault(source, Slots(source, lane.length_us, self.width_us)).add(part)
                of_lane.gathered.setdefault(source, Gathered(source, _JUDGED_US)).add(part)
        return seen

    def _figures(self, lane: Lane, seen: _Seen, carried: lag.Carried) -> Iterator[tuple[str, str, Row]]:
        """Name, source and row of each figure of a lane."""
        under = pressure.pressure(seen.slots, lane)
        late = lag.lag(seen.slots, lane, carried, STALL_S, TRANSIT_S)
        yield from _told("lags", CLIENTS, lag.most(late))
        spent, window_s = windows.spent(seen.slots), self.window_s[lane.number]
        for source, own in seen.slots.items():
            yield from (("seconds", source, row) for row in windows.per_second(own))
            errors = windows.rate_error(own, lane, window_s, spent[source], under, late)
            yield from _told("errors", source, errors and {**errors, "window_s": window_s})
            yield from _told("shares", source, fairness.jain(own))
            yield "engaged", source, engage.engage(own, lane)
            yield "totals", source, totals.totals(own)
            requests = seen.gathered[source].requests()
            yield from _told("overshoots", source, overshoot.overshoot(requests, lane))
            yield from _told("firsts", source, first_second.first_second(requests, lane))
            if source == LOG:
                yield from _told("judged", source, refusals.refusals(requests, lane, _JUDGED_US))


def rates(trials: Sequence[Trial], ahead_us: Mapping[tuple[str, str], float]) -> Rates:
    """What measures the rates that were tried.

    :param ahead_us: by how much gates' clocks are ahead of the clients', by system and door.
    """
    tried = lanes.lanes(trials, ahead_us)
    longest_us = max((lane.length_us for lane in tried), default=0)
    width_us = slots.FINE_US if longest_us <= _FINE_UP_TO_S * 1_000_000 else slots.COARSE_US
    return Rates(tried, {lane.number: window_s(trials[lane.number]) for lane in tried}, width_us)


def window_s(trial: Trial) -> int:
    """Length of the windows that a trial's rate is measured over: shorter where its phase is."""
    steady = (trial.end - trial.start).total_seconds() - 2 * trial.burst_seconds - 1
    return max(1, min(WINDOW_S, int(steady)))


def _told(name: str, source: str, row: Row | None) -> Iterator[tuple[str, str, Row]]:
    if row is not None:
        yield name, source, row
