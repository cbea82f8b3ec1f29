"""All figures of rates: of each topic's lanes, out of what both logs tell of them."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field

from sluicegate_reports.jobs.by_topic import Row, Rows
from sluicegate_reports.model.runs import Trial
from sluicegate_reports.transforms import (
    causes,
    engage,
    excess,
    fairness,
    flows,
    lag,
    lanes,
    moments,
    refusals,
    shortfall,
    slots,
    totals,
)
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.law import Moments
from sluicegate_reports.transforms.packed import Topic
from sluicegate_reports.transforms.requests import Gathered, Requests
from sluicegate_reports.transforms.slots import Slots
from sluicegate_reports.verdicts.thresholds import EXACT_SHARE, STALL_S, TRANSIT_S

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
            requests = {source: gathered.requests() for source, gathered in of_lane.gathered.items()}
            rows = [*_figures(lane, of_lane.slots, requests, carried.get(lane.number, 0))]
            rows += [("causes", LOG, row) for row in _causes(topic, lane, requests, rows)]
            for name, source, row in rows:
                found.setdefault(name, []).append({"lane": lane.number, "source": source, **row})
        late = lag.unanswered(topic, own)
        unanswered = [{"lane": lane, "source": CLIENTS, "unanswered": count} for lane, count in late.items()]
        return {**found, "unanswered": unanswered}

    def _seen(self, topic: Topic, own: Sequence[Lane]) -> dict[int, _Seen]:
        seen = {lane.number: _Seen() for lane in own}
        for lane, source, part in flows.of_topic(topic, own):
            if len(part.at_us):
                of_lane = seen[lane.number]
                of_lane.slots.setdefault(source, Slots(source, lane.length_us, self.width_us)).add(part)
                of_lane.gathered.setdefault(source, Gathered(source)).add(part)
        return seen


def _figures(
    lane: Lane, sums: Mapping[str, Slots], requests: Mapping[str, Requests], carried: int
) -> Iterator[tuple[str, str, Row]]:
    """Name, source and row of each figure of a lane.

    :param carried: messages on their way to the clients when it began.
    """
    yield "carried", CLIENTS, {"carried_messages": carried}
    for source, own in sums.items():
        yield from (("seconds", source, row) for row in slots.per_second(own))
        yield from _told("shares", source, fairness.jain(own))
        yield "engaged", source, engage.engage(own, lane)
        yield "totals", source, totals.totals(own)
        when = _moments(source, requests, carried)
        yield from _told("laws", source, excess.excess(when, lane))
        if source == LOG or LOG not in requests:
            asked = None if source == LOG else shortfall.waits_of_clients(requests[source], lane)
            owed = shortfall.shortfall(when, lane, requests[source].limited, asked)
            yield from _told("owed", source, owed)
        if source == LOG:
            yield from _told("judged", source, refusals.refusals(requests[LOG], lane, _JUDGED_US))


def _causes(
    topic: Topic, lane: Lane, requests: Mapping[str, Requests], figures: Sequence[tuple[str, str, Row]]
) -> Iterator[Row]:
    """Looked for where the law may not be kept, or where the log and the clients differ."""
    over = any(name == "laws" and row["excess_share"] > EXACT_SHARE for name, _, row in figures)
    less = any(name == "owed" and row["given"] < (1 - EXACT_SHARE) * row["owed"] for name, _, row in figures)
    told = {source: int(each.admitted.messages.sum()) for source, each in requests.items()}
    differ = len(told) > 1 and abs(told[LOG] - told[CLIENTS]) > EXACT_SHARE * told[LOG] + 1
    if over or less or differ:
        yield from causes.causes(topic, lane, requests)


def _moments(source: str, requests: Mapping[str, Requests], carried: int) -> Moments:
    if source == LOG:
        return moments.of_log(requests[LOG])
    log = requests.get(LOG)
    most_s = STALL_S if log is None else TRANSIT_S
    return moments.of_clients(requests[CLIENTS], log, carried, int(most_s * 1e6))


def rates(trials: Sequence[Trial], ahead_us: Mapping[tuple[str, str], float]) -> Rates:
    """What measures the rates that were tried.

    :param ahead_us: by how much gates' clocks are ahead of the clients', by system and door.
    """
    tried = lanes.lanes(trials, ahead_us)
    longest_us = max((lane.length_us for lane in tried), default=0)
    width_us = slots.FINE_US if longest_us <= _FINE_UP_TO_S * 1_000_000 else slots.COARSE_US
    return Rates(tried, width_us)


def _told(name: str, source: str, row: Row | None) -> Iterator[tuple[str, str, Row]]:
    if row is not None:
        yield name, source, row
