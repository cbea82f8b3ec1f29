"""The gateway of a broker as plugins see it, without one."""

import logging
import ssl
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from types import SimpleNamespace
from typing import Any

from sluicegate.config.tls import context_for_broker
from sluicegate.engine.factors import Factor, Factors
from sluicegate.engine.faults import several
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.pressure import PressureSource
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import TopicState
from sluicegate.model import EffectivePolicies, PolicyLayer, PolicySet, PolicyValue
from sluicegate.policies.quotas import quota_of_each
from sluicegate.testing.clock import ManualClock


class RecordingMetric:
    """A gauge or a counter that records its values."""

    def __init__(self) -> None:
        self.values: dict[tuple[str, ...], float] = {}
        """By values of its labels."""

    def set(self, value: float, *labels: str) -> None:
        """Set it."""
        self.values[labels] = value

    def inc(self, amount: float = 1, *labels: str) -> None:
        """Add to it."""
        self.values[labels] = self.values.get(labels, 0) + amount

    def clear(self) -> None:
        """Forget all values."""
        self.values.clear()


class RecordingMetrics(dict[str, RecordingMetric]):
    """Metrics by name."""

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> RecordingMetric:  # noqa: A002
        """A gauge, the same one each time."""
        return self.setdefault(name, RecordingMetric())

    counter = gauge


@dataclass
class ManualContext:
    """A `hooks.BrokerContext` for tests: `apply` runs its call at once, in the calling thread.

    :param clock: its time.
    """

    clock: ManualClock = field(default_factory=ManualClock)
    broker: str = "main"
    system: str = "kafka"
    config: Any = field(default_factory=SimpleNamespace)
    broker_tls: None = None
    values: dict[str, PolicyValue] = field(default_factory=dict)
    """Policy values in base units, for the broker and for every topic."""
    version: int = 1
    """Of the policies."""
    layers: tuple[PolicyLayer, ...] = ()
    """Layers above those values, for `resolver`."""
    driver: Any = None
    states: dict[str, TopicState] = field(default_factory=dict)
    factors: Factors = field(default_factory=Factors)
    pressure_sources: list[PressureSource] = field(default_factory=list)
    quotas: dict[str, Quota] = field(default_factory=dict)
    """Quotas of plugins, by principal."""
    facts: dict[str, str] = field(default_factory=dict)
    metrics: RecordingMetrics = field(default_factory=RecordingMetrics)
    log: logging.Logger = field(default_factory=lambda: logging.getLogger("sluicegate.plugin.test"))

    @property
    def resolver(self) -> Resolver:
        """Merges the layers, with the values where no layer sets a field."""
        return Resolver(PolicySet(self.version, self.layers), self.values)

    @property
    def policies(self) -> EffectivePolicies:
        """The effective policies of the whole broker."""
        return self.resolve("")

    def tls_for(self, section: Any) -> ssl.SSLContext:
        """A context from a section of the entry; its files are read each time."""
        return context_for_broker(section)

    def resolve(self, topic: str) -> EffectivePolicies:
        """The effective policies of one topic."""
        return EffectivePolicies(topic, self.version, dict(self.values), {})

    @property
    def plugins_give_quotas(self) -> bool:
        """True if there are any quotas."""
        return bool(self.quotas)

    def quota(self, principal: str) -> Quota | None:
        """The quota of a principal from plugins, or else from the policies."""
        return self.quotas.get(principal) or quota_of_each(principal, self.policies)

    def add(self, factors: Iterable[Factor]) -> None:
        """Take over what a plugin's `sluicegate_quota_factors` gave.

        :raises TypeError: if it is no list of factors.
        :raises ValueError: if two have one name, or one has none.
        """
        for factor in several(factors, "sluicegate_quota_factors", Factor):
            self.factors.add(factor)

    def apply(self, call: Callable[[], None]) -> None:
        """Run the call at once."""
        call()

    def now_ns(self) -> int:
        """The time now."""
        return self.clock.now_ns

    def wall_ms(self) -> int:
        """The time now in ms, as if the machine had been started in 1970."""
        return self.clock.now_ns // 1_000_000

    def remember(self, key: str, value: str) -> None:
        """Keep a fact."""
        self.facts[key] = value

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix."""
        return {key: value for key, value in self.facts.items() if key.startswith(prefix)}
