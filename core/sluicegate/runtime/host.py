"""The policy engine of one broker with everything that it needs, wired once for workers and embedded use."""

import logging
from collections.abc import Callable
from time import monotonic_ns

from sluicegate.broker import BaseDriver
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.faults import CAUGHT, Fault, GateFaults, error_text
from sluicegate.engine.gate import DecisionSink
from sluicegate.engine.gates import BYTES_PER_GATE
from sluicegate.engine.state import BrokerState
from sluicegate.host.wall_clock import WallClock
from sluicegate.model import PolicySet, TopicName, version_text
from sluicegate.net.tls import TlsFiles
from sluicegate.pacing.log_throttle import LineLimiter
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.context import Apply, GatewayContext
from sluicegate.runtime.dynamics import Dynamics
from sluicegate.runtime.facts import Facts
from sluicegate.runtime.limits import Limits
from sluicegate.runtime.plugins import Plugins
from sluicegate.runtime.recording import Recording
from sluicegate.runtime.slow_calls import SLOW_MS

log = logging.getLogger(__name__)


class EngineHost:
    """Compiler, gates, plugin context, dynamics, TLS files, facts and clock of one broker.

    It starts no thread and no task. Its user calls it from the thread that owns the gates.

    :param config: the broker's entry.
    :param plugins: of this host alone; some hold state.
    :param policies: policies to begin with.
    :param sink: takes every decision.
    :param apply: runs a call in the thread that owns the gates.
    :param facts: small facts that survive restarts.
    :param name_of: reads a topic's name; the broker's driver reads it if this is left out.
    :param driver: for plugins that ask the broker; none where the engine is in a client's or a broker's own
        process.
    :param slow_ms: plugin calls that take this long are logged; 0 for never.
    :param broker: what all topics share; of its own if left out.
    """

    def __init__(
        self,
        config: BrokerConfig,
        plugins: Plugins,
        policies: PolicySet,
        sink: DecisionSink,
        *,
        apply: Apply,
        facts: Facts,
        name_of: Callable[[str], TopicName] | None = None,
        driver: BaseDriver | None = None,
        slow_ms: int = SLOW_MS,
        broker: BrokerState | None = None,
    ) -> None:
        self.config = config
        self.plugins = plugins
        self.facts = facts
        self.faults = GateFaults(self._report)
        self.tls = TlsFiles.of_entry(config)
        self.wall_clock = WallClock()
        self.compiler = GateCompiler(
            plugins,
            name_of or self._driver_name,
            policies,
            sink,
            self.faults,
            config.policy_defaults,
            slow_ms=slow_ms,
            max_gates=config.gate_memory // BYTES_PER_GATE,
            broker=broker,
        )
        self.gates = self.compiler.gates
        """Compiled gates by topic."""
        self.context = GatewayContext(
            config, plugins, self.compiler, self.faults, apply=apply, tls=self.tls, facts=facts, driver=driver
        )
        """The broker context for plugins."""
        self.compiler.context = self.context
        self.dynamics = Dynamics(self.context, plugins)
        self._sink = sink
        self._line_limiter = LineLimiter()

    @property
    def policies(self) -> PolicySet:
        """The policies now in force; a new object after each change."""
        return self.compiler.policies

    def limits(self) -> Limits:
        """The limits that the policies set, for samples of their use."""
        return Limits(
            PolicyFields.of(self.plugins.policy_models),
            self.compiler.resolve,
            lambda: self.compiler.broker_policies,
            lambda: self.policies,
            self.context.quota,
            self.context.factors,
        )

    def replace(self, policies: PolicySet) -> None:
        """Replace all policies in one step."""
        versions = {"from_version": self.policies.version, "to_version": policies.version}
        self.compiler.replace(policies)
        log.info("policies changed", extra={name: version_text(each) for name, each in versions.items()})

    def tick(self, now_ns: int) -> None:
        """Do the work of one second: publish factors, watch tasks, and log which rate limiting has ended.

        :param now_ns: monotonic time.
        """
        self.dynamics.tick(now_ns)
        if isinstance(self._sink, Recording):
            self._sink.end_quiet(now_ns, self.gates.broker.held.by_topic)

    def notify(self, hook: str) -> None:
        """Call a hook of all plugins that takes only a log; their exceptions are counted."""
        for ask in self.plugins.implementations(hook):
            own = logging.getLogger(f"sluicegate.plugin.{ask.plugin}")
            try:
                ask(log=own.info)
            except CAUGHT as error:
                self.faults.add(Fault(ask.plugin, "", "", error_text(error), opened=False))

    def _driver_name(self, topic: str) -> TopicName:
        return self.plugins.drivers[self.config.system].name_of(topic, self.config)

    def _report(self, fault: Fault) -> None:
        left_out = self._line_limiter.passes(fault.kind, monotonic_ns())
        if left_out is not None:
            log.error(
                "plugin %s raised %s%s",
                fault.plugin,
                fault.error,
                "; skipped for 30 s" if fault.opened else "",
                extra={"topic": fault.topic, "policy": fault.policy, "left_out": left_out},
            )
