"""Every hook that a plugin can implement.

Build hooks are called when a gate is compiled, never for a message: they return plain callables.
A hook that raises is reported under its plugin's name and never stops traffic.
"""

import ssl
import sys
from collections.abc import Callable, Mapping, Sequence
from inspect import ismodule, isroutine
from logging import Logger
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

from sluicegate.broker import BrokerDriver
from sluicegate.engine.check import Check
from sluicegate.engine.delivery_time import DelayRule
from sluicegate.engine.factors import Factor, Factors
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


class PolicyDesk(Protocol):
    """A configuration file and its store, for commands; what cannot be done raises `click.ClickException`."""

    def brokers(self, system: str) -> Sequence[Any]:
        """The file's broker entries of one kind."""

    def resolver(self, broker: str) -> Resolver:
        """The policies of a broker as file and store say them now."""

    def change(self, level: Level, name: str, changes: Mapping[str, object]) -> None:
        """Set policies in the store; a running gateway applies them within a second.

        :param name: namespace or topic.
        :param changes: values by field, as people write them or in base units; None takes a field away.
        """

    def text(self, field: str, value: PolicyValue) -> str:
        """A value as people write it, such as `30s`."""


class Gauge(Protocol):
    """A number that goes up and down."""

    def set(self, value: float, *labels: str) -> None:
        """Set it.

        :param labels: values of its labels, in the order of their names.
        """

    def clear(self) -> None:
        """Forget all its values, such as those of topics that are no more."""


class Counter(Protocol):
    """A number that only grows."""

    def inc(self, amount: float = 1, *labels: str) -> None:
        """Add to it.

        :param labels: values of its labels, in the order of their names.
        """


class Metrics(Protocol):
    """Metrics of a plugin, published with a label `broker` before their own; any thread may set them.

    Values of more than 1,000 sets of labels count as `other`.
    """

    def gauge(self, name: str, help: str, labels: Sequence[str] = ()) -> Gauge:  # noqa: A002
        """A gauge, the same one each time.

        :param name: as Prometheus wants it.
        :param help: one sentence.
        :param labels: names of its labels.
        :raises ValueError: if the name is taken by another kind of metric, or is none for Prometheus.
        """

    def counter(self, name: str, help: str, labels: Sequence[str] = ()) -> Counter:  # noqa: A002
        """A counter, the same one each time; parameters and errors as for `gauge`.

        :param name: without `_total`, which is added.
        """


class BrokerContext(Protocol):
    """What the gateway of one broker gives to plugins that follow the broker's state.

    What is not said to be for any thread is for the thread that owns the gates; tasks run on another one.
    """

    @property
    def broker(self) -> str:
        """Name of the broker's entry."""

    @property
    def system(self) -> str:
        """The kind of broker, such as `kafka`."""

    @property
    def config(self) -> Any:
        """The broker's entry, a `sluicegate.config.BrokerConfig`."""

    @property
    def broker_tls(self) -> ssl.SSLContext | None:
        """What to speak with the broker where it speaks TLS; None if the file does not say.

        It can be kept: new connections use what the files hold then. For any thread.
        """

    def tls_for(self, section: Any) -> ssl.SSLContext:
        """What a section of the entry that names TLS files says; it can be kept, too. For any thread.

        :param section: a `sluicegate.config.models.BrokerTls` of those that the entry's `tls_sections` gives.
            Its connections ask for its `server_name`, if it has one, whatever host they connect to.
        :raises OSError: if a file cannot be used, and none could be before.
        """

    @property
    def policies(self) -> EffectivePolicies:
        """The effective policies of the whole broker. For any thread; ask again each time."""

    def resolve(self, topic: str) -> EffectivePolicies:
        """The effective policies of one topic. For any thread."""

    @property
    def states(self) -> Mapping[str, TopicState]:
        """States by topic.

        Other threads may read the numbers in them, and copy the mapping first by `tuple(states.items())`.
        """

    @property
    def factors(self) -> Factors:
        """The factors that all plugins gave."""

    @property
    def pressure_sources(self) -> Sequence[PressureSource]:
        """The pressure sources that all plugins gave; complete when tasks run."""

    @property
    def plugins_give_quotas(self) -> bool:
        """True if a plugin that is not built in has the hook `sluicegate_quota`."""

    def quota(self, principal: str) -> Quota | None:
        """What the plugins say that a principal may publish; None for as much as it wants."""

    def apply(self, call: Callable[[], None]) -> None:
        """Run a call in the thread that owns the gates. For any thread; it does not wait.

        Whatever changes factors, switches or buckets goes through this. What the call raises is counted
        under the plugin's name.
        """

    def now_ns(self) -> int:
        """Monotonic time, as checks get it. For any thread."""

    def wall_ms(self) -> int:
        """Wall-clock milliseconds since 1970. For any thread."""

    @property
    def log(self) -> Logger:
        """The gateway's log under the plugin's name. For any thread."""

    @property
    def metrics(self) -> Metrics:
        """Metrics to publish. For any thread."""

    def remember(self, key: str, value: str) -> None:
        """Keep a small fact over restarts. For any thread.

        `sluicegate explain` shows what is kept under `adaptive.`, as JSON; `factor.` is the gateway's own.
        """

    def recall(self, prefix: str) -> Mapping[str, str]:
        """The facts kept under a prefix. For any thread."""


