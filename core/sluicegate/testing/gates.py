"""Gates out of a few policies and plugins, compiled as the gateway compiles them."""

import importlib.util
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import ModuleType

import pluggy

from sluicegate.config.fields import PolicyFields
from sluicegate.engine.gate import DecisionSink, Gate, GateFaults
from sluicegate.engine.state import TopicState
from sluicegate.engine.topic_context import TopicContext
from sluicegate.model import Level, PolicyLayer, PolicySet, Setting, Source, TopicName
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.plugins import Plugins, plugins_of
from sluicegate.testing.faults import failing_faults
from sluicegate.testing.sink import RecordingSink

TOPIC = TopicName("orders.eu", "orders")
"""The topic of a gate that was not given another."""


def plugin_manager(plugins: Iterable[object] = (), *, builtin: bool = True) -> pluggy.PluginManager:
    """Make a plugin manager with these plugins, checked as strictly as the gateway checks them.

    :param plugins: modules or objects with hook implementations.
    :param builtin: False to leave the product's own policies out.
    :raises pluggy.PluginValidationError: if a hook or one of its arguments does not exist, or a hook is a
        wrapper.
    """
    return plugins_of(plugins, builtin=builtin).manager


def load_plugin(path: Path | str) -> ModuleType:
    """Import a plugin from a single file, without it being installed.

    :param path: the Python file.
    :raises ImportError: if it cannot be imported.
    """
    path = Path(path)
    spec = importlib.util.spec_from_file_location(path.stem, path)
    if spec is None or spec.loader is None:
        raise ImportError(f"cannot import {str(path)!r}, expected a file that ends in .py")
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def build_gate(
    policies: Mapping[str, object],
    plugins: Iterable[object] = (),
    *,
    now_ns: int,
    topic: TopicName = TOPIC,
    sink: DecisionSink | None = None,
    state: TopicState | None = None,
    faults: GateFaults | None = None,
    exempt: bool = False,
    observe_only: bool = False,
    builtin: bool = True,
    context: TopicContext | None = None,
) -> Gate:
    """Compile the gate of one topic.

    :param policies: as in the file, at topic level: `{"max_publish_rate": "500/s",
        "on_limit.max_publish_rate": "reject"}`. Fields that only a broker has are set there.
    :param plugins: modules or objects with hook implementations.
    :param now_ns: monotonic time.
    :param topic: its name and namespace.
    :param sink: where decisions go; a RecordingSink if it is left out.
    :param state: the topic's state, to build a second gate over the same counts.
    :param faults: where faults of checks are counted; without it, the first one fails the test.
    :param exempt: True for the gate of exempt principals.
    :param observe_only: True to observe everything and apply nothing.
    :param builtin: False to leave the product's own policies out.
    :param context: the gateway that checks see, such as a ManualContext with factors.
    :raises KeyError: if no plugin has a policy of that name.
    :raises pydantic.ValidationError: if a value does not fit.
    :raises PluginFaultError: if a plugin gives what a gateway could not use.
    """
    loaded = plugins_of(plugins, builtin=builtin)
    compiler = compiler_of(loaded, policies, lambda _: topic, topic.full, sink, faults, observe_only)
    compiler.context = context or (state.context if state is not None else None)
    if state is not None:
        compiler.gates.states[topic.full] = state
    return compiler.gates.get(topic.full, exempt, now_ns)


def compiler_of(
    loaded: Plugins,
    policies: Mapping[str, object],
    name_of: Callable[[str], TopicName],
    topic: str,
    sink: DecisionSink | None,
    faults: GateFaults | None,
    observe_only: bool = False,
) -> GateCompiler:
    """Make what compiles gates; other parameters and exceptions are those of `build_gate`.

    :param name_of: parses a topic's name.
    :param topic: whose policies they are; empty for the whole broker.
    """
    return GateCompiler(
        loaded,
        name_of,
        PolicySet(1, _layers(policies, PolicyFields.of(loaded.policy_models), topic), observe_only),
        sink if sink is not None else RecordingSink(),
        faults if faults is not None else failing_faults(),
        slow_ms=0,
    )


def _layers(policies: Mapping[str, object], fields: PolicyFields, topic: str) -> tuple[PolicyLayer, ...]:
    levels: dict[Level, dict[str, Setting]] = {Level.BROKER: {}, Level.TOPIC: {}}
    for name, value in policies.items():
        canonical = fields.aliases.get(name, name)
        level = Level.BROKER if not topic or canonical in fields.broker_only else Level.TOPIC
        levels[level][canonical] = Setting(fields.parse(name, value), Source.FILE, "test")
    return (
        PolicyLayer(Level.BROKER, "", levels[Level.BROKER]),
        PolicyLayer(Level.TOPIC, topic, levels[Level.TOPIC]),
    )
