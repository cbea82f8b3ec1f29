"""The gateway of one broker, as plugins see it: `hooks.BrokerContext`."""

import copy
import logging
import ssl
import time
from collections.abc import Callable, Mapping

from sluicegate.broker import BaseDriver
from sluicegate.config.models import BrokerConfig, BrokerTls
from sluicegate.engine.factors import Factors
from sluicegate.engine.faults import CAUGHT, Fault, GateFaults, error_text, shown
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.pressure import PressureSource
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import TopicState
from sluicegate.model import EffectivePolicies
from sluicegate.net.tls import TlsFiles
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.facts import Facts
from sluicegate.runtime.plugin_metrics import PluginMetrics
from sluicegate.runtime.plugins import Plugins

Apply = Callable[[Callable[[], None]], None]


class GatewayContext:
    """Gives plugins the policies, pressures, quotas and facts of one broker: a `hooks.BrokerContext`.

    Each plugin gets a view of its own; log lines and faults carry that plugin's name.

    :param config: the broker's entry.
    :param plugins: who is asked for quotas.
    :param compiler: has policies and states.
    :param faults: counts what plugins raise.
    :param apply: has something done by the thread that owns the gates.
    :param tls: gives what to speak with the broker.
    :param facts: what is kept over restarts.
    :param driver: of this kind of broker, if this is a gateway in front of it.
    """

    def __init__(
        self,
        config: BrokerConfig,
        plugins: Plugins,
        compiler: GateCompiler,
        faults: GateFaults,
        *,
        apply: Apply,
        tls: TlsFiles,
        facts: Facts,
        driver: BaseDriver | None = None,
    ) -> None:
        self.config = config
        self.broker = config.name
        self.system = config.system
        self.driver = driver
        self.factors = Factors()
        self.pressure_sources: list[PressureSource] = []
        self.metrics = PluginMetrics()
        self.plugin = ""
        """Whose view this is."""
        self.states: Mapping[str, TopicState] = compiler.gates.states
        """By topic."""
        self._compiler = compiler
        self._faults = faults
        self._apply = apply
        self._tls = tls
        self._facts = facts
        self._ask_quota = plugins.implementations("sluicegate_quota")[::-1]
        own = frozenset(info.name for info in plugins.overview() if info.origin == "built in")
        self.plugins_give_quotas = any(ask.plugin not in own for ask in self._ask_quota)
        self._views: dict[str, GatewayContext] = {}

    def view(self, plugin: str) -> "GatewayContext":
        """The view of a plugin, the same one each time."""
        view = self._views.get(plugin)
        if view is None:
            view = self._views[plugin] = copy.copy(self)
            view.plugin = plugin
        return view

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """The TLS files for connections to the broker."""
        return self._tls.broker

    def tls_for(self, section: BrokerTls) -> ssl.SSLContext:
        """The TLS files of a section of the entry, such as the gateway's own login."""
        return self._tls.context_for(section)

    @property
    def resolver(self) -> Resolver:
        """What merges the policies in force."""
        return self._compiler.resolver

    @property
    def policies(self) -> EffectivePolicies:
        """The effective policies of the whole broker."""
        return self._compiler.broker_policies

    def resolve(self, topic: str) -> EffectivePolicies:
        """The effective policies of one topic."""
        return self._compiler.resolve(topic)

    def quota(self, principal: str) -> Quota | None:
        """The plugins' publish quota for a principal."""
        for ask in self._ask_quota:
            try:
                with self._compiler.slow.watching(ask.plugin, "sluicegate_quota"):
                    quota = ask(principal=principal, context=self.view(ask.plugin))
                    if isinstance(quota, Quota):
                        return quota
                    if quota is not None:
                        raise TypeError(f"sluicegate_quota gave {shown(quota)}, expected None or a Quota")
            except CAUGHT as error:
                self.fault(ask.plugin, error)
        return None

    def apply(self, call: Callable[[], None]) -> None:
        """Run a call in the thread that owns the gates."""
        plugin = self.plugin

        def guarded() -> None:
            try:
                with self._compiler.slow.watching(plugin, "an apply() call"):
                    call()
            except CAUGHT as error:
                self.fault(plugin, error)

        self._apply(guarded)

    def fault(self, plugin: str, error: BaseException | str) -> None:
        """Count an exception of a plugin; for the thread that owns the gates."""
        text = error if isinstance(error, str) else error_text(error)
        self._faults.add(Fault(plugin, "", "", text, opened=False))

    def now_ns(self) -> int:
        """Monotonic time."""
        return time.monotonic_ns()

    def wall_ms(self) -> int:
        """Wall-clock milliseconds since 1970."""
        return time.time_ns() // 1_000_000

    @property
    def log(self) -> logging.Logger:
        """The gateway's log under the plugin's name."""
        return logging.getLogger(f"sluicegate.plugin.{self.plugin}" if self.plugin else "sluicegate.plugin")

    def remember(self, key: str, value: str) -> None:
        """Keep a small fact over restarts."""
        self._apply(lambda: self._facts.remember(key, value))

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix."""
        return self._facts.recall(prefix)
