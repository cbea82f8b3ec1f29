"""The evaluation of one topic under given pressures."""

from collections.abc import Callable
from dataclasses import dataclass
from enum import Enum, auto
from math import isfinite
from typing import Final, TypeAlias

from sluicegate.engine.pressure import Backlog
from sluicegate.features.adaptive.fleet_rates import Passed
from sluicegate.features.adaptive.formulas import backlog_pressure, floor_rate, next_rate
from sluicegate.features.adaptive.natural import NaturalRate
from sluicegate.features.adaptive.settings import Settings
from sluicegate.features.adaptive.standing import Standing

NO_BACKLOG: Final = Backlog(0, 0)

Change: TypeAlias = Callable[[], None]
"""Limits or releases one topic, on the thread that owns the gates."""


class Step(Enum):
    """The result of an evaluation."""

    REST = auto()
    """Do nothing, because there is no pressure."""
    WARM_UP = auto()
    """Do nothing yet: there is pressure, but no known natural rate to reduce."""
    THROTTLE = auto()
    """Limit to the evaluation's rates."""
    RELEASE = auto()
    """Lift the limit: memory and backlog are both at or below their low watermarks."""


@dataclass(frozen=True, slots=True)
class Evaluation:
    """The evaluation of one topic in one cycle."""

    step: Step
    memory_pressure: float
    backlog_pressure: float
    backlog_bytes: float
    backlog_quota_bytes: float
    messages_per_s: int = 0
    """The rate of this cycle; 0 if unlimited."""
    bytes_per_s: int = 0

    @property
    def pressure(self) -> float:
        """The higher of both pressures."""
        return max(self.memory_pressure, self.backlog_pressure)


class EvaluatedTopic:
    """One topic as it was last evaluated. It belongs to the thread of tasks.

    It may be a topic that only other workers of the fleet pass: this worker then has no limiter for it.

    :param names: all its names, the full one first.
    """

    __slots__ = (
        "active",
        "bytes_per_s",
        "is_own",
        "memory_and_backlog",
        "messages_per_s",
        "name",
        "names",
        "natural",
        "would",
    )

    def __init__(self, names: tuple[str, ...]) -> None:
        self.name = names[0]
        self.names = names
        self.natural = NaturalRate()
        self.active = False
        """True while it is throttled."""
        self.would = False
        """True while it would be throttled without observe-only."""
        self.messages_per_s = 0
        """The effective rate of the last cycle, applied or not; 0 if none."""
        self.bytes_per_s = 0
        self.memory_and_backlog = (0.0, 0.0)
        """Both pressures of the last cycle, for metrics."""
        self.is_own = False
        """True if this worker evaluates it alone, by its own traffic, as its fleet has too many topics."""

    @property
    def is_shared(self) -> bool:
        """Whether its limit is one for a whole fleet."""
        return True

    def evaluate(
        self,
        memory: float,
        backlog: Backlog,
        settings: Settings,
        now_ns: int,
        passed: Passed | None,
        *,
        learn: bool,
    ) -> Evaluation:
        """Learn the natural rate and determine the next step.

        A known natural rate is not updated under pressure, even if nothing is throttled: what an overloaded
        broker accepts is not the natural rate of its producers.

        :param memory: memory pressure, 0.0 to 1.0.
        :param backlog: the topic's backlog.
        :param settings: the settings of this cycle.
        :param now_ns: monotonic time.
        :param passed: what the fleet passed lately; None to measure what passed here.
        :param learn: False if the topic was throttled since the last evaluation.
        :raises ValueError: if the backlog is not a number of bytes.
        """
        size, quota = backlog.bytes, backlog.quota_bytes
        if not (isfinite(size) and isfinite(quota)) or size < 0:
            raise ValueError(f"backlog cannot be {backlog!r}, expected bytes")
        pressure = backlog_pressure(size, quota, settings.backlog_low, settings.backlog_high)
        self.memory_and_backlog = (memory, pressure)
        strongest = memory if memory > pressure else pressure
        known, throttled = self.natural.known, self.active or self.would
        self._learn(passed, now_ns, learn=learn and (strongest == 0 or not known))
        if strongest == 0 and (not throttled or not settings.ramp_release):
            return Evaluation(Step.RELEASE if throttled else Step.REST, memory, pressure, size, quota)
        if not known:
            return Evaluation(Step.WARM_UP, memory, pressure, size, quota)
        messages, nbytes = self._next(strongest, settings)
        natural = self.natural
        reached = messages >= int(natural.messages_per_s) and nbytes >= int(natural.bytes_per_s)
        step = Step.RELEASE if strongest == 0 and reached else Step.THROTTLE
        return Evaluation(step, memory, pressure, size, quota, messages, nbytes)

    def _learn(self, passed: Passed | None, now_ns: int, *, learn: bool) -> None:
        if passed is not None and learn and passed.is_natural:
            self.natural.learn(passed.messages_per_s, passed.bytes_per_s)

    def _next(self, pressure: float, settings: Settings) -> tuple[int, int]:
        """The next rates; 0 (unlimited) where no natural rate is known."""
        least, step = settings.min_rate_factor, settings.max_rate_change_factor
        messages, nbytes = self.natural.messages_per_s, self.natural.bytes_per_s
        return (
            next_rate(messages, self.messages_per_s, pressure, least, step) if messages > 0 else 0,
            next_rate(nbytes, self.bytes_per_s, pressure, least, step) if nbytes > 0 else 0,
        )

    def at_floor(self, evaluation: Evaluation, settings: Settings) -> bool:
        """True if an evaluation sets the lowest rate of the topic."""
        natural = self.natural.messages_per_s
        return evaluation.messages_per_s < natural and evaluation.messages_per_s <= floor_rate(
            natural, settings.min_rate_factor
        )

    def rest(self) -> None:
        """Throttle it no longer, nor pretend to."""
        self.active = self.would = False
        self.messages_per_s = self.bytes_per_s = 0

    def change(self, now_ns: int) -> Change | None:
        """What brings its limiter to what was decided; None if there is nothing to do."""
        return None

    def standing(self) -> Standing:
        """All of it that another worker needs."""
        return Standing(
            self.natural.messages_per_s,
            self.natural.bytes_per_s,
            self.messages_per_s,
            self.bytes_per_s,
            self.active,
            self.would,
            self.memory_and_backlog[1],
        )

    def adopt(self, standing: Standing, memory_pressure: float) -> None:
        """Take over how it stands by another evaluation."""
        self.is_own = False
        self.natural.set(standing.natural_messages_per_s, standing.natural_bytes_per_s)
        self.messages_per_s, self.bytes_per_s = standing.messages_per_s, standing.bytes_per_s
        self.active, self.would = standing.active, standing.would
        self.memory_and_backlog = (memory_pressure, standing.backlog_pressure)

    def begin(self, *, own: bool) -> None:
        """Have it evaluated by this worker alone or by the fleet; a change forgets all of it."""
        if own is not self.is_own:
            self.adopt(Standing(), 0.0)
            self.is_own = own
