"""All figures of rates: of each topic's lanes, out of what both logs tell of them."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import reduce
from itertools import product
from typing import NamedTuple

from sluicegate_reports.model.runs import Trial
from sluicegate_reports.transforms import (
    causes,
    engage,
    excess,
    fairness,
    flows,
    lag,
    lanes,
    law,
    moments,
    refusals,
    shortfall,
    slots,
)
from sluicegate_reports.transforms.ahead import Ahead
from sluicegate_reports.transforms.by_place import Place, names
from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.law import Moments, Rise, Unit
from sluicegate_reports.transforms.packed import Key, Topic
from sluicegate_reports.transforms.parts import Row, Rows
from sluicegate_reports.transforms.requests import Gathered, Narrow, Requests, joined, merged, widened
from sluicegate_reports.transforms.slots import Slots
from sluicegate_reports.verdicts.thresholds import EXACT_SHARE, STALL_S, TRANSIT_S

_FINE_UP_TO_S = 600
"""Phases up to this long are looked at in slots of 100 ms, longer ones in seconds."""
_JUDGED_US = 60_000_000
"""Length of a phase that is judged decision by decision: that pass is sequential."""


class _Seen(NamedTuple):
    """Evidence of one source about a lane, from one slice."""

    slots: Slots
    by_place: Mapping[Place, Requests | Narrow]
    rise: Rise | None
    """The law of the slice, where the times are exact."""


class Part(NamedTuple):
    """Evidence of one slice about the lanes of its topic, by their number."""

    seen: Mapping[int, Mapping[str, _Seen]]
    set_in: Mapping[int, Mapping[tuple[str, int], int]]
    """See `causes.set_in`."""
    late: Mapping[int, int]


@dataclass(frozen=True, slots=True)
class Rates:
    """The figures of the rates of a run."""

    lanes: Sequence[Lane]
    width_us: int
    """Of a slot."""

    def of_slice(self, topic: Topic) -> Part:
        """What a topic, or a slice of it, tells of its lanes."""
        own = self._own(topic.topic_key)
        set_in = {lane.number: causes.set_in(topic, lane) for lane in own}
        return Part(self._seen(topic, own), set_in, lag.unanswered(topic, own))

    def together(self, topic_key: Key, parts: Sequence[Part]) -> dict[str, Rows]:
        """The figures of a topic's lanes, by name: each row has `lane` and `source`."""
        own = self._own(topic_key)
        slices = {lane.number: _by_source(lane, parts) for lane in own}
        known = [lane for lane in own if slices[lane.number]]
        sums = {lane.number: _sums(slices[lane.number]) for lane in known}
        carried = lag.carried([(lane, sums[lane.number]) for lane in known])
        by_name: dict[str, Rows] = {}
        for lane in known:
            evidence = _Evidence(lane, slices[lane.number], carried.get(lane.number, 0))
            rows = [*_figures(evidence, sums[lane.number])]
            changes = [part.set_in[lane.number] for part in parts]
            rows += [("causes", LOG, row) for row in _causes(evidence, changes, rows, sums[lane.number])]
            for name, source, row in rows:
                by_name.setdefault(name, []).append({"lane": lane.number, "source": source, **row})
        unanswered = [
            {"lane": lane.number, "source": CLIENTS, "unanswered": late}
            for lane in own
            if (late := sum(part.late.get(lane.number, 0) for part in parts))
        ]
        return {**by_name, "unanswered": unanswered}

    def _own(self, topic_key: Key) -> list[Lane]:
        return [lane for lane in self.lanes if lane.topic_key == topic_key]

    def _seen(self, topic: Topic, own: Sequence[Lane]) -> dict[int, dict[str, _Seen]]:
        sums: dict[tuple[int, str], Slots] = {}
        gathered: dict[tuple[int, str], dict[Place, Gathered]] = {}
        for lane, source, place, part in flows.of_topic(topic, own):
            if len(part.at_us):
                key = lane.number, source
                if key not in sums:
                    sums[key], gathered[key] = Slots(source, lane.length_us, self.width_us), {}
                sums[key].add(part)
                gathered[key].setdefault(place, Gathered(source)).add(part)
        seen: dict[int, dict[str, _Seen]] = {}
        for lane, source in product(own, (LOG, CLIENTS)):
            if (lane.number, source) in sums:
                several = {name: each.requests() for name, each in gathered[lane.number, source].items()}
                seen.setdefault(lane.number, {})[source] = _Seen(
                    sums[lane.number, source],
                    {name: each if topic.is_whole else Narrow.of(each) for name, each in several.items()},
                    _rise(lane, source, several.values()),
                )
        return seen


def _rise(lane: Lane, source: str, several: Collection[Requests]) -> Rise | None:
    # Moments that are ranges reach into other slices, so their law is not summed up by slice.
    if source != LOG or any(each.window_ms for each in several):
        return None
    return law.rise([moments.of_log(merged(several))], Unit.of(lane.rate))


_Slices = Mapping[str, Sequence[_Seen]]
"""By source, in order of time."""


def _by_source(lane: Lane, parts: Sequence[Part]) -> _Slices:
    by_source: dict[str, list[_Seen]] = {}
    for part in parts:
        for source, seen in part.seen.get(lane.number, {}).items():
            by_source.setdefault(source, []).append(seen)
    return by_source


def _sums(slices: _Slices) -> dict[str, Slots]:
    sums = {}
    for source, (first, *others) in slices.items():
        sums[source] = first.slots
        for other in others:
            first.slots.merge(other.slots)
    return sums


