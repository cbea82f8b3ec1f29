"""The throttled topics of a fleet, as one of its workers knows them."""

from collections.abc import Callable, Sequence
from itertools import chain
from typing import Final

from sluicegate.features.adaptive.evaluated import EvaluatedTopic
from sluicegate.features.adaptive.fleet_json import fitting
from sluicegate.features.adaptive.fleet_rates import FleetRates, Passed, WorkerReport
from sluicegate.features.adaptive.standing import ROW_BYTES, FleetStanding, Standing
from sluicegate.features.adaptive.topic import ThrottledTopic

_NOTHING: Final = Passed()
_UNKNOWN: Final = Passed(is_natural=False)


class Fleet:
    """What one worker knows of the topics that all workers throttle together.

    It stays empty where nothing is shared. All of it belongs to the thread of tasks; any thread may read
    `standing`, which is replaced as a whole.

    :param names_of: all names of a topic, the full one first.
    """

    def __init__(self, names_of: Callable[[str], tuple[str, ...]]) -> None:
        self.standing = FleetStanding()
        """As last evaluated, here or by the leader."""
        self.rates: FleetRates | None = None
        """What all pass; None if that is not known, as the store is away or another worker leads."""
        self.own = WorkerReport(0, 0.0, 0.0, True, {})
        """What this worker told last."""
        self._names_of = names_of
        self._absent: dict[str, EvaluatedTopic] = {}
        """Topics that only other workers pass."""
        self._present: Sequence[ThrottledTopic] = ()
        self._is_cut = False

    @property
    def memory(self) -> float:
        """The highest memory usage of all workers, as far as it is known."""
        return self.rates.memory if self.rates is not None else 0.0

    def throttled(self, topics: Sequence[ThrottledTopic]) -> dict[str, Standing]:
        """The topics that are throttled, or would be, anywhere.

        :param topics: those of this worker.
        """
        anywhere = {name: each for name, each in self.standing.topics.items() if each.is_throttled}
        here = {topic.name: topic.standing() for topic in topics if topic.active or topic.would}
        return {**anywhere, **here}

    def passed(self, topic: EvaluatedTopic) -> Passed | None:
        """What a topic passed lately; None if it is not shared, so that only its own counters tell."""
        if not topic.is_shared:
            return None
        if topic.is_own:
            return self.own.topics.get(topic.name, _NOTHING)
        if self.rates is None or not self.rates.is_complete:
            return _UNKNOWN
        return self.rates.topics.get(topic.name, _NOTHING)

    def follow(self, standing: FleetStanding) -> None:
        """Take over what the leader has told."""
        self.standing, self.rates, self._is_cut = standing, None, standing.is_cut
        self._absent.clear()

    def begin(
        self, present: Sequence[ThrottledTopic], stale: Sequence[ThrottledTopic]
    ) -> Sequence[EvaluatedTopic]:
        """Begin an evaluation for all workers, or for this one if the store is away.

        :param present: the topics of this worker.
        :param stale: topics that it had.
        :return: the topics that only others have.
        """
        self._present = [topic for topic in present if topic.is_shared]
        here = {topic.name for topic in present}
        gone = {topic.name: topic.standing() for topic in stale if topic.is_shared and not topic.is_own}
        for name in here & self._absent.keys():
            del self._absent[name]
        heard = self.rates.topics if self.rates is not None else ()
        for name in chain(gone, self.standing.topics, heard):
            if name not in here and name not in self._absent:
                topic = self._absent[name] = EvaluatedTopic(self._names_of(name))
                topic.adopt(gone.get(name) or self.standing.topics.get(name, Standing()), 0.0)
        self._choose()
        return tuple(self._absent.values())

    def end(self, memory_pressure: float, *, observe_only: bool) -> None:
        """Note how all topics stand after an evaluation."""
        standing = {
            topic.name: topic.standing()
            for topic in chain(self._present, self._absent.values())
            if not topic.is_own and (topic.natural.known or topic.active or topic.would)
        }
        heard = self.rates.topics if self.rates is not None else ()
        for name in self._absent.keys() - standing.keys() - set(heard):
            del self._absent[name]
        self.standing = FleetStanding(memory_pressure, observe_only, self._is_cut, standing)
        self._present = ()

    def _choose(self) -> None:
        """If there are too many topics to tell of, leave the idlest ones to each worker."""
        if self.rates is None:
            for each in self._present:
                each.begin(own=self._is_cut and each.name not in self.standing.topics)
            return
        topics: Sequence[EvaluatedTopic] = [*self._present, *self._absent.values()]
        busy = [topic for topic in topics if topic.natural.known or self._traffic(topic)]
        self._is_cut = fitting((topic.name for topic in busy), ROW_BYTES) < len(busy)
        if self._is_cut:
            busy = sorted(filter(self._may_be_told, busy), key=self._rank, reverse=True)
            del busy[fitting((topic.name for topic in busy), ROW_BYTES) :]
            names = {topic.name for topic in busy}
            for topic in topics:
                if topic.name not in names:
                    self._absent.pop(topic.name, None)
                topic.begin(own=topic.name not in names)
        else:
            for topic in topics:
                topic.begin(own=False)

    def _traffic(self, topic: EvaluatedTopic) -> float:
        return self._heard(topic).traffic

    def _heard(self, topic: EvaluatedTopic) -> Passed:
        return _NOTHING if self.rates is None else self.rates.topics.get(topic.name, _NOTHING)

    def _may_be_told(self, topic: EvaluatedTopic) -> bool:
        """Whether its natural rate is known, or can be learned as no worker throttles it alone."""
        return (topic.natural.known and not topic.is_own) or self._heard(topic).is_natural

    def _rank(self, topic: EvaluatedTopic) -> tuple[bool, float]:
        """Throttled ones first, then the busiest."""
        traffic = self._traffic(topic)
        if topic.is_own:
            return False, traffic
        natural = topic.natural.messages_per_s + topic.natural.bytes_per_s
        return topic.active or topic.would, max(traffic, natural)
