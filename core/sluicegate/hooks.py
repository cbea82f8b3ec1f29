"""Every hook that a plugin can implement.

Build hooks are called when a gate is compiled, never for a message: they return plain callables.
An exception in a hook is reported under its plugin's name and never stops traffic.
"""

import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import ismodule, isroutine
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

from sluicegate.broker import BaseDriver, BrokerContext
from sluicegate.engine.check import Check
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.factors import Factor
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.pressure import PressureSource
from sluicegate.engine.quota import Quota
from sluicegate.engine.state import TopicState
from sluicegate.engine.task import Task
from sluicegate.model import EffectivePolicies, Level, MethodMap, PolicyValue, TopicName

if TYPE_CHECKING:
    import click

PROJECT = "sluicegate"
hookspec = pluggy.HookspecMarker(PROJECT)
hookimpl = pluggy.HookimplMarker(PROJECT)


class OpenedPolicies(Protocol):
    """A configuration file and its store, for commands; errors are raised as `click.ClickException`."""

    def brokers(self, system: str) -> Sequence[Any]:
        """The file's broker entries of one kind."""

    def resolver(self, broker: str) -> Resolver:
        """The current policies of a broker, from file and store."""

    def change(self, brokers: Sequence[str], level: Level, name: str, changes: Mapping[str, object]) -> None:
        """Set policies in the store; a running gateway applies them within a second.

        :param brokers: names of the brokers' entries that they are for.
        :param name: namespace or topic.
        :param changes: values by field, with units or in base units; None removes a field.
        """

    def text(self, field: str, value: PolicyValue) -> str:
        """A value with its unit, such as `30s`."""


@hookspec
def sluicegate_policy_model() -> type[Any] | Sequence[type[Any]]:  # type: ignore[empty-body]
    """Add policy fields, which the policy file accepts at every level.

    Called once when the configuration is read, before any other hook but `sluicegate_broker`.

    :return: pydantic models (subclasses of `sluicegate.config.PolicyModel`) whose fields are all optional;
        they join the JSON Schema, `sluicegate check` and `sluicegate explain`.
    """


