"""Bounded samples of topics: the busiest are named, all others are summed up as `other`.

Taking them never needs a lock and is done in slices, as it runs on the relay's event loop. Of many topics
each sample takes those with a name and some of the others, in turn. What is added up as `other` only ever
grows, whichever topics change places.
"""

import asyncio
from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from heapq import nlargest
from operator import add, sub
from typing import Any

from sluicegate.engine.gates import GateCache
from sluicegate.engine.held import HOLD_SLOTS
from sluicegate.engine.state import COUNTERS, SIZE_SLOTS, TopicState
from sluicegate.model import shortened
from sluicegate.runtime.labels import LONGEST, OTHER, label
from sluicegate.runtime.limits import Limits
from sluicegate.runtime.use import TopicUse, utilization

TOPICS = 200
SUBSCRIPTIONS = 50
"""Subscriptions of each topic that have a name of their own."""

_SLICE = 256
_SAMPLES_AT_ONCE = 20
_PER_SAMPLE = 4_096
"""Topics that one sample looks at, besides those with a name."""
_REVIEW = 60
"""Samples between two looks at which topics are the busiest."""
_HOLD_SUM = HOLD_SLOTS
"""Index of the ns held in all behind the slots of a hold histogram."""


@dataclass(slots=True)
class _Seen:
    """A topic as it was at the last sample."""

    state: TopicState
    """The object: a topic that is evicted and comes again counts from 0."""
    operations: int = 0
    recent: int = 0
    """Operations since the last review."""
    numbers: tuple[int, ...] = ()
    """Counters, sizes of messages and of batches; only kept for topics without a name of their own."""
    violations: dict[tuple[str, str, str], int] = field(default_factory=dict)
    named: dict[str, int] = field(default_factory=dict)
    holds: dict[tuple[str, int], int] = field(default_factory=dict)
    attached: tuple[int, int] = (0, 0)
    """Producers and consumers that are summed up in `other`."""

    def keep(self) -> None:
        """Keep the topic's totals until now."""
        state = self.state
        self.numbers = _numbers(state)
        self.violations = dict(state.violations)
        self.named = dict(state.named_counts)
        self.holds = _holds(state)


