"""Compiles gates from the policies of a broker and the checks of plugins."""

import logging
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from types import MappingProxyType
from typing import Any, TypeVar

from sluicegate.config.fields import PolicyFields
from sluicegate.engine.check import Check
from sluicegate.engine.compiling import compile_gate
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.faults import CAUGHT, Fault, GateFaults, error_text, several, shown
from sluicegate.engine.gate import DecisionSink, Gate
from sluicegate.engine.gates import MAX_GATES, GateCache
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.scoping import Scoping, scoped_gate
from sluicegate.engine.state import BrokerState, TopicState
from sluicegate.engine.topic_context import TopicContext
from sluicegate.model import EffectivePolicies, Level, PolicySet, PolicyValue, Scope, TopicName
from sluicegate.policies.creation import CREATION
from sluicegate.runtime.plugins import Plugins
from sluicegate.runtime.rollout_counts import RolloutCounts
from sluicegate.runtime.slow_calls import SLOW_MS, SlowCalls

log = logging.getLogger(__name__)

_LAST_GOOD = "sluicegate: last good checks"
"""Key in a topic's plugin data."""
_LAST_RULES = "sluicegate: last good delay rules"
"""Key in a topic's plugin data."""
_ON_CREATION = frozenset(CREATION)

Kept = TypeVar("Kept")


