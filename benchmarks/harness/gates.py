"""Gates with the product's own policies, compiled as the gateway compiles them but with no gateway."""

import itertools
from collections.abc import Iterable, Mapping

import pluggy

from sluicegate import hooks
from sluicegate.builtin import DEFAULTS, builtin_plugins
from sluicegate.engine.factors import Factor, Factors
from sluicegate.engine.gate import Gate, GateFaults, compile_gate
from sluicegate.engine.gates import GateCache
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.sink import DecisionSink
from sluicegate.model import Level, PolicyLayer, PolicySet, PolicyValue, Setting, Source, TopicName
from sluicegate.testing import ManualContext


def gate_cache(
    policies: Mapping[str, PolicyValue], sink: DecisionSink, factors: Iterable[Factor] = ()
) -> GateCache:
    """A cache that compiles each topic's gate with these policies, set at broker level.

    :param policies: values by field name; empty for the defaults alone.
    :param sink: takes every decision.
    :param factors: quota factors that hold for all topics.
    """
    manager = pluggy.PluginManager(hooks.PROJECT)
    manager.add_hookspecs(hooks)
    for plugin in builtin_plugins():
        manager.register(plugin)
    settings = {name: Setting(value, Source.FILE, "benchmark") for name, value in policies.items()}
    policy_set = PolicySet(1, (PolicyLayer(Level.BROKER, "", settings),))
    resolver = Resolver(policy_set, DEFAULTS)
    faults = GateFaults()
    context = ManualContext(values=dict(policies), factors=Factors(factors))

    def compile_topic(topic: str, exempt: bool, now_ns: int) -> Gate:
        name = TopicName(topic, "default")
        effective = resolver.resolve(name)
        state = cache.state(name, now_ns)
        state.context = context
        found = manager.hook.sluicegate_policy_checks(topic=name, policies=effective, context=state)
        checks = list(itertools.chain.from_iterable(reversed(found)))  # pluggy asks the last plugin first
        return compile_gate(name, effective, state, checks, None, sink, faults, exempt)

    cache = GateCache(compile_topic)
    return cache
