"""Every hook that a plugin can implement.

Build hooks are called when a gate is compiled, never for a message: they return plain callables.
A hook that raises is reported under its plugin's name and never stops traffic.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Protocol

import pluggy

from sluicegate.broker import BrokerDriver
from sluicegate.engine.check import Check
from sluicegate.engine.delay import DelayRule
from sluicegate.engine.hierarchy import Resolver
from sluicegate.engine.state import TopicState
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


@hookspec
def sluicegate_broker() -> BrokerDriver:  # type: ignore[empty-body]
    """Add a kind of broker, named by `system:` in the file.

    Called once when the configuration is read.
    """


@hookspec
def sluicegate_method_map() -> MethodMap:  # type: ignore[empty-body]
    """Say which methods of a gRPC broker are which operations, and where topic, producer and payload stand.

    Called once, when a door for the map's `system` is made: interceptors in a server or client, or a proxy.

    :return: the map; the last plugin loaded that names a system has its say about it.
    """


@hookspec(firstresult=True)
def sluicegate_metadata_store(url: str) -> Any | None:
    """Open the policy store behind a URL.

    Called once at start; the first plugin that knows the scheme wins (`sqlite:` and `memory:` are built in).

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
