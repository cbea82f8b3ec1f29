"""What the gateway gives to a broker room, for tests of sessions: real engine, real policies."""

import asyncio
from collections.abc import Callable, Coroutine, Mapping
from typing import Any

import pluggy

from sluicegate import hooks
from sluicegate.broker import Listener
from sluicegate.builtin import DEFAULTS, builtin_plugins
from sluicegate.config.tls import context_for_broker
from sluicegate.engine.budget import Budget
from sluicegate.engine.gate import Gate, GateFaults, compile_gate
from sluicegate.engine.gates import GateCache
from sluicegate.engine.hierarchy import resolve
from sluicegate.engine.sink import NullSink
from sluicegate.gateway.wall_clock import WallClock
from sluicegate.hooks import BrokerContext
from sluicegate.model import Level, PolicyLayer, PolicySet, PolicyValue, Setting, Source, TopicName

SECOND = 1_000_000_000
START = 1_000 * SECOND


class Bench:
    """Services as the gateway gives them, with policies that a test may change."""

    def __init__(self, options: Mapping[str, PolicyValue] | None = None, /, **policies: PolicyValue) -> None:
        self._manager = pluggy.PluginManager(hooks.PROJECT)
        self._manager.add_hookspecs(hooks)
        for plugin in builtin_plugins():
            self._manager.register(plugin)
        self._faults = GateFaults()
        self.sink = NullSink()
        self._spawned: list[asyncio.Task[None]] = []
        self.broker_tls = None
        self.tls_for = context_for_broker
        self.wall_clock = WallClock()
        self.budget = Budget(64 * 1024 * 1024)
        self.gates = GateCache(self._compile)
        self.exempt: frozenset[str] = frozenset()
        self.policies = PolicySet(0)
        self.name_of: Callable[[str], TopicName] = lambda topic: TopicName(topic, "default")
        """What a topic's name says."""
        self.context: BrokerContext | None = None
        """What checks see of the gateway, such as a ManualContext with factors."""
        self.set(options, **policies)

    def set(self, options: Mapping[str, PolicyValue] | None = None, /, **policies: PolicyValue) -> None:
        """Put other policies in force, at broker level; `options` have dots in their names."""
        self.set_layers(_layer(Level.BROKER, "", {**policies, **(options or {})}))

    def set_topic(self, topic: str, **policies: PolicyValue) -> None:
        """Put policies of one topic in force, beside those that hold for all others."""
        self.set_layers(*self.policies.layers, _layer(Level.TOPIC, topic, policies))

    def set_layers(self, *layers: PolicyLayer) -> None:
        """Put other policies in force."""
        self.policies = PolicySet(self.policies.version + 1, layers, exempt_principals=self.exempt)
        self.gates.replace()

    def _compile(self, topic: str, exempt: bool, now_ns: int) -> Gate:
        name = self.name_of(topic)
        policies = resolve(self.policies, name, DEFAULTS)
        state = self.gates.state(name, now_ns)
        state.context = self.context
        found = self._manager.hook.sluicegate_policy_checks(topic=name, policies=policies, context=state)
        checks = [check for several in found for check in several]
        delay = self._manager.hook.sluicegate_delay_rule(topic=name, policies=policies)
        return compile_gate(name, policies, state, checks, delay, self.sink, self._faults, exempt)

    def wall_ms(self, now_ns: int) -> int:
        """The machine's time, as the gateway tells it."""
        return self.wall_clock.ms(now_ns)

    async def listen(self, listener: Listener) -> None:
        """No sockets here."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """As in the gateway, on the test's event loop."""
        self._spawned.append(asyncio.get_running_loop().create_task(work))

    def remember(self, key: str, value: str) -> None:
        """Nothing is kept."""

    def recall(self, prefix: str) -> Mapping[str, str]:
        """Nothing was kept."""
        return {}


def _layer(level: Level, name: str, policies: Mapping[str, PolicyValue]) -> PolicyLayer:
    settings = {field: Setting(value, Source.FILE, "test") for field, value in policies.items()}
    return PolicyLayer(level, name, settings)
