"""A broker under adaptive throttling: fake sources, real gates, a clock that the test turns."""

import asyncio
import logging
import ssl
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from sluicegate.engine.factors import Factors
from sluicegate.engine.gate import Gate
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import BrokerState, TopicState
from sluicegate.features.adaptive.controller import AdaptiveController
from sluicegate.features.adaptive.plugin import AdaptiveThrottling
from sluicegate.features.adaptive.settings import DEFAULTS, ENABLED, MEMORY_HIGH, MEMORY_LOW, POLICY
from sluicegate.features.adaptive.topic import ThrottledTopic
from sluicegate.model import (
    Decision,
    EffectivePolicies,
    Operation,
    OperationKind,
    PolicySet,
    PolicyValue,
    TopicName,
)
from sluicegate.policies import rates
from sluicegate.testing import ManualClock, RecordingSink, build_gate

WALL_MS = 1_700_000_000_000
QUOTA = 1_000_000.0
"""Bytes of backlog that each topic may have."""
UNREACHABLE: Mapping[str, PolicyValue] = {MEMORY_LOW: 0.99, MEMORY_HIGH: 0.999}
"""Memory watermarks that keep real memory out of tests of backlogs."""


class FakeMetrics:
    """Keeps values by name and labels; a metric that was not asked for is not registered."""

    def __init__(self) -> None:
        self.values: dict[str, dict[tuple[str, ...], float]] = {}

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> "FakeMetric":  # noqa: A002
        assert help
        return FakeMetric(self.values.setdefault(name, {}))

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> "FakeMetric":  # noqa: A002
        return self.gauge(f"{name}_total", help, labels)

    def __getitem__(self, name: str) -> float:
        [value] = self.values[name].values()
        return value


class FakeMetric:
    def __init__(self, values: dict[tuple[str, ...], float]) -> None:
        self._values = values

    def set(self, value: float, *labels: str) -> None:
        self._values[labels] = value

    def inc(self, amount: float = 1, *labels: str) -> None:
        self._values[labels] = self._values.get(labels, 0) + amount

    def clear(self) -> None:
        self._values.clear()


class FakeContext:
    """A `hooks.BrokerContext`; what is applied is done at once."""

    broker = "events"
    system = "fake"
    config: Any = None
    broker_tls = None
    plugins_give_quotas = False
    factors = Factors()
    driver = None
    resolver = Resolver(PolicySet(0), {})
    log = logging.getLogger("sluicegate.plugin.adaptive")

    def __init__(self, clock: ManualClock) -> None:
        self.clock = clock
        self.values: dict[str, PolicyValue] = dict(DEFAULTS)
        self.observe_only = False
        self.states: dict[str, TopicState] = {}
        self.pressure_sources: list[PressureSource] = []
        self.metrics = FakeMetrics()
        self.facts: dict[str, str] = {}
        self.applied = 0

    def tls_for(self, section: Any) -> ssl.SSLContext:
        raise NotImplementedError

    @property
    def policies(self) -> EffectivePolicies:
        return EffectivePolicies("", 1, dict(self.values), {}, self.observe_only)

    def resolve(self, topic: str) -> EffectivePolicies:
        return self.policies

    def quota(self, principal: str) -> Quota | None:
        return None

    def apply(self, call: Callable[[], None]) -> None:
        self.applied += 1
        call()

    def now_ns(self) -> int:
        return self.clock()

    def wall_ms(self) -> int:
        return WALL_MS + (self.clock() - 1_000_000_000_000) // 1_000_000

    def remember(self, key: str, value: str) -> None:
        self.facts[key] = value

    def recall(self, prefix: str) -> Mapping[str, str]:
        return {key: value for key, value in self.facts.items() if key.startswith(prefix)}