class GateCompiler:
    """Keeps the policies of one broker and compiles the gates of its topics.

    :param plugins: who is asked for checks and delay rules.
    :param name_of: parses a topic's name, from the broker's driver.
    :param policies: the policies to begin with.
    :param sink: takes every decision.
    :param faults: counts what plugins raise.
    :param defaults: values of unset fields on this kind of broker.
    :param slow_ms: plugin calls that take this long are logged; 0 for never.
    :param max_gates: how many topics keep their gates.
    :param broker: what all topics share; of its own if left out.
    """

    def __init__(
        self,
        plugins: Plugins,
        name_of: Callable[[str], TopicName],
        policies: PolicySet,
        sink: DecisionSink,
        faults: GateFaults,
        defaults: Mapping[str, PolicyValue] = MappingProxyType({}),
        *,
        slow_ms: int = SLOW_MS,
        max_gates: int = MAX_GATES,
        broker: BrokerState | None = None,
    ) -> None:
        fields = PolicyFields.of(plugins.policy_models)
        self._defaults = fields.defaults_with(defaults)
        self._broker_only = fields.broker_only
        self._name_of = name_of
        self._sink = sink
        self._faults = faults
        self._ask_checks = [
            (each.plugin, each.fields, each.by_position("topic", "policies", "context"))
            for each in plugins.implementations("sluicegate_policy_checks")
        ]
        self._ask_delay = [
            (each.plugin, each.fields, each.by_position("topic", "policies"))
            for each in reversed(plugins.implementations("sluicegate_delay_rule"))
        ]
        self._own = frozenset(info.name for info in plugins.overview() if info.origin == "built in")
        self.policies = policies
        self._resolver = Resolver(policies, self._defaults, self._broker_only)
        self.gates = GateCache(self._compile, max_gates, broker)
        self.gates.creation_is_policed = self._polices_creation()
        self.rollouts = RolloutCounts()
        self.context: TopicContext | None = None
        """Set in the state of each topic, so that checks reach factors and quotas."""
        self.slow = SlowCalls(slow_ms, lambda: self.context.metrics if self.context is not None else None)

    @property
    def resolver(self) -> Resolver:
        """What merges the policies in force; a new object after each change."""
        return self._resolver

    @property
    def broker_policies(self) -> EffectivePolicies:
        """The effective policies of the whole broker."""
        return self._resolver.resolve(TopicName("", ""), Level.BROKER)

    def resolve(self, topic: str) -> EffectivePolicies:
        """The effective policies of one topic."""
        return self._resolver.resolve(self._name_of(topic))

    def replace(self, policies: PolicySet) -> None:
        """Replace all policies at once: the next look-up of any topic uses them."""
        self.policies = policies
        self._resolver = Resolver(policies, self._defaults, self._broker_only)
        self.gates.creation_is_policed = self._polices_creation()
        self.gates.replace()

    def _polices_creation(self) -> bool:
        """Whether a check may be on creating some topic: one of the product by its field, or a plugin's."""
        return any(plugin not in self._own for plugin, _, _ in self._ask_checks) or not all(
            _ON_CREATION.isdisjoint(layer.settings) and _ON_CREATION.isdisjoint(layer.ceilings)
            for layer in self.policies.layers
        )

    def _compile(self, topic: str, exempt: bool, now_ns: int) -> Gate:
        name, resolver = self._name_of(topic), self._resolver
        state = self.gates.state(name, now_ns)
        state.context = self.context
        scopes = resolver.scopes(name)
        scoping = Scoping(scopes, partial(resolver.resolve, name, Level.TOPIC)) if scopes else None
        state.scoping = scoping
        policies = resolver.resolve(name)
        common = self._checks(name, policies, state)
        if not exempt:
            self.rollouts.compiled(state, policies, [check for checks in common.values() for check in checks])
        gate = self._gate(name, policies, state, common, exempt)
        if scoping is None:
            return gate

        def compile_for(inside: tuple[Scope, ...]) -> Gate:
            own, needed = scoping.policies(inside), state.subscriptions_needed
            checks = self._checks(name, own, state, common)
            state.subscriptions_needed = max(needed, state.subscriptions_needed)
            return self._gate(name, own, state, checks, exempt)

        gates: dict[tuple[Scope, ...], Gate] = {
            (): gate,
            **{(scope,): compile_for((scope,)) for scope in scopes},
        }
        return scoped_gate(gates, scoping, compile_for, self._sink, self._faults)

    def _gate(
        self,
        name: TopicName,
        policies: EffectivePolicies,
        state: TopicState,
        checks: Mapping[str, Sequence[Check]],
        exempt: bool,
    ) -> Gate:
        return compile_gate(
            name,
            policies,
            state,
            [check for of_plugin in checks.values() for check in of_plugin],
            self._delay(name, policies, state),
            self._sink,
            self._faults,
            exempt,
            self.policies.exempt_policies,
        )

    def _checks(
        self,
        topic: TopicName,
        policies: EffectivePolicies,
        state: TopicState,
        common: Mapping[str, Sequence[Check]] = MappingProxyType({}),
    ) -> dict[str, Sequence[Check]]:
        """The checks of all plugins, by plugin; the last valid ones of a plugin that fails.

        :param common: those of operations in no scope; they stay where no scope sets a field of the plugin.
        """
        of_plugins: dict[str, Sequence[Check]] = {}
        own_fields = policies.own_fields
        for plugin, fields, ask in _asked(self._ask_checks, policies):
            checks: Sequence[Check]
            if plugin in common and fields is not None and own_fields.isdisjoint(fields):
                of_plugins[plugin] = common[plugin]
                continue
            try:
                if plugin in self._own:
                    checks = [replace(check, plugin=plugin) for check in ask(topic, policies, state) or ()]
                else:
                    checks = self._checks_of(plugin, ask, topic, policies, state)
            except CAUGHT as error:
                self._fault(plugin, topic, error)
                checks = _last(state, _LAST_GOOD, f"{plugin}{policies.scopes or ''}", ())
            of_plugins[plugin] = checks
        return of_plugins

    def _checks_of(
        self,
        plugin: str,
        ask: Callable[..., Any],
        topic: TopicName,
        policies: EffectivePolicies,
        state: TopicState,
    ) -> Sequence[Check]:
        """The checks of a plugin that is not built in, under its name and timed."""
        hook = "sluicegate_policy_checks"
        with self.slow.watching(plugin, hook, topic.full):
            given = several(ask(topic, policies, state), hook, Check)
        named = (check if check.plugin else replace(check, plugin=plugin) for check in given)
        checks = [self.slow.timed(check, topic.full) for check in named]
        _keep(state, _LAST_GOOD, f"{plugin}{policies.scopes or ''}", checks)
        return checks

    def _delay(self, topic: TopicName, policies: EffectivePolicies, state: TopicState) -> DelayRule | None:
        """The first rule of a plugin; the last valid one of a plugin that fails."""
        for plugin, _, ask in _asked(self._ask_delay, policies):
            rule: DelayRule | None
            try:
                if plugin in self._own:
                    rule = ask(topic, policies)
                else:
                    with self.slow.watching(plugin, "sluicegate_delay_rule", topic.full):
                        rule = ask(topic, policies)
                    if rule is not None and not isinstance(rule, DelayRule):
                        raise TypeError(
                            f"sluicegate_delay_rule gave {shown(rule)}, expected None or a DelayRule"
                        )
                    _keep(state, _LAST_RULES, plugin, rule)
            except CAUGHT as error:
                self._fault(plugin, topic, error)
                rule = _last(state, _LAST_RULES, plugin, None)
            if rule is not None:
                return rule
        return None

    def _fault(self, plugin: str, topic: TopicName, error: BaseException) -> None:
        self._faults.add(Fault(plugin, "", topic.full, error_text(error), opened=False))
        log.debug("plugin %s failed while a gate was compiled", plugin, exc_info=error)


def _asked(
    implementations: Iterable[tuple[str, frozenset[str] | None, Callable[..., Any]]],
    policies: EffectivePolicies,
) -> list[tuple[str, frozenset[str] | None, Callable[..., Any]]]:
    """The implementations that may have an answer to these policies, each after its plugin and its fields."""
    set_here = policies.values.keys()
    return [
        (plugin, fields, ask)
        for plugin, fields, ask in implementations
        if fields is None or not set_here.isdisjoint(fields)
    ]


def _last(state: TopicState, key: str, plugin: str, default: Kept) -> Kept:
    """The last valid result of a plugin for a topic."""
    kept = state.plugin_data.get(key)
    return kept.get(plugin, default) if isinstance(kept, dict) else default


def _keep(state: TopicState, key: str, plugin: str, given: object) -> None:
    if given or _last(state, key, plugin, None):
        kept = state.plugin_data.setdefault(key, {})
        if isinstance(kept, dict):
            kept[plugin] = given