class TopicSamples:
    """The last samples of all topics of one worker.

    :param topics: how many are named.
    :param limits: gives their limits; without it no use of limits is sampled.
    """

    def __init__(self, topics: int = TOPICS, limits: Limits | None = None) -> None:
        self.latest: dict[str, dict[str, Any]] = {}
        """Samples by topic, as JSON."""
        self._limit = topics
        self._limits = limits
        self._use: dict[str, TopicUse] = {}
        """Of each topic with a name."""
        self._named: set[str] = set()
        self._seen: dict[str, _Seen] = {}
        self._other_numbers: tuple[int, ...] = (0,) * (len(COUNTERS) + 2 * SIZE_SLOTS)
        self._other_violations: Counter[tuple[str, str, str]] = Counter()
        self._other_named: Counter[str] = Counter()
        self._other_holds: Counter[tuple[str, int]] = Counter()
        self._other_attached = (0, 0)
        self._ahead: list[str] = []
        """Topics that this round has not looked at yet."""
        self._samples = 0

    async def refresh(self, gates: GateCache, now_ns: int) -> None:
        """Take samples.

        :param gates: the worker's gates, with the states of its topics.
        :param now_ns: monotonic time.
        """
        await self._look_at_some(gates.states)
        latest = await self._sample_named(gates.states, now_ns)
        if len(gates.states) > len(latest) or any(self._other_numbers):
            held = sum(sample["held"] for sample in latest.values())
            latest[OTHER] = {**self._other(), "held": max(0, len(gates.broker.held) - held)}
        self._samples += 1
        if self._samples % _REVIEW == 0:
            await self._review()
        self.latest = latest

    async def _look_at_some(self, states: Mapping[str, TopicState]) -> None:
        """Look at the next topics, in turn."""
        if not self._ahead:
            self._ahead = [*states, *(self._seen.keys() - states.keys())][::-1]
        for topic in self._named - states.keys():
            self._forget(topic)
        for index in range(min(_PER_SAMPLE, len(self._ahead))):
            topic = self._ahead.pop()
            if (state := states.get(topic)) is not None:
                self._take(topic, state)
            elif topic in self._seen:
                self._forget(topic)
            if index % _SLICE == _SLICE - 1:
                await asyncio.sleep(0)

    async def _sample_named(self, states: Mapping[str, TopicState], now_ns: int) -> dict[str, dict[str, Any]]:
        """The samples of all topics with a name."""
        samples: dict[str, dict[str, Any]] = {}
        for index, topic in enumerate(sorted(self._named & states.keys())):
            if (state := states.get(topic)) is not None:
                self._look(topic, state)
                samples[label(topic)] = self._sample(topic, state, now_ns)
            if index % _SAMPLES_AT_ONCE == _SAMPLES_AT_ONCE - 1:
                await asyncio.sleep(0)
        for topic in self._use.keys() - self._named:
            del self._use[topic]
        return samples

    def _take(self, topic: str, state: TopicState) -> None:
        """Look at a topic: name it while names are free, else add it to `other`."""
        seen = self._look(topic, state)
        if len(self._named) < self._limit:
            self._give_name(topic)
        if topic not in self._named:
            self._add_to_other(seen)

    def _look(self, topic: str, state: TopicState) -> _Seen:
        seen = self._seen.get(topic)
        # A state that was dropped and made again counts from 0.
        if seen is None or seen.state is not state:
            if seen is not None and topic not in self._named:
                self._forget(topic)
            seen = self._seen[topic] = _Seen(state)
        operations = state.allowed_ops + state.rejected + state.delayed + state.dropped
        seen.recent += operations - seen.operations
        seen.operations = operations
        return seen

    def _add_to_other(self, seen: _Seen) -> None:
        state = seen.state
        numbers = _numbers(state)
        if numbers != seen.numbers:
            before = seen.numbers or (0,) * len(numbers)
            self._other_numbers = tuple(map(add, self._other_numbers, map(sub, numbers, before)))
            seen.numbers = numbers
        if state.violations != seen.violations:
            for key, count in state.violations.items():
                self._other_violations[key] += count - seen.violations.get(key, 0)
            seen.violations = dict(state.violations)
        if state.named_counts != seen.named:
            for name, count in state.named_counts.items():
                self._other_named[name] += count - seen.named.get(name, 0)
            seen.named = dict(state.named_counts)
        if state.holds and (holds := _holds(state)) != seen.holds:
            for slot, count in holds.items():
                self._other_holds[slot] += count - seen.holds.get(slot, 0)
            seen.holds = holds
        self._attach(seen, (len(state.producers), state.consumer_count))

    def _attach(self, seen: _Seen, attached: tuple[int, int]) -> None:
        (producers, consumers), (were_producers, were_consumers) = self._other_attached, seen.attached
        self._other_attached = (
            producers + attached[0] - were_producers,
            consumers + attached[1] - were_consumers,
        )
        seen.attached = attached

    def _other(self) -> dict[str, Any]:
        producers, consumers = self._other_attached
        return {
            "counters": self._other_numbers[: len(COUNTERS)],
            "sizes": self._other_numbers[len(COUNTERS) : -SIZE_SLOTS],
            "batches": self._other_numbers[-SIZE_SLOTS:],
            "holds": _by_kind(self._other_holds),
            "violations": [[*key, count] for key, count in self._other_violations.items()],
            "producers": producers,
            "consumers": {OTHER: consumers},
            "use": {},
            "utilization": {},
            "namespace": OTHER,
            "named": dict(self._other_named),
        }

    def _sample(self, topic: str, state: TopicState, now_ns: int) -> dict[str, Any]:
        """The sample of a topic with a name."""
        use = {}
        if self._limits is not None:
            known = self._use.get(topic)
            if known is None or known.state is not state:
                known = self._use[topic] = TopicUse(state)
            use = known.read(self._limits, now_ns)
        return {
            "counters": [getattr(state, counter) for counter in COUNTERS],
            "sizes": list(state.size_counts),
            "batches": list(state.batch_counts),
            "holds": _by_kind(_holds(state)),
            "violations": [[*key, count] for key, count in state.violations.items()],
            "producers": len(state.producers),
            "consumers": _consumers(state),
            "use": use,
            "utilization": utilization(use),
            "held": state.broker.held.by_topic[topic],
            "namespace": shortened(state.topic.namespace, LONGEST),
            "named": dict(state.named_counts),
        }

    def _forget(self, topic: str) -> None:
        """Forget an evicted topic, once what it did since the last look is counted."""
        seen = self._seen.pop(topic)
        if topic in self._named:
            self._named.discard(topic)
        else:
            self._add_to_other(seen)
            self._attach(seen, (0, 0))

    def _give_name(self, topic: str) -> None:
        self._named.add(topic)
        self._attach(self._seen[topic], (0, 0))

    async def _review(self) -> None:
        """Give names to topics that are now twice as busy as the quietest that have one."""
        quiet: list[tuple[int, str]] = []
        busy: list[tuple[int, str]] = []
        for index, (topic, seen) in enumerate(tuple(self._seen.items())):
            (quiet if topic in self._named else busy).append((seen.recent, topic))
            seen.recent = 0
            if index % _SLICE == _SLICE - 1:
                busy = nlargest(self._limit, busy)
                await asyncio.sleep(0)
        for (least, loser), (most, winner) in zip(sorted(quiet), nlargest(self._limit, busy), strict=False):
            if most <= 2 * least:
                break
            self._named.discard(loser)
            self._give_name(winner)
            # From here on it counts in `other`; its earlier operations were published under its own name.
            self._seen[loser].keep()


def _numbers(state: TopicState) -> tuple[int, ...]:
    return (*(getattr(state, counter) for counter in COUNTERS), *state.size_counts, *state.batch_counts)


def _holds(state: TopicState) -> dict[tuple[str, int], int]:
    """Hold times by name of the operation and slot; the last slot is the sum in ns."""
    return {
        (kind.name.lower(), slot): number
        for kind, times in tuple(state.holds.items())
        for slot, number in enumerate((*times.counts, times.total_ns))
    }


def _by_kind(holds: Mapping[tuple[str, int], int]) -> dict[str, list[int]]:
    by_kind: dict[str, list[int]] = {}
    for (kind, slot), number in holds.items():
        by_kind.setdefault(kind, [0] * (_HOLD_SUM + 1))[slot] = number
    return by_kind


def _consumers(state: TopicState) -> dict[str, int]:
    counts = Counter({name: len(each.consumers) for name, each in state.subscriptions.items()})
    named = {label(name): count for name, count in counts.most_common(SUBSCRIPTIONS)}
    if len(counts) > len(named):
        named[OTHER] = counts.total() - sum(named.values())
    return named
