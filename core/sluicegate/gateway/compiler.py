"""Compiles gates: all policies of a broker, and what plugins make of them for one topic."""

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from types import MappingProxyType

from sluicegate.config.fields import PolicyFields
from sluicegate.engine.check import Check
from sluicegate.engine.delay import DelayRule
from sluicegate.engine.faults import Fault, GateFaults
from sluicegate.engine.gate import Gate, compile_gate
from sluicegate.engine.gates import GateCache
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.sink import DecisionSink
from sluicegate.engine.state import TopicState
from sluicegate.gateway.plugins import Plugins
from sluicegate.hooks import BrokerContext
from sluicegate.model import EffectivePolicies, Level, PolicySet, PolicyValue, TopicName

log = logging.getLogger(__name__)

_LAST_GOOD = "sluicegate: last good checks"
"""Key in a topic's plugin data."""


class GateCompiler:
    """Keeps the policies of one broker and compiles the gates of its topics.

    :param plugins: who is asked for checks and delay rules.
    :param name_of: what a topic's name says, as the broker's driver tells it.
    :param policies: the policies to begin with.
    :param sink: takes every decision.
    :param faults: counts what plugins raise.
    :param defaults: what holds on this kind of broker where nothing is set.
    """

    def __init__(
        self,
        plugins: Plugins,
        name_of: Callable[[str], TopicName],
        policies: PolicySet,
        sink: DecisionSink,
        faults: GateFaults,
        defaults: Mapping[str, PolicyValue] = MappingProxyType({}),
    ) -> None:
        self._defaults = PolicyFields.of(plugins.policy_models).defaults_with(defaults)
        self._name_of = name_of
        self._sink = sink
        self._faults = faults
        self._ask_checks = plugins.implementations("sluicegate_policy_checks")
        self._ask_delay = plugins.implementations("sluicegate_delay_rule")[::-1]
        self._own = frozenset(info.name for info in plugins.overview() if info.origin == "built in")
        self.policies = policies
        self._resolver = Resolver(policies, self._defaults)
        self.gates = GateCache(self._compile)
        self.context: BrokerContext | None = None
        """What the states of topics are given, so that checks reach factors and quotas."""

    @property
    def broker_policies(self) -> EffectivePolicies:
        """What holds for the whole broker."""
        return self._resolver.resolve(TopicName("", ""), Level.BROKER)

    def resolve(self, topic: str) -> EffectivePolicies:
        """What holds for one topic."""
        return self._resolver.resolve(self._name_of(topic))

    def replace(self, policies: PolicySet) -> None:
        """Put other policies into force, all at once: the next look at any topic finds them."""
        self.policies = policies
        self._resolver = Resolver(policies, self._defaults)
        self.gates.replace()

    def _compile(self, topic: str, exempt: bool, now_ns: int) -> Gate:
        name = self._name_of(topic)
        policies = self._resolver.resolve(name)
        state = self.gates.state(name, now_ns)
        state.context = self.context
        checks = [check for checks in self._checks(name, policies, state) for check in checks]
        delay = self._delay(name, policies)
        return compile_gate(
            name,
            policies,
            state,
            checks,
            delay,
            self._sink,
            self._faults,
            exempt,
            self.policies.exempt_policies,
        )

    def _checks(
        self, topic: TopicName, policies: EffectivePolicies, state: TopicState
    ) -> list[Sequence[Check]]:
        """What all plugins check; of one that raises, what it checked before."""
        found: list[Sequence[Check]] = []
        for ask in self._ask_checks:
            try:
                checks = tuple(
                    check if check.plugin else replace(check, plugin=ask.plugin)
                    for check in ask(topic=topic, policies=policies, context=state) or ()
                )
            except Exception as error:  # noqa: BLE001 - whatever a plugin raises must not stop traffic
                self._fault(ask.plugin, topic, error)
                found.append(self._last_good(state).get(ask.plugin, ()))
                continue
            if ask.plugin not in self._own and (checks or ask.plugin in self._last_good(state)):
                self._keep_good(state, ask.plugin, checks)
            found.append(checks)
        return found

    def _delay(self, topic: TopicName, policies: EffectivePolicies) -> DelayRule | None:
        for ask in self._ask_delay:
            try:
                rule: DelayRule | None = ask(topic=topic, policies=policies)
            except Exception as error:  # noqa: BLE001 - whatever a plugin raises must not stop traffic
                self._fault(ask.plugin, topic, error)
                continue
            if rule is not None:
                return rule
        return None

    def _fault(self, plugin: str, topic: TopicName, error: Exception) -> None:
        text = f"{type(error).__name__}: {error}"
        self._faults.add(Fault(plugin, "", topic.full, text, opened=False))
        log.debug("plugin %s raised while a gate was compiled", plugin, exc_info=error)

    @staticmethod
    def _last_good(state: TopicState) -> dict[str, Sequence[Check]]:
        kept = state.plugin_data.get(_LAST_GOOD)
        return kept if isinstance(kept, dict) else {}

    @staticmethod
    def _keep_good(state: TopicState, plugin: str, checks: Sequence[Check]) -> None:
        kept = state.plugin_data.setdefault(_LAST_GOOD, {})
        if isinstance(kept, dict):
            kept[plugin] = checks