@hookspec
def sluicegate_policy_checks(  # type: ignore[empty-body]
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Return the checks for one topic.

    Called when a topic is first used and again after each change of policies; all plugins are asked.

    :param topic: the topic's name and namespace.
    :param policies: the topic's effective policies.
    :param context: the topic's state, which outlives the gate: counts, limiters, a place for your own data.
    :return: empty if your policy is unset for this topic.
    """


@hookspec(firstresult=True)
def sluicegate_delay_rule(topic: TopicName, policies: EffectivePolicies) -> DelayRule | None:
    """Return how long delivery of a topic's messages is delayed.

    Called with `sluicegate_policy_checks`; the first plugin that returns a rule wins.

    :param topic: the topic's name and namespace.
    :param policies: the topic's effective policies.
    """


@hookspec(firstresult=True)
def sluicegate_quota(principal: str, context: BrokerContext) -> Quota | None:
    """Return what a principal may publish, over all topics together.

    Called once for each principal and version of the policies, when it first publishes; the first plugin that
    returns a quota wins. A quota does not change; use a factor for what depends on the broker's state.

    :param principal: as the broker names it.
    :param context: the broker's gateway.
    """


@hookspec
def sluicegate_quota_factors(context: BrokerContext) -> Sequence[Factor]:  # type: ignore[empty-body]
    """Add factors that multiply every publish quota.

    Called once when a gateway starts, for all plugins. A factor starts at 1.0; a task or a thread of the
    plugin sets it by `context.apply`.

    :param context: the broker's gateway; keep it for `apply`.
    """


@hookspec
def sluicegate_pressure_sources(context: BrokerContext) -> Sequence[PressureSource]:  # type: ignore[empty-body]
    """Add sources of the broker's pressure, for controllers such as adaptive publish throttling.

    Called once when a gateway starts, after `sluicegate_quota_factors`, for all plugins.

    :param context: the broker's gateway.
    """


@hookspec
def sluicegate_tasks(context: BrokerContext) -> Sequence[Task]:  # type: ignore[empty-body]
    """Add periodic work, which does not delay messages.

    Called once when a gateway starts, after `sluicegate_pressure_sources`, for all plugins. Before it accepts
    clients, the gateway waits at most 5 s for the first run of each task.

    :param context: the broker's gateway.
    """


@hookspec
def sluicegate_broker() -> BaseDriver:  # type: ignore[empty-body]
    """Add a kind of broker, named by `system:` in the file.

    Called once when the configuration is read.
    """


@hookspec
def sluicegate_method_map() -> MethodMap:  # type: ignore[empty-body]
    """Map the methods of a gRPC broker to operations, and locate topic, producer and payload in messages.

    Called once, when the configuration is read. Interceptors use the map of their system; `sluicegate run`
    serves a `system:` that has a map and no driver of its own.

    :return: if several plugins return a map for one system, the one loaded last wins.
    """


@hookspec(firstresult=True)
def sluicegate_grpc_driver(methods: MethodMap) -> BaseDriver | None:
    """Create the driver of a kind of broker for which there is only a method map.

    Called once for each map whose system has no driver by `sluicegate_broker`, when the configuration is
    read; the first plugin that returns a driver wins, and that of `sluicegate_grpc` is called last.

    :param methods: the map; the driver serves its `system`.
    """


@hookspec(firstresult=True)
def sluicegate_metadata_store(url: str) -> Any | None:
    """Open the policy store behind a URL.

    Called once at start; the first plugin that knows the scheme wins. `sqlite:`, `etcd:`, `etcds:` and
    `memory:` are built in.

    :param url: the value of `store:` in the file.
    :return: an object with the methods of `sluicegate.store.PolicyStore`.
    """


@hookspec(firstresult=True)
def sluicegate_budget_store(url: str, settings: Any, holder: str) -> Any | None:
    """Open the store by which several gateways share limits.

    Called once in each worker as it starts; the first plugin that knows the scheme wins. `redis:` and its
    variants are built in.

    :param url: the `url` of `budgets:` in the file.
    :param settings: that section: `name`, `lease`, `place_lease` and `timeout`, in ms.
    :param holder: of the places that this worker takes: a name that no other process has.
    :return: an object with the methods of `sluicegate.api.BudgetStore`.
    """


@hookspec
def sluicegate_decisions(batch: Sequence[Mapping[str, Any]]) -> None:
    """Receive all decisions other than a plain allow, in batches.

    Called by the decision log's thread after each batch, even if the log is switched off or could not write
    it; a slow plugin delays only the log.

    :param batch: rows as in the decision schema, by column name.
    """


@hookspec
def sluicegate_commands(  # type: ignore[empty-body]
    open_policies: Callable[[str], OpenedPolicies],
) -> "Sequence[click.Command]":
    """Add commands to the `sluicegate` command line.

    Called once when the command line starts.

    :param open_policies: opens a configuration file and its store, to read and set policies; if the file has
        errors, it prints them and exits.
    """


@hookspec
def sluicegate_demo(  # type: ignore[empty-body]
    directory: Path, systems: Sequence[str], plain: bool
) -> Sequence[str]:
    """Show more at the end of `sluicegate demo --all`, on standard output.

    Called once for each plugin in turn, after the table of scenes, when all processes of the demo have ended.
    May take a minute if it shows its progress.

    :param directory: the demo's own; plugins may create a folder in it.
    :param systems: kinds of broker that were shown and whose clients are installed.
    :param plain: no colours, and ASCII only.
    :return: failures, a sentence each; if there are any, the demo exits with 1.
    """


@hookspec
def sluicegate_startup(log: Callable[[str], None]) -> None:
    """Called when a worker is about to accept clients.

    The policies are loaded by then.

    :param log: writes one line to the gateway's log under the plugin's name.
    """


@hookspec
def sluicegate_shutdown(log: Callable[[str], None]) -> None:
    """Called when a worker has drained and is about to exit.

    :param log: writes one line to the gateway's log under the plugin's name.
    """


class HookManager(pluggy.PluginManager):
    """Registers plugins, and refuses hook wrappers.

    A gateway calls each plugin separately, to report faults by plugin, and compiles the answers into gates.
    So there is no call for `hookimpl(wrapper=True)`, or the older `hookwrapper=True`, to wrap.
    """

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.add_hookspecs(sys.modules[__name__])

    def parse_hookimpl_opts(self, plugin: object, name: str) -> "pluggy.HookimplOpts | None":
        """The options of a hook implementation; None if the attribute is not one.

        :raises pluggy.PluginValidationError: if it is a wrapper.
        """
        # Most names of a module are imports, which pluggy is slow to recognize as no functions.
        if ismodule(plugin) and not isroutine(vars(plugin).get(name)):
            return None
        options = super().parse_hookimpl_opts(plugin, name)
        wrapper = next((key for key in ("wrapper", "hookwrapper") if options and options.get(key)), None)
        if options is None or wrapper is None:
            return options
        raise pluggy.PluginValidationError(
            plugin,
            f"{plugin_name(plugin)} implements {options.get('specname') or name} with "
            f"hookimpl({wrapper}=True), expected a plain hookimpl: each plugin is asked on its own, so there "
            "is no call to wrap; take the option away and return this plugin's own answer",
        )


def plugin_name(plugin: object) -> str:
    """The name of a plugin that was registered without one: its module's, or its class's."""
    name = getattr(plugin, "__name__", None)
    return str(name) if name else f"{type(plugin).__module__}.{type(plugin).__qualname__}"
