"""The engine of one broker with the samples that a worker takes of it, at times of the test's own."""

import asyncio
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from sluicegate import hookimpl
from sluicegate.broker import BrokerContext
from sluicegate.embedded import ServiceConfig, _ServicePlugin
from sluicegate.engine.factors import Factor
from sluicegate.model import (
    Level,
    Operation,
    OperationKind,
    PolicyLayer,
    PolicySet,
    PolicyValue,
    Setting,
    Source,
    TopicName,
)
from sluicegate.runtime.broker_use import BrokerUse
from sluicegate.runtime.client_samples import ClientSamples
from sluicegate.runtime.facts import Facts
from sluicegate.runtime.host import EngineHost
from sluicegate.runtime.plugins import plugins_of
from sluicegate.runtime.samples import TopicSamples
from sluicegate.testing import NullSink

SECOND = 1_000_000_000
EXEMPT = "root"
WAITING = {"on_limit.max_publish_rate": "delay", "on_limit.principal_publish_quota": "delay"}
"""Operations above these limits are held; a service refuses them by default."""


def layer(level: Level, name: str, values: Mapping[str, PolicyValue], source: Source) -> PolicyLayer:
    return PolicyLayer(level, name, {policy: Setting(value, source) for policy, value in values.items()})


class DiskFactor:
    """A plugin with a factor."""

    def __init__(self) -> None:
        self.factor = Factor("disk", "Wait.")

    @hookimpl
    def sluicegate_quota_factors(self, context: BrokerContext) -> list[Factor]:
        return [self.factor]


class Sampled:
    """One broker.

    :param policies: at broker level, from the file.
    :param named: principals and clients, and topics, that have a name.
    :param entry: further keys of the broker's entry.
    :param plugins: further plugins.
    """

    def __init__(
        self,
        policies: Mapping[str, PolicyValue],
        *,
        named: int = 100,
        entry: Mapping[str, Any] | None = None,
        plugins: Iterable[object] = (),
    ) -> None:
        self.disk = DiskFactor()
        self.now_ns = 1_000 * SECOND
        config = ServiceConfig.model_validate({"name": "b1", "system": "service", **(entry or {})})
        self.host = EngineHost(
            config,
            plugins_of((self.disk, _ServicePlugin(), *plugins)),
            PolicySet(0),
            NullSink(),
            apply=lambda call: call(),
            facts=Facts({}, lambda key, value: None),
            name_of=lambda topic: TopicName(topic, "ns"),
        )
        self.host.context.factors.add(self.disk.factor)
        self.set(policies)
        limits = self.host.limits()
        self.samples = TopicSamples(named, limits)
        self.clients = ClientSamples(self.host.gates.broker, limits, named)
        self.use = BrokerUse(limits)

    def set(
        self,
        policies: Mapping[str, PolicyValue],
        topic: Mapping[str, PolicyValue] | None = None,
        **options: Any,
    ) -> None:
        """Put other policies in force, those of the topic `t` from the store."""
        layers = (
            layer(Level.BROKER, "", policies, Source.FILE),
            layer(Level.TOPIC, "t", topic or {}, Source.STORE),
        )
        version = self.host.policies.version + 1
        exempt = frozenset({EXEMPT})
        self.host.replace(PolicySet(version, layers, exempt_principals=exempt, **options))

    def decide(self, op: Operation) -> bool:
        """Decide an operation now; whether it was allowed."""
        gate = self.host.gates.get(op.topic, op.principal == EXEMPT, self.now_ns)
        return gate.decide(op, self.now_ns) is None

    def publish(self, messages: int, topic: str = "t", **options: Any) -> bool:
        """Publish a batch of messages of 10 bytes."""
        kind = options.pop("kind", OperationKind.PUBLISH)
        size = messages * 10
        return self.decide(Operation(kind, topic, messages=messages, bytes=size, largest=size, **options))

    def tick(self, times: int = 1, before: Callable[[], object] = lambda: None) -> None:
        """Let seconds pass, and take samples at the end of each.

        :param before: called at the beginning of each second.
        """
        for _ in range(times):
            before()
            self.now_ns += SECOND
            asyncio.run(self._sample())

    async def _sample(self) -> None:
        await self.samples.refresh(self.host.gates, self.now_ns)
        await self.clients.refresh(self.now_ns)
        self.use.read(self.now_ns, self.clients.published)

    def topic_use(self, topic: str = "t") -> dict[str, dict[str, Any]]:
        """The use of a topic's limits at the last tick."""
        found: dict[str, dict[str, Any]] = self.samples.latest[topic]["use"]
        return found

    def utilization(self, topic: str = "t") -> dict[str, dict[str, float]]:
        """Percent by rate type and window."""
        found: dict[str, dict[str, float]] = self.samples.latest[topic]["utilization"]
        return found
