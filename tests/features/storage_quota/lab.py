"""A broker's context with a clock that is turned by hand, and usage out of literals."""

import logging
from collections import defaultdict
from collections.abc import Callable, Mapping
from types import MappingProxyType, SimpleNamespace
from typing import Any, cast

from sluicegate.broker import BrokerContext
from sluicegate.config.storage import StorageConfig
from sluicegate.config.tls import context_for_broker
from sluicegate.features.storage_quota.snapshot import BrokerUsage
from sluicegate.features.storage_quota.volumes import Limit, Limits, LimitType, Volume
from sluicegate.model import EffectivePolicies

WALL_MS = 1_650_000_000_000
CONSUMED, FREE, PERCENT = LimitType.CONSUMED_BYTES, LimitType.MIN_FREE_BYTES, LimitType.MIN_FREE_PERCENTAGE


def limits(hard: tuple[LimitType, Any] | None, soft: tuple[LimitType, Any] | None = None) -> Limits:
    return Limits((Limit(*hard),) if hard else (), (Limit(*soft),) if soft else ())


def usage(*volumes: tuple[str, int, int], at_ms: int = WALL_MS, told: Limits | None = None) -> BrokerUsage:
    return BrokerUsage(tuple(Volume(*each) for each in volumes), at_ms, told or Limits())


class _Metric:
    def __init__(self, values: dict[tuple[str, ...], float]) -> None:
        self.values = values

    def set(self, value: float, *labels: str) -> None:
        self.values[labels] = value

    def inc(self, amount: float = 1, *labels: str) -> None:
        self.values[labels] = self.values.get(labels, 0) + amount

    def clear(self) -> None:
        self.values.clear()


class Context:
    """What `StorageQuota` and the plugin use of a `BrokerContext`."""

    def __init__(self, storage: Mapping[str, object] | None, **policies: object) -> None:
        self.broker = "main"
        self.config = SimpleNamespace(storage=StorageConfig.model_validate(storage) if storage else None)
        self.now = WALL_MS
        self.values: defaultdict[str, dict[tuple[str, ...], float]] = defaultdict(dict)
        self.metrics = SimpleNamespace(gauge=self._metric, counter=self._metric)
        self.tls_for = context_for_broker
        self.log = logging.getLogger("sluicegate.plugin.storage")
        self.set(**policies)

    def set(self, **policies: object) -> None:
        """Put other policies into force; `on_unknown="open"` is the option of the policy."""
        values = {"storage_stale_after": 300_000, **policies}
        if "on_unknown" in values:
            values["on_unknown.storage_quota"] = values.pop("on_unknown")
        self.policies = EffectivePolicies("", 1, cast("Any", values), MappingProxyType({}))

    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)

    def wall_ms(self) -> int:
        return self.now

    def apply(self, call: Callable[[], None]) -> None:
        call()

    def metric(self, name: str, *labels: str) -> float | None:
        return self.values[f"sluicegate_storage_{name}"].get(labels)

    def _metric(self, name: str, help: str, labels: object = ()) -> _Metric:  # noqa: A002
        return _Metric(self.values[name])

    @property
    def as_context(self) -> BrokerContext:
        return cast("BrokerContext", self)
