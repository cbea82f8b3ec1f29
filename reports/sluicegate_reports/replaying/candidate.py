"""Candidate policies: read from a file and prepared for the processes that replay."""

import os
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path

from sluicegate.broker import PolicyRefusedError
from sluicegate.config import load as loading
from sluicegate.config.errors import ConfigErrors
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.faults import GateFaults
from sluicegate.engine.gate import Gate
from sluicegate.features.adaptive.settings import ENABLED
from sluicegate.features.storage_quota.quota_fields import LIMITS
from sluicegate.model import Decision, Operation, PolicyLayer, PolicySet, TopicName
from sluicegate.policies.quota_limit import TOGETHER
from sluicegate.policies.quotas import EACH
from sluicegate.runtime.changing import planned
from sluicegate.runtime.compiler import GateCompiler
from sluicegate.runtime.edits import change_from, set_by_text
from sluicegate.runtime.plugins import PluginError, load_plugins

_MODE = "mode."
_ACROSS_TOPICS = "connection_rate_limit"
_COUNTS = frozenset(
    {
        "max_producers_per_topic",
        "max_subscriptions_per_topic",
        "max_consumers_per_topic",
        "max_consumers_per_subscription",
    }
)
_QUOTAS = (*TOGETHER, *EACH)
STATES = (*sorted(LIMITS), ENABLED)
"""Settings by which publishing follows the state of the brokers."""
_UNACKED = "max_unacked_messages_per_consumer"
_DECIDING = frozenset({"sluicegate_policy_checks", "sluicegate_delay_rule"})


class CandidateError(Exception):
    """A file holds no policies that can be replayed; the message says why and what to do."""


@dataclass(frozen=True, slots=True)
class Entry:
    """One broker of the file, with the policies that hold for it."""

    config: BrokerConfig
    policies: PolicySet

    @property
    def max_hold_ns(self) -> int:
        """Longest time that a request is held."""
        return self.config.max_hold * 1_000_000


@dataclass(frozen=True, slots=True)
class Candidate:
    """Policies of all brokers of a file; can be pickled."""

    name: str
    """The file's."""
    entries: tuple[Entry, ...]
    modules: tuple[str, ...]
    """Plugins that the file names; they must be importable where the replay runs."""
    notes: tuple[str, ...]
    """Parts of the file that are not replayed as written, and why."""
    attaching: tuple[Entry, ...] = ()
    """The same brokers as `entries`, with nothing but their limit of attachments."""
    left_out: tuple[str, ...] = ()
    """Settings of the file that are not replayed: quotas, and STATES."""

    def entry(self, system: str, gateway: str) -> Entry | None:
        """The broker of recorded decisions: the one of that name, otherwise the first of the system."""
        same = [entry for entry in self.entries if entry.config.system == system]
        named = [entry for entry in same if entry.config.name == gateway]
        return next(iter(named or same), None)

    def entry_of_attachments(self, system: str, gateway: str) -> Entry | None:
        """The same broker as `entry`, with nothing but its limit of attachments."""
        entry = self.entry(system, gateway)
        return None if entry is None else self.attaching[self.entries.index(entry)]

    def sets(self, *names: str) -> bool:
        """Whether any of these policies is set, to other than 0, anywhere in the file."""
        entries = (*self.entries, *self.attaching)
        return any(_sets(layer, name) for e in entries for layer in e.policies.layers for name in names)

    @property
    def attachments(self) -> bool:
        """Whether the rate of attachments matters."""
        return self.sets(_ACROSS_TOPICS)

    @property
    def counts(self) -> bool:
        """Whether a policy depends on attachments."""
        return self.sets(*_COUNTS)

    @property
    def unacked(self) -> bool:
        """Whether acknowledgements matter."""
        return self.sets(_UNACKED)


