"""Opens plugins, configuration file and policy store for commands."""

import os
import sys
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass
from typing import NoReturn

import click

from sluicegate.broker import PolicyRefusedError, PolicyUnavailableError
from sluicegate.cli.asking import which_broker
from sluicegate.cli.command_user import command_user
from sluicegate.config.errors import ConfigErrors, Finding, render
from sluicegate.config.load import Loaded, load, parse_file
from sluicegate.config.models import BrokerConfig
from sluicegate.config.tree import Node
from sluicegate.engine.hierarchy import Resolver
from sluicegate.model import Level, PolicyLayer, PolicyValue
from sluicegate.output import echo, echo_document
from sluicegate.runtime.changing import change_store, wanted_for
from sluicegate.runtime.effective import BrokerPolicies, capabilities_of
from sluicegate.runtime.plugins import PluginError, Plugins, load_plugins
from sluicegate.store import Author, PolicyStore, StoreError
from sluicegate.store.sqlite_file import is_missing


def plugin_commands() -> list[click.Command]:
    """Commands of installed plugins. A plugin that fails causes a warning and affects no other command."""
    try:
        implementations = load_plugins(()).implementations("sluicegate_commands")
    except PluginError as error:
        echo(f"warning: {error}", err=True)
        return []
    commands: list[click.Command] = []
    for ask in implementations:
        try:
            commands.extend(ask(open_policies=open_desk))
        except (Exception, SystemExit) as error:  # noqa: BLE001 - any error of a plugin
            echo(f"warning: plugin {ask.plugin!r}: sluicegate_commands raised {error!r}", err=True)
    return commands


@dataclass(frozen=True, slots=True)
class Opened:
    """A file without errors, and the plugins that were loaded for it."""

    loaded: Loaded
    plugins: Plugins

    def capabilities(self, system: str) -> Mapping[str, str]:
        """How a kind of broker supports each policy; empty if its driver does not declare it."""
        return capabilities_of(self.plugins.drivers.get(system))

    def policies(self, config: BrokerConfig) -> BrokerPolicies:
        """The policies of one broker, from file and store; an error of the store exits the command."""
        driver, resolver = self.plugins.drivers[config.system], Desk(self).resolver(config.name)
        return BrokerPolicies(config, driver, resolver, self.loaded.fields, read_facts(self, config.name))


def plugins_for(file: str | None, environ: Mapping[str, str]) -> Plugins:
    """Load the installed plugins and those that a file lists, if it is YAML; exit if one cannot be used."""
    modules: tuple[str, ...] = ()
    with suppress(ConfigErrors):
        modules = parse_file(file, environ).plugin_modules if file is not None else ()
    try:
        return load_plugins(modules)
    except PluginError as error:
        raise click.ClickException(str(error)) from None


def open_file(file: str, environ: Mapping[str, str]) -> Opened:
    """Load the plugins that a file lists, then the file. Print errors and exit with code 1."""
    try:
        parsed = parse_file(file, environ)
        with plugin_errors(file, parsed.root):
            plugins = load_plugins(parsed.plugin_modules)
            loaded = load(file, plugins.policy_models, plugins.broker_models, environ, parsed=parsed)
    except ConfigErrors as refused:
        refuse(file, refused.errors)
    return Opened(loaded, plugins)


@contextmanager
def plugin_errors(file: str, root: Node) -> Iterator[None]:
    """Report a plugin that cannot be used as an error of the file, at the line that lists it, if any.

    :raises ConfigErrors: in place of what loading and using plugins raises.
    """
    try:
        yield
    except (PluginError, ValueError) as error:  # ValueError: two plugins declare the same field
        raise ConfigErrors([_plugin_finding(file, root, error)]) from None


def _plugin_finding(file: str, root: Node, error: Exception) -> Finding:
    module = error.module if isinstance(error, PluginError) else ""
    remedy = "install or repair it, add its folder to PYTHONPATH, or remove it from 'plugins:'"
    for index, node in enumerate(root.listed("plugins")):
        if module and node.scalar == module:
            return node.location.error(("plugins", index), str(error), remedy)
    return Finding(file, 0, 0, "", str(error), "repair or uninstall the plugin")


