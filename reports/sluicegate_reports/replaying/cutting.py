"""Where a topic's rows can be cut into slices of time that are replayed apart, with the same result.

A slice begins after a pause in which all buckets become full and nothing stays held. The bound is the backlog
of a single server: each operation brings the time that its tokens take to refill, summed over its limits.
Whatever waits or lacks tokens, one bucket at least refills meanwhile, so the sum shrinks by 1 s each second.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any

from pyspark.sql import DataFrame

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.engine.wait_queue import RETRY_NS
from sluicegate.model import ANONYMOUS, EffectivePolicies
from sluicegate_reports.registry import policies as measured
from sluicegate_reports.registry import system as registered
from sluicegate_reports.registry.measured import Family
from sluicegate_reports.replaying.candidate import Candidate, Engine
from sluicegate_reports.replaying.demand import TOPIC_COLUMNS, seconds
from sluicegate_reports.transforms.packing import CUT_FROM, SLICE_ROWS

_MARGIN_NS = SECOND_NS
"""Margin that exceeds all rounding of times and balances."""
_NEVER_NS = 1 << 62
_RATES = {
    "publish": ("max_publish_rate",),
    "dispatch": ("max_dispatch_rate", "max_subscription_dispatch_rate"),
}
_REMEMBERING = frozenset({Family.COUNT, Family.UNACKED})
"""Policies whose state does not pass with time."""


@dataclass(slots=True)
class Cuts:
    """The slices of topics, and what stays long."""

    starts: dict[int, list[int]] = field(default_factory=dict)
    """By the number of a topic: where its slices begin, in us; the first has no beginning."""
    notes: list[str] = field(default_factory=list)
    """Which tasks are long, and why."""


def cuts(decisions: DataFrame, candidate: Candidate, slice_rows: int = SLICE_ROWS) -> Cuts:
    """Find the slices of topics with many rows.

    :param decisions: a decision log.
    :param candidate: the policies to try.
    :param slice_rows: a slice has so many rows at least.
    """
    least = CUT_FROM * slice_rows
    asked = seconds(decisions, least, counts=candidate.counts, unacked=candidate.unacked)
    return cuts_of(asked, candidate, slice_rows)


def cuts_of(asked: Iterable[dict[str, Any]], candidate: Candidate, slice_rows: int) -> Cuts:
    """As `cuts`, from rows of `demand.seconds`."""
    cuts = Cuts()
    engines: dict[tuple[str, str], Engine | None] = {}
    for number, of_topic in groupby(asked, key=lambda second: second["topic_id"]):
        rows = list(of_topic)
        system, _, gateway, namespace, topic = (rows[0][name] or "" for name in TOPIC_COLUMNS)
        if (system, gateway) not in engines:
            entry = candidate.entry(system, gateway)
            engines[system, gateway] = Engine(entry, candidate.modules) if entry else None
        engine = engines[system, gateway]
        if engine is None:
            continue
        policies = engine.gate(topic, namespace, ANONYMOUS, 0).policies
        hold_ns = _NEVER_NS if registered(system).waits_long else engine.entry.max_hold_ns
        backlogs = {kind: _Backlog(policies, kind, hold_ns) for kind in _RATES}
        why = _uncut(engine, policies, rows)
        starts, longest = _starts({} if why else backlogs, rows, slice_rows)
        if starts:
            cuts.starts[number] = starts
        if longest >= CUT_FROM * slice_rows:
            cuts.notes.append(_note(topic, rows, longest, why))
    return cuts


def _note(topic: str, rows: Iterable[Mapping[str, Any]], longest: int, why: str | None) -> str:
    if why is None and any(second["held"] for second in rows):
        why = "operations were held in it when it was recorded"
    why = why or "no pause in it is long enough for all buckets to fill and for what is held to pass"
    return f"{longest:,} rows of {topic} are replayed by one task, as {why}."


def _uncut(engine: Engine, policies: EffectivePolicies, rows: Iterable[Mapping[str, Any]]) -> str | None:
    """Why a topic is not cut at all; None if it can be."""
    for name, policy in measured().items():
        if policy.family in _REMEMBERING and policies.number(name):
            return f"{name} depends on all that came before"
    if engine.further_plugins:
        return f"{engine.further_plugins[0]} may depend on all that came before"
    if any(second["windows"] for second in rows):
        return "its allows are known in windows"
    return None


def _starts(
    backlogs: Mapping[str, "_Backlog"], rows: Iterable[Mapping[str, Any]], slice_rows: int
) -> tuple[list[int], int]:
    """Where slices begin, and how many rows the longest has.

    :param backlogs: by kind of operation; none if the topic is not to be cut.
    :param rows: its seconds, in order of their first operations.
    """
    starts: list[int] = []
    count = longest = 0
    held = not backlogs
    for second in rows:
        first_ns = second["first_us"] * 1000
        settled = not held and all(first_ns > backlog.until_ns for backlog in backlogs.values())
        if settled and count >= slice_rows:
            starts.append(second["first_us"])
            longest, count = max(longest, count), 0
        count += second["rows"]
        # When one that was held passed is told by a later row, which may be anywhere.
        held = held or second["held"] > 0
        if not held and second["operation"] in backlogs:
            backlogs[second["operation"]].add(second)
    return starts, max(longest, count)


class _Backlog:
    """Until when operations of one kind on a topic can leave traces in the engine.

    :param hold_ns: a publish that is held for longer is refused.
    """

    def __init__(self, policies: EffectivePolicies, kind: str, hold_ns: int) -> None:
        names = [(name, f"{name}_bytes") for name in _RATES[kind]]
        self._rates = [
            (column, policies.number(name))
            for pair in names
            for column, name in zip(("messages", "bytes"), pair, strict=True)
            if policies.number(name)
        ]
        self._burst_ns = int((policies.number("burst_seconds") or 1.0) * SECOND_NS)
        self._waits = kind == "dispatch" or policies.on_limit(names[0]) == "delay"
        self._hold_ns = _NEVER_NS if kind == "dispatch" else hold_ns
        self._most = {"messages": 0, "bytes": 0}
        self._free_ns = self._operations = 0
        self._held = False
        self.until_ns = 0

    def add(self, second: Mapping[str, Any]) -> None:
        """Add the operations of a second, as if all came with its last one: later leaves more."""
        if second["first_us"] * 1000 > self.until_ns:
            self._operations, self._held = 0, False
        last_ns = second["last_us"] * 1000
        self._free_ns = max(self._free_ns, last_ns) + self._refill_ns(second)
        if not self._waits:
            # A refused one takes nothing: a bucket lacks at most its whole, or what the largest took of it.
            self._most = {name: max(most, second[f"most_{name}"]) for name, most in self._most.items()}
            self._free_ns = min(self._free_ns, last_ns + self._refill_ns(self._most, self._burst_ns))
        elif self._free_ns - last_ns >= self._burst_ns:
            self._held = True
        self._operations += second["rows"]
        # Of those that wait, each but the first asks again after so long at least.
        self.until_ns = self._free_ns + _MARGIN_NS + (RETRY_NS * self._operations if self._held else 0)
        if self._held and self.until_ns - last_ns >= self._hold_ns:
            # Some may be refused meanwhile, of which those behind them learn late.
            self.until_ns = self._free_ns = _NEVER_NS

    def _refill_ns(self, taken: Mapping[str, Any], least_ns: int = 0) -> int:
        return sum(max(least_ns, int(taken[name] / rate * SECOND_NS) + 1) for name, rate in self._rates)