@dataclass(frozen=True, slots=True)
class _Evidence:
    """All evidence about a lane."""

    lane: Lane
    slices: _Slices
    carried: int
    """Messages on their way to the clients when it began."""

    def requests(self, source: str) -> Requests:
        """All that a source tells, at once in memory."""
        return joined([*self.by_slice(source)])

    def by_slice(self, source: str) -> Iterator[Requests]:
        """Requests of a source, slice by slice."""
        for seen in self.slices[source]:
            yield merged([widened(each) for each in seen.by_place.values()])

    def by_place(self) -> dict[str, Requests]:
        """What the log of each place tells, by its name."""
        by_place: dict[Place, list[Requests]] = {}
        for seen in self.slices.get(LOG, ()):
            for place, requests in seen.by_place.items():
                by_place.setdefault(place, []).append(widened(requests))
        name = names(by_place)
        return {name[place]: joined(each) for place, each in by_place.items()}

    def shares(self) -> Iterator[Row]:
        """How much each place admitted and refused, in what the lane counts."""
        sums: dict[Place, tuple[int, int]] = {}
        for seen in self.slices.get(LOG, ()):
            for place, requests in seen.by_place.items():
                own, before = widened(requests), sums.get(place, (0, 0))
                amounts = own.admitted.amount, own.refused.amount
                sums[place] = before[0] + int(amounts[0].sum()), before[1] + int(amounts[1].sum())
        for place, (admitted, refused) in sorted(sums.items()):
            yield {**place._asdict(), "admitted": admitted, "refused": refused}

    def moments(self, source: str) -> Iterable[Moments]:
        """The moments of a source, piece by piece."""
        if source == LOG and self.rise(LOG) is not None:
            return _Each(self._exact_moments)
        if source == LOG:
            return [moments.of_log(self.requests(LOG))]
        log = self.requests(LOG) if LOG in self.slices else None
        most_s = STALL_S if log is None else TRANSIT_S
        return [moments.of_clients(self.requests(source), log, self.carried, int(most_s * 1e6))]

    def _exact_moments(self) -> Iterator[Moments]:
        for seen in self.slices[LOG]:
            first, *others = seen.by_place.values()
            if isinstance(first, Narrow) and not others:
                at_us, amount = first.exactly()
                yield Moments(at_us, at_us, amount)
            else:
                yield moments.of_log(merged([widened(each) for each in (first, *others)]))

    def rise(self, source: str) -> Rise | None:
        """The law of a source's slices put together, if it is known."""
        rises = [seen.rise for seen in self.slices[source]]
        known = [rise for rise in rises if rise is not None]
        return reduce(Rise.then, known) if len(known) == len(rises) else None


@dataclass(frozen=True, slots=True)
class _Each:
    """Makes moments anew each time that they are gone through, so that one slice is in memory."""

    make: Callable[[], Iterator[Moments]]

    def __iter__(self) -> Iterator[Moments]:
        return self.make()


def _figures(evidence: _Evidence, sums: Mapping[str, Slots]) -> Iterator[tuple[str, str, Row]]:
    """Name, source and row of each figure of a lane."""
    lane = evidence.lane
    yield "carried", CLIENTS, {"carried_messages": evidence.carried}
    for source, own in sums.items():
        yield from (("seconds", source, row) for row in slots.per_second(own))
        yield from _row("shares", source, fairness.jain(own))
        yield "engaged", source, engage.engage(own, lane)
        yield "totals", source, slots.totals(own)
        when = evidence.moments(source)
        yield from _row("laws", source, excess.excess(when, lane, evidence.rise(source)))
        if source == LOG:
            limited = shortfall.waits(evidence.by_slice(LOG), lane)
            yield from _row("owed", source, shortfall.shortfall(when, lane, limited))
            first = [each for each in evidence.by_slice(LOG) if each.begins_before(_JUDGED_US)]
            judged = refusals.refusals(joined(first), lane, _JUDGED_US) if first else None
            yield from _row("judged", source, judged)
            yield from (("places", source, row) for row in evidence.shares())
        elif LOG not in sums:
            seen = evidence.requests(source)
            limited = shortfall.waits([seen], lane)
            asked = shortfall.waits_of_clients(seen, lane)
            yield from _row("owed", source, shortfall.shortfall(when, lane, limited, asked))


def _causes(
    evidence: _Evidence,
    changes: causes.Set,
    figures: Sequence[tuple[str, str, Row]],
    sums: Mapping[str, Slots],
) -> Iterator[Row]:
    """Looked for where the law may not be kept, or where the log and the clients differ."""
    over = any(name == "laws" and row["excess_share"] > EXACT_SHARE for name, _, row in figures)
    less = any(name == "owed" and row["given"] < (1 - EXACT_SHARE) * row["owed"] for name, _, row in figures)
    messages = {source: int(own.admitted_messages.sum()) for source, own in sums.items()}
    differ = len(sums) > 1 and abs(messages[LOG] - messages[CLIENTS]) > EXACT_SHARE * messages[LOG] + 1
    if over or less or differ:
        requests = {source: evidence.requests(source) for source in sums}
        yield from causes.causes(evidence.lane, requests, evidence.by_place(), changes)


def rates(trials: Sequence[Trial], clocks: Ahead) -> Rates:
    """What measures the rates that were tried.

    :param clocks: by how much gateways' clocks are ahead.
    """
    tried = lanes.lanes(trials, clocks)
    longest_us = max((lane.length_us for lane in tried), default=0)
    width_us = slots.FINE_US if longest_us <= _FINE_UP_TO_S * 1_000_000 else slots.COARSE_US
    return Rates(tried, width_us)


def _row(name: str, source: str, row: Row | None) -> Iterator[tuple[str, str, Row]]:
    if row is not None:
        yield name, source, row