def refuse(file: str, errors: Sequence[Finding]) -> NoReturn:
    """Print errors and exit with code 1."""
    echo_document(render(errors), err=True)
    echo("", f"{file}: {counted(errors)}, nothing applied", err=True)
    sys.exit(1)


def counted(findings: Sequence[Finding]) -> str:
    """Format the numbers of errors and warnings."""
    numbers = Counter(finding.severity for finding in findings)
    return ", ".join(f"{number} {name}{'' if number == 1 else 's'}" for name, number in numbers.items())


@contextmanager
def _opened_store(opened: Opened) -> Iterator[PolicyStore]:
    """Open the store for a block; an error exits the command."""
    try:
        with closing(opened.plugins.open_store(opened.loaded.config.store_url)) as store:
            yield store
    except (PolicyRefusedError, PolicyUnavailableError, StoreError, PluginError) as error:
        raise click.ClickException(str(error)) from None


def read_store(opened: Opened) -> tuple[int, tuple[PolicyLayer, ...]]:
    """Read the store's version and layers; version 0 without layers if there is no store yet."""
    if is_missing(opened.loaded.config.store_url):  # reading must not create it
        return 0, ()
    with _opened_store(opened) as store:
        return store.layers()


def read_facts(opened: Opened, broker: str) -> Mapping[str, str]:
    """Read the facts of a broker; empty if there is no store yet."""
    if is_missing(opened.loaded.config.store_url):  # reading must not create it
        return {}
    with _opened_store(opened) as store:
        facts = store.facts(f"{broker}/")
    return {key.removeprefix(f"{broker}/"): value for key, value in facts.items()}


class Desk:
    """A `hooks.OpenedPolicies` for a file and its store.

    :param opened: the file.
    """

    def __init__(self, opened: Opened) -> None:
        self._opened = opened

    def brokers(self, system: str) -> Sequence[BrokerConfig]:
        """The file's broker entries of one kind."""
        return [broker for broker in self._opened.loaded.config.brokers if broker.system == system]

    def resolver(self, broker: str) -> Resolver:
        """The current policies of a broker from file and store."""
        loaded = self._opened.loaded
        _, layers = read_store(self._opened)
        [entry] = [entry for entry in loaded.config.brokers if entry.name == broker]
        defaults = loaded.fields.defaults_with(entry.policy_defaults)
        policies = loaded.policies(layers, loaded.version(layers), broker)
        return Resolver(policies, defaults, loaded.fields.broker_only)

    def change(self, brokers: Sequence[str], level: Level, name: str, changes: Mapping[str, object]) -> None:
        """Set policies in the store."""
        wanted = {each: None for broker in brokers for each in wanted_for(broker, level, name, changes)}
        with _opened_store(self._opened) as store:
            change_store(store, self._opened.loaded, wanted, Author(command_user()))

    def text(self, field: str, value: PolicyValue) -> str:
        """Format a value with its unit."""
        return self._opened.loaded.fields.text(field, value)


def choose(opened: Opened, name: str | None, system: str = "") -> BrokerConfig:
    """The entry of a name, or the only one.

    :param system: only entries of this kind; all if empty.
    :raises click.UsageError: if there is none, or there are several.
    """
    brokers = [each for each in opened.loaded.config.brokers if system in ("", each.system)]
    if not brokers:
        raise click.UsageError(f"the file has no broker of kind {system!r}")
    if name is None and len(brokers) == 1:
        return brokers[0]
    for broker in brokers:
        if broker.name == name:
            return broker
    raise which_broker(name, [broker.name for broker in brokers])


def open_desk(file: str) -> Desk:
    """Open a file and its store for commands. Errors exit as in `open_file`."""
    return Desk(open_file(file, os.environ))