def read_candidate(
    path: Path, environ: Mapping[str, str] = os.environ, changes: Sequence[str] = ()
) -> Candidate:
    """Read a policy file, with the installed plugins and those it names; its store is not looked at.

    :param changes: what else is set, in the words of `sluicegate policies set`.
    :raises CandidateError: if it has mistakes, each of which is reported with its location and remedy.
    """
    try:
        parsed = loading.parse_file(path, environ)
        plugins = load_plugins(parsed.plugin_modules)
        loaded = loading.load(path, plugins.policy_models, plugins.broker_models, environ, parsed=parsed)
        edits = [edit for text in changes for edit in set_by_text(text)]
        layers = planned(loaded, (), change_from(edits).wanted() if edits else ())[1]
    except ConfigErrors as refused:
        raise CandidateError(
            f"{refused.render()}\n{path}: fix it, `sluicegate check` reports the same"
        ) from None
    except (PluginError, PolicyRefusedError, ValueError) as error:
        raise CandidateError(str(error)) from None
    sets = [(broker, loaded.policies(layers, 1, broker.name)) for broker in loaded.config.brokers]
    notes = tuple(_notes([policies for _, policies in sets]))
    by_topic = tuple(Entry(broker, _applied(policies, across=False)) for broker, policies in sets)
    attaching = tuple(Entry(broker, _applied(policies, across=True)) for broker, policies in sets)
    return Candidate(path.name, by_topic, parsed.plugin_modules, notes, attaching, tuple(_left_out(sets)))


def _left_out(sets: list[tuple[BrokerConfig, PolicySet]]) -> Iterator[str]:
    layers = [layer for _, policies in sets for layer in policies.layers]
    for name in (*_QUOTAS, *STATES):
        if any(_sets(layer, name) for layer in layers):
            yield name
    if any(broker.quotas for broker, _ in sets):
        yield "quotas"


def _notes(sets: list[PolicySet]) -> Iterator[str]:
    names = {name for policies in sets for layer in policies.layers for name in layer.settings}
    if any(policies.observe_only for policies in sets) or any(n.startswith(_MODE) for n in names):
        yield "observe_only and mode of the file are set aside: this is what enforcing the policies would do."


def _sets(layer: PolicyLayer, name: str) -> bool:
    return any(name in settings and settings[name].value for settings in (layer.settings, layer.ceilings))


def _applied(policies: PolicySet, *, across: bool) -> PolicySet:
    """The policies without observe-only ones.

    :param across: only what holds across topics; otherwise only what is replayed topic by topic.
    """
    layers = tuple(
        replace(
            layer,
            settings={
                name: setting for name, setting in layer.settings.items() if _is_applied(name, across=across)
            },
            ceilings={
                name: setting for name, setting in layer.ceilings.items() if _is_applied(name, across=across)
            },
        )
        for layer in policies.layers
    )
    return replace(policies, layers=layers, observe_only=False)


def _is_applied(name: str, *, across: bool) -> bool:
    if name.startswith(_MODE) or name in _QUOTAS:
        return False
    return (name == _ACROSS_TOPICS) is across


class Engine:
    """Gates of one broker, compiled as a gateway compiles them.

    :param entry: the broker.
    :param modules: plugins that the file names.
    """

    def __init__(self, entry: Entry, modules: tuple[str, ...]) -> None:
        plugins = load_plugins(modules)  # its own: built-in ones keep the buckets of limits over all topics
        self.entry = entry
        self.faults = GateFaults()
        self.further_plugins = sorted(
            plugin.name
            for plugin in plugins.overview()
            if plugin.origin != "built in" and not _DECIDING.isdisjoint(plugin.hooks)
        )
        """Those that take part in decisions, and did not come with the product."""
        self._driver = plugins.drivers[entry.config.system]
        self._namespaces: dict[str, str] = {}
        self._compiler = GateCompiler(
            plugins, self._name, entry.policies, _Sink(), self.faults, entry.config.policy_defaults
        )

    def gate(self, topic: str, namespace: str, principal: str, now_ns: int) -> Gate:
        """The gate of a topic for a principal."""
        self._namespaces[topic] = namespace
        gate = self._compiler.gates.get(topic, principal in self.entry.policies.exempt_principals, now_ns)
        if not gate.state.subscriptions_known:
            gate.state.learn_subscriptions(())
        return gate

    def _name(self, topic: str) -> TopicName:
        try:
            return self._driver.name_of(topic, self.entry.config)
        except Exception:  # noqa: BLE001 - a driver that cannot read a name: the log knows the namespace
            return TopicName(topic, self._namespaces[topic])


class _Sink:
    """Keeps nothing: the caller of the engine sees its answers."""

    def allowed(self, gate: Gate, op: Operation, now_ns: int) -> None:
        """Nothing to do."""

    def decided(self, gate: Gate, op: Operation, decision: Decision, now_ns: int) -> Decision:
        """Nothing to do."""
        return decision