@hookspec
def sluicegate_policy_model() -> type[Any] | Sequence[type[Any]]:  # type: ignore[empty-body]
    """Add fields to what the policy file accepts at every level.

    Called once when the configuration is read, before any other hook but `sluicegate_broker`.

    :return: pydantic models (subclasses of `sluicegate.config.PolicyModel`) whose fields are all optional;
        they join the JSON Schema, `sluicegate check` and `sluicegate explain`.
    """


@hookspec
def sluicegate_policy_checks(  # type: ignore[empty-body]
    topic: TopicName, policies: EffectivePolicies, context: TopicState
) -> Sequence[Check]:
    """Say what is to be checked for one topic.

    Called when a topic is first used and again after each change of policies; all plugins are asked.

    :param topic: the topic's name and namespace.
    :param policies: what holds for it after merging broker, namespace and topic level.
    :param context: the topic's state, which outlives the gate: counts, limiters, a place for your own data.
    :return: the checks; empty where your policy is unset for this topic.
    """


@hookspec(firstresult=True)
def sluicegate_delay_rule(topic: TopicName, policies: EffectivePolicies) -> DelayRule | None:
    """Say how long delivery of a topic's messages is put off.

    Called with `sluicegate_policy_checks`; the first plugin that returns a rule wins.

    :param topic: the topic's name and namespace.
    :param policies: what holds for it after merging.
    """


@hookspec(firstresult=True)
def sluicegate_quota(principal: str, context: BrokerContext) -> Quota | None:
    """Say what a principal may publish over all topics of a gate.

    Called once for each principal and version of the policies, when it first publishes; the first plugin that
    returns a quota wins. A quota is stable: what follows the broker's state is a factor.

    :param principal: as the broker names it.
    :param context: the broker's gateway.
    """


@hookspec
def sluicegate_quota_factors(context: BrokerContext) -> Sequence[Factor]:  # type: ignore[empty-body]
    """Add factors that multiply every quota of publishing.

    Called once when a gateway starts; all plugins are asked. A factor begins at 1.0; a task sets it, or a
    thread of the plugin's own, by `context.apply`.

    :param context: the broker's gateway; keep it, to apply what is found out.
    """


@hookspec
def sluicegate_pressure_sources(context: BrokerContext) -> Sequence[PressureSource]:  # type: ignore[empty-body]
    """Say where pressure on the broker can be read, for controllers such as adaptive publish throttling.

    Called once when a gateway starts, after `sluicegate_quota_factors`; all plugins are asked.

    :param context: the broker's gateway.
    """


