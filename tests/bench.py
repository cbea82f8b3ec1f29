"""What the gateway gives to a broker room, for tests of sessions: real engine, real policies."""

import asyncio
from collections.abc import Callable, Coroutine, Iterable, Mapping
from typing import Any

from sluicegate.broker import Listener
from sluicegate.config.tls import context_for_broker
from sluicegate.engine.budget import Budget
from sluicegate.engine.gate import GateFaults
from sluicegate.engine.topic_context import TopicContext
from sluicegate.host.wall_clock import WallClock
from sluicegate.model import Level, PolicyLayer, PolicySet, PolicyValue, Setting, Source, TopicName
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.plugins import plugins_of
from sluicegate.testing import NullSink

SECOND = 1_000_000_000
START = 1_000 * SECOND


class Bench:
    """Services as the gateway gives them, with policies that a test may change.

    :param options: policies that have dots in their names.
    :param plugins: asked besides the built-in ones.
    :param policies: further policies, at broker level.
    """

    def __init__(
        self,
        options: Mapping[str, PolicyValue] | None = None,
        plugins: Iterable[object] = (),
        /,
        **policies: PolicyValue,
    ) -> None:
        self.name_of: Callable[[str], TopicName] = lambda topic: TopicName(topic, "default")
        """What a topic's name says."""
        self.faults = GateFaults()
        """Of the policies' checks."""
        self._compiler = GateCompiler(
            plugins_of(plugins),
            lambda topic: self.name_of(topic),
            PolicySet(0),
            NullSink(),
            self.faults,
            slow_ms=0,
        )
        self.gates = self._compiler.gates
        self._spawned: list[asyncio.Task[None]] = []
        self.broker_tls = None
        self.broker_tls_renewals = 0
        self.siblings = 0
        self.tls_for = context_for_broker
        self.wall_clock = WallClock()
        self.budget = Budget(64 * 1024 * 1024)
        self.exempt: frozenset[str] = frozenset()
        self.set(options, **policies)

    def set(self, options: Mapping[str, PolicyValue] | None = None, /, **policies: PolicyValue) -> None:
        """Put other policies in force, at broker level; `options` have dots in their names."""
        self.set_layers(_layer(Level.BROKER, "", {**policies, **(options or {})}))

    def set_topic(self, topic: str, **policies: PolicyValue) -> None:
        """Put policies of one topic in force, beside those that hold for all others."""
        self.set_layers(*self.policies.layers, _layer(Level.TOPIC, topic, policies))

    def set_layers(self, *layers: PolicyLayer) -> None:
        """Put other policies in force."""
        version = self.policies.version + 1
        self._compiler.replace(PolicySet(version, layers, exempt_principals=self.exempt))

    @property
    def policies(self) -> PolicySet:
        """The policies now in force."""
        return self._compiler.policies

    @property
    def context(self) -> TopicContext | None:
        """What checks see of the gateway, such as a ManualContext with factors."""
        return self._compiler.context

    @context.setter
    def context(self, given: TopicContext | None) -> None:
        self._compiler.context = given

    def wall_ms(self, now_ns: int) -> int:
        """The machine's time, as the gateway tells it."""
        return self.wall_clock.ms(now_ns)

    async def listen(self, listener: Listener) -> None:
        """No sockets here."""

    def stop_listening(self, name: str) -> None:
        """No sockets here."""

    def spawn(self, work: Coroutine[Any, Any, None]) -> None:
        """As in the gateway, on the test's event loop."""
        self._spawned.append(asyncio.get_running_loop().create_task(work))

    def remember(self, key: str, value: str) -> None:
        """Nothing is kept."""

    def tell_siblings(self, kind: str, content: Mapping[str, Any]) -> None:
        """There are none."""

    def recall(self, prefix: str) -> Mapping[str, str]:
        """Nothing was kept."""
        return {}


def _layer(level: Level, name: str, policies: Mapping[str, PolicyValue]) -> PolicyLayer:
    settings = {field: Setting(value, Source.FILE, "test") for field, value in policies.items()}
    return PolicyLayer(level, name, settings)
