"""The policy fields of adaptive throttling, and the settings derived from them."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Annotated, Any, ClassVar, Literal, TypeAlias

from pydantic import BeforeValidator, Field

from sluicegate.config.asking import only_with
from sluicegate.config.models import Contradiction, PolicyModel
from sluicegate.config.units import Duration, refuse
from sluicegate.model import EffectivePolicies, PolicyValue

POLICY = "adaptive_publish_throttling"
"""Name of the policy in reasons, and prefix of its fields."""
ENABLED = f"{POLICY}_enabled"
OBSERVE_ONLY = f"{POLICY}_observe_only"
INTERVAL = f"{POLICY}_interval_ms"
MEMORY_HIGH = f"{POLICY}_memory_high_watermark_pct"
MEMORY_LOW = f"{POLICY}_memory_low_watermark_pct"
BACKLOG_HIGH = f"{POLICY}_backlog_high_watermark_pct"
BACKLOG_LOW = f"{POLICY}_backlog_low_watermark_pct"
MIN_RATE = f"{POLICY}_min_rate_factor"
MAX_CHANGE = f"{POLICY}_max_rate_change_factor"
TOPIC_METRICS = f"{POLICY}_per_topic_metrics_enabled"
RELEASE = f"{POLICY}_release"
DEFAULTS: Mapping[str, int | float | str | bool] = {
    ENABLED: False,
    OBSERVE_ONLY: False,
    INTERVAL: 1_000,
    MEMORY_HIGH: 0.85,
    MEMORY_LOW: 0.70,
    BACKLOG_HIGH: 0.90,
    BACKLOG_LOW: 0.75,
    MIN_RATE: 0.10,
    MAX_CHANGE: 0.25,
    TOPIC_METRICS: False,
    RELEASE: "immediate",
}
NAMES = tuple(DEFAULTS)
WATERMARKS = ((MEMORY_LOW, MEMORY_HIGH), (BACKLOG_LOW, BACKLOG_HIGH))
"""Pairs of fields; the first must be below the second."""


def _fraction(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise refuse(f"{value!r} is not a fraction", "write a number from 0 to 1, such as 0.85")
    if not 0 <= value <= 1:
        raise refuse(f"{value!r} is not between 0 and 1", "write a fraction: 0.85 for 85 percent")
    return value


Fraction: TypeAlias = Annotated[float, BeforeValidator(_fraction), Field(ge=0, le=1, allow_inf_nan=False)]
"""A fraction, 0 to 1."""


def alias_of(name: str) -> str:
    """The name of a field in Pulsar's `broker.conf`, such as `adaptivePublisherThrottlingIntervalMs`."""
    words = name.removeprefix(f"{POLICY}_").split("_")
    return "adaptivePublisherThrottling" + "".join(word.capitalize() for word in words)


class AdaptivePolicies(PolicyModel):
    """Adaptive publish throttling; experimental, for whole brokers, and off by default."""

    aliases: ClassVar[Mapping[str, str]] = {alias_of(name): name for name in NAMES}
    parameters: ClassVar[frozenset[str]] = frozenset(NAMES)
    broker_only: ClassVar[frozenset[str]] = frozenset(NAMES)
    defaults: ClassVar[Mapping[str, int | float | str | bool]] = DEFAULTS

    adaptive_publish_throttling_enabled: bool | None = Field(default=None, strict=True)
    """Experimental. True lowers publish rates while memory usage or a backlog is high. A change needs a
    restart; false costs nothing."""
    adaptive_publish_throttling_observe_only: bool | None = Field(default=None, strict=True)
    """Compute, log and count everything without throttling. Enabling it at run time releases all topics at
    once."""
    adaptive_publish_throttling_interval_ms: Annotated[Duration, Field(gt=0)] | None = None
    """Time between two evaluations: milliseconds, or text such as 1s."""
    adaptive_publish_throttling_memory_high_watermark_pct: Fraction | None = None
    """Fraction of memory in use, 0 to 1, from which the pressure is 1."""
    adaptive_publish_throttling_memory_low_watermark_pct: Fraction | None = None
    """Fraction of memory in use up to which the pressure is 0; below the high watermark."""
    adaptive_publish_throttling_backlog_high_watermark_pct: Fraction | None = None
    """Fraction of a topic's backlog quota from which the pressure is 1; topics without a quota have no
    backlog pressure."""
    adaptive_publish_throttling_backlog_low_watermark_pct: Fraction | None = None
    """Fraction of a topic's backlog quota up to which the pressure is 0; below the high one."""
    adaptive_publish_throttling_min_rate_factor: Fraction | None = None
    """Fraction of its natural rate that a topic keeps at full pressure."""
    adaptive_publish_throttling_max_rate_change_factor: Fraction | None = None
    """Largest change of a rate in one evaluation, as a fraction of the natural rate."""
    adaptive_publish_throttling_per_topic_metrics_enabled: bool | None = Field(default=None, strict=True)
    """Six more series for each topic."""
    adaptive_publish_throttling_release: Literal["immediate", "ramp"] | None = None
    """What happens once there is no pressure: immediate lifts the limit at once, ramp raises it by the
    largest change in each evaluation."""

    @classmethod
    @only_with(name for pair in WATERMARKS for name in pair)
    def contradictions(cls, values: Mapping[str, PolicyValue]) -> Iterable[Contradiction]:
        """Find low watermarks that are not below their high ones."""
        for low, high in WATERMARKS:
            below, above = float(values[low]), float(values[high])
            if below >= above:
                field = low if values[low] != DEFAULTS[low] else high
                problem = f"{low} {below:g} is not below {high} {above:g}"
                yield Contradiction(field, problem, "lower the one or raise the other")


@dataclass(frozen=True, slots=True)
class Settings:
    """The settings of one evaluation; attributes as the fields of the same names."""

    observe_only: bool = False
    interval_ms: int = 1_000
    memory_high: float = 0.85
    memory_low: float = 0.70
    backlog_high: float = 0.90
    backlog_low: float = 0.75
    min_rate_factor: float = 0.10
    max_rate_change_factor: float = 0.25
    topic_metrics: bool = False
    ramp_release: bool = False

    @classmethod
    def of(cls, policies: EffectivePolicies) -> "Settings":
        """Derive the settings from a broker's policies.

        :raises ValueError: if they conflict.
        """
        values: Mapping[str, Any] = {**DEFAULTS, **policies.values}
        for conflict in AdaptivePolicies.contradictions(values):
            raise ValueError(f"{conflict.problem}; {conflict.remedy}")
        return cls(
            observe_only=bool(values[OBSERVE_ONLY]) or policies.observe_only,
            interval_ms=max(1, int(values[INTERVAL])),
            memory_high=values[MEMORY_HIGH],
            memory_low=values[MEMORY_LOW],
            backlog_high=values[BACKLOG_HIGH],
            backlog_low=values[BACKLOG_LOW],
            min_rate_factor=values[MIN_RATE],
            max_rate_change_factor=values[MAX_CHANGE],
            topic_metrics=bool(values[TOPIC_METRICS]),
            ramp_release=values[RELEASE] == "ramp",
        )