@hookspec
def sluicegate_tasks(context: BrokerContext) -> Sequence[Task]:  # type: ignore[empty-body]
    """Add work to be done again and again, off the path of messages.

    Called once when a gateway starts, after `sluicegate_pressure_sources`; all plugins are asked. The first
    run of each task is waited for, at most 5 s, before clients are accepted.

    :param context: the broker's gateway.
    """


@hookspec
def sluicegate_broker() -> BrokerDriver:  # type: ignore[empty-body]
    """Add a kind of broker, named by `system:` in the file.

    Called once when the configuration is read.
    """


@hookspec
def sluicegate_method_map() -> MethodMap:  # type: ignore[empty-body]
    """Say which methods of a gRPC broker are which operations, and where topic, producer and payload stand.

    Called once, when the configuration is read. Interceptors take the map of their system; `sluicegate run`
    serves a `system:` that has a map and no driver of its own.

    :return: the map; of several for one system that of the plugin loaded last counts.
    """


@hookspec(firstresult=True)
def sluicegate_grpc_driver(methods: MethodMap) -> BrokerDriver | None:
    """Make the driver of a kind of broker of which only a method map is known.

    Called once for each map whose system no plugin drives by `sluicegate_broker`, when the configuration is
    read; the first plugin that returns a driver wins, and the one that comes with `sluicegate_grpc` is asked
    last.

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


@hookspec
def sluicegate_decisions(batch: Sequence[Mapping[str, Any]]) -> None:
    """See decisions that are not a plain allow, in batches, off the path of messages.

    Called by the decision log's thread after each batch was written; being slow only delays the log.

    :param batch: rows as in the decision schema, by column name.
    """


@hookspec
def sluicegate_commands(  # type: ignore[empty-body]
    open_policies: Callable[[str], PolicyDesk],
) -> "Sequence[click.Command]":
    """Add commands to the `sluicegate` command line.

    Called once when the command line starts.

    :param open_policies: opens a configuration file and its store, to read and set policies; it prints the
        file's mistakes and ends the command if there are any.
    """


@hookspec
def sluicegate_demo(  # type: ignore[empty-body]
    directory: Path, systems: Sequence[str], plain: bool
) -> Sequence[str]:
    """Show something more at the end of `sluicegate demo`, on standard output.

    Called once, after the table of scenes and with nothing of the demo running; all plugins are asked, one
    after the other. May take a minute if it says how far it is.

    :param directory: the demo's own; a folder may be made in it.
    :param systems: kinds of broker that were shown and whose clients are installed.
    :param plain: no colours, and ASCII only.
    :return: what is not as it should be, a sentence each; any of them makes the demo's exit code 1.
    """


@hookspec
def sluicegate_startup(log: Callable[[str], None]) -> None:
    """Take notice that a worker is about to accept clients.

    Called once for each worker, after the policies were loaded.

    :param log: writes one line to the gateway's log under the plugin's name.
    """


@hookspec
def sluicegate_shutdown(log: Callable[[str], None]) -> None:
    """Take notice that a worker has drained and is about to end.

    :param log: writes one line to the gateway's log under the plugin's name.
    """


class HookManager(pluggy.PluginManager):
    """Registers plugins, and refuses hook implementations that a gateway cannot call.

    A gateway asks each plugin on its own, so that a fault has a name, and compiles the answers into gates. No
    call is left for `hookimpl(wrapper=True)`, or the older `hookwrapper=True`, to wrap.
    """

    def __init__(self) -> None:
        super().__init__(PROJECT)
        self.add_hookspecs(sys.modules[__name__])

    def parse_hookimpl_opts(self, plugin: object, name: str) -> "pluggy.HookimplOpts | None":
        """What marks an attribute of a plugin as a hook; None if nothing does.

        :raises pluggy.PluginValidationError: if it is marked as a wrapper.
        """
        # Most names of a module are imports, and pluggy takes its time to see that they are no functions.
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
