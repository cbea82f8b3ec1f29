"""Gates with the product's own policies, compiled as the gateway compiles them but with no gateway."""

from collections.abc import Iterable, Mapping

from sluicegate.engine.factors import Factor, Factors
from sluicegate.engine.faults import GateFaults
from sluicegate.engine.gate import DecisionSink
from sluicegate.engine.gates import GateCache
from sluicegate.model import Level, PolicyLayer, PolicySet, PolicyValue, Setting, Source, TopicName
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.plugins import plugins_of
from sluicegate.testing import ManualContext


def gate_cache(
    policies: Mapping[str, PolicyValue], sink: DecisionSink, factors: Iterable[Factor] = ()
) -> GateCache:
    """A cache that compiles each topic's gate with these policies, set at broker level.

    :param policies: values by field name; empty for the defaults alone.
    :param sink: takes every decision.
    :param factors: quota factors that hold for all topics.
    """
    settings = {name: Setting(value, Source.FILE, "benchmark") for name, value in policies.items()}
    policy_set = PolicySet(1, (PolicyLayer(Level.BROKER, "", settings),))
    compiler = GateCompiler(
        plugins_of(), lambda topic: TopicName(topic, "default"), policy_set, sink, GateFaults(), slow_ms=0
    )
    compiler.context = ManualContext(values=dict(policies), factors=Factors(factors))
    return compiler.gates