class Lab:
    """A controller over some topics.

    :param topics: how many, called `t0`, `t1` and so on.
    :param enabled: False for a broker without the feature.
    :param sources: pressure sources instead of `memory` and `backlogs`.
    :param topic_policies: further policies of each topic, such as a static limit.
    :param settings: settings by field.
    :param clock: the time; one of its own if None.
    :param broker: what its topics share; each is for itself if None.
    """

    def __init__(
        self,
        topics: int = 1,
        *,
        enabled: bool = True,
        sources: Sequence[PressureSource] | None = None,
        topic_policies: Mapping[str, PolicyValue] | None = None,
        settings: Mapping[str, PolicyValue] | None = None,
        clock: ManualClock | None = None,
        broker: BrokerState | None = None,
    ) -> None:
        self.clock = clock or ManualClock()
        self.broker = broker
        self.memory: float | None = 0.0
        self.backlogs: dict[str, Backlog] = {}
        self.context = FakeContext(self.clock)
        self.context.values.update({**UNREACHABLE, **(settings or {}), ENABLED: enabled})
        own = [
            PressureSource("memory", "memory", self._read_memory),
            PressureSource("backlog", "backlog", self._read_backlogs),
        ]
        self.context.pressure_sources = list(own if sources is None else sources)
        self.plugin = AdaptiveThrottling()
        self.tasks = self.plugin.sluicegate_tasks(self.context)
        self.sink = RecordingSink()
        self._policies = {**(topic_policies or {}), ENABLED: enabled}
        self.gates = {f"t{place}": self.gate(f"t{place}") for place in range(topics)}

    async def _read_memory(self) -> float | None:
        return self.memory

    async def _read_backlogs(self) -> Mapping[str, Backlog]:
        return self.backlogs

    @property
    def controller(self) -> AdaptiveController:
        [controller] = self.plugin._controllers.values()
        return controller

    @property
    def metrics(self) -> FakeMetrics:
        return self.context.metrics

    def gate(self, name: str) -> Gate:
        """Compile the gate of a topic, for the first time or again."""
        state = self.context.states.get(name)
        if state is None:
            state = TopicState(TopicName(name, ""), self.clock(), self.broker)
            self.context.states[name] = state
        state.context = self.context
        return build_gate(
            self._policies,
            [rates, self.plugin],
            now_ns=self.clock(),
            topic=state.topic,
            sink=self.sink,
            state=state,
            observe_only=self.context.observe_only,
            builtin=False,
        )

    def topic(self, name: str = "t0") -> ThrottledTopic:
        [found] = [topic for topic in self.controller.topics if topic.name == name]
        return found

    def state(self, name: str = "t0") -> TopicState:
        return self.context.states[name]

    def press(self, share: float, name: str = "t0") -> None:
        """Let a topic's backlog be a share of its quota."""
        self.backlogs[name] = Backlog(share * QUOTA, QUOTA)

    def set(self, **settings: PolicyValue) -> None:
        """Change settings, by the last part of their names."""
        self.context.values.update({f"{POLICY}_{name}": value for name, value in settings.items()})

    def publish(self, count: int, name: str = "t0", nbytes: int = 100) -> int:
        """Publish messages one by one now; how many went through."""
        return sum(self.decide(name, nbytes) is None for _ in range(count))

    def decide(self, name: str = "t0", nbytes: int = 100) -> Decision | None:
        op = Operation(OperationKind.PUBLISH, name, "p", messages=1, bytes=nbytes, largest=nbytes)
        decision = self.gates[name].publish(op, self.clock())
        self.gates[name].abandon(op, self.clock())
        return decision

    def cycle(self, seconds: float = 1.0, times: int = 1) -> None:
        """Let time pass, then have the controller evaluate."""
        for _ in range(times):
            self.clock.advance(seconds)
            asyncio.run(self.tasks[0].run())  # type: ignore[arg-type]

    def learn(self, per_s: int = 1_000, nbytes: int = 100) -> None:
        """Let all topics have a natural rate: exactly so many messages of this size a second."""
        self.cycle()
        for state in self.context.states.values():
            state.batched_messages += per_s
            state.batched_bytes += per_s * nbytes
        self.cycle()
