"""`set-delayed-delivery`, `get-delayed-delivery` and `remove-delayed-delivery`, of topics and of namespaces.

They change the gateway's own store, found by its configuration file, as `sluicegate explain` does. They do
not contact the broker, and anyone who may write the store may use them.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import TypeAlias, TypeVar

import click
from pydantic_core import PydanticCustomError

from sluicegate.config.units import DELAY, DURATION, Unit
from sluicegate.engine.hierarchy import Resolver
from sluicegate.hooks import OpenedPolicies
from sluicegate.model import Level, PolicyValue, TopicName
from sluicegate.output import echo, echo_json
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.names import topic_name

_Settings: TypeAlias = dict[str, tuple[PolicyValue, str]]
"""Values by field, each with where it was set."""
OpenPolicies: TypeAlias = Callable[[str], OpenedPolicies]

_Command = TypeVar("_Command", bound=Callable[..., object])

_FIXED, _MAX = "fixed_delivery_delay", "max_delivery_delay"
_ACTIVE, _TICK = "delayed_delivery_active", "delayed_delivery_tick_time"
_FIELDS = {
    _FIXED: "fixed delay",
    _MAX: "longest delay",
    _ACTIVE: "delayed delivery active",
    _TICK: "tick time",
}
"""The policies and what they are called here."""
_JSON_NAMES = {
    _FIXED: "fixedDeliveryDelayInMillis",
    _MAX: "maxDeliveryDelayInMillis",
    _ACTIVE: "active",
    _TICK: "tickTime",
}
_PARTITION = re.compile(r"-partition-\d+$")
_NAMESPACE = re.compile(r"[^/\s]+/[^/\s]+")

_FILE = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(readable=False),  # the reader names the reason and a remedy
    metavar="FILE",
    default="gateway.yaml",
    show_default=True,
    help="Configuration file.",
)
_BROKER = click.option(
    "--broker", metavar="NAME", help="Broker entry, where the file has several of Pulsar; all if unset."
)


def _time_option(short: str, name: str, unit: Unit, text: str) -> Callable[[_Command], _Command]:
    """An option that takes a time with its unit."""

    def read(ctx: click.Context, param: click.Parameter, value: str | None) -> int | None:
        if value is None:
            return None
        try:
            return int(unit.parse(int(value) if value.isdecimal() else value))
        except PydanticCustomError as error:
            said = error.context or {}
            problem = "; ".join(str(said[part]) for part in ("problem", "remedy") if said.get(part))
            raise click.BadParameter(problem, ctx, param) from None

    return click.option(short, name, metavar="TIME", callback=read, help=text)


@dataclass(frozen=True, slots=True)
class _Kind:
    """Topics or namespaces."""

    level: Level
    names: tuple[str, ...]
    """Names of the group; `topicPolicies` is pulsar-admin's (PIP-437)."""
    plural: str
    metavar: str
    read: Callable[[str], TopicName]

    def name(self, topic: TopicName) -> str:
        """The name in the store."""
        return topic.full if self.level is Level.TOPIC else topic.namespace


def _read_topic(text: str) -> TopicName:
    try:
        return topic_name(_PARTITION.sub("", text))
    except ProtocolError as error:
        raise click.BadParameter(str(error), param_hint="TOPIC") from None


def _read_namespace(text: str) -> TopicName:
    if not _NAMESPACE.fullmatch(text):
        raise click.BadParameter(
            f"{text!r} is no namespace, expected tenant/namespace", param_hint="NAMESPACE"
        )
    return TopicName("", text)


_KINDS = (
    _Kind(Level.TOPIC, ("topics", "topicPolicies"), "topics", "TOPIC", _read_topic),
    _Kind(Level.NAMESPACE, ("namespaces",), "namespaces", "NAMESPACE", _read_namespace),
)


def groups(open_policies: OpenPolicies) -> list[click.Command]:
    """The commands.

    :param open_policies: opens the gateway's configuration file and its store.
    """
    made: list[click.Command] = []
    for kind in _KINDS:
        commands = [make(kind, open_policies) for make in (_set, _get, _remove)]
        for name in kind.names:
            group = click.Group(name, help=f"Policies of {kind.plural}, set in the gateway's store.")
            for command in commands:
                group.add_command(command)
            made.append(group)
    return made


def _set(kind: _Kind, open_policies: OpenPolicies) -> click.Command:
    @click.command("set-delayed-delivery")
    @click.argument("subject", metavar=kind.metavar)
    @_time_option("-fd", "--fixed-delay", DELAY, "How late every message is: 30s, 1h; 0 for none.")
    @_time_option("-md", "--max-delay", DELAY, "Longest delay that producers may ask for; 0 for any.")
    @_time_option("-t", "--time", DURATION, "The broker's tick time, such as 1s.")
    @click.option(
        "--enable/--disable", "active", default=None, help="Whether the broker itself may deliver late."
    )
    @_FILE
    @_BROKER
    def command(
        subject: str,
        fixed_delay: int | None,
        max_delay: int | None,
        time: int | None,
        active: bool | None,
        file: str,
        broker: str | None,
    ) -> None:
        """Set how late messages are delivered; what is not given stays as it is.

        A fixed delay beats the longest delay, and both beat what producers ask for. A running gateway applies
        the change within a second. The broker's own policies are left alone: where one of them allows less
        than the fixed delay, set the delay through the gateway's web listener instead: it adjusts both.
        """
        given: dict[str, PolicyValue | None] = {
            _FIXED: fixed_delay,
            _MAX: max_delay,
            _TICK: time,
            _ACTIVE: active,
        }
        changes = {field: value for field, value in given.items() if value is not None}
        if not changes:
            raise click.UsageError("expected --fixed-delay, --max-delay, --time, --enable or --disable")
        topic = kind.read(subject)
        desk = open_policies(file)
        brokers = _brokers(desk, broker)
        for each in brokers:
            _refuse_locked(desk, each, kind, topic, changes)
        desk.change(brokers, kind.level, kind.name(topic), changes)
        said = ", ".join(f"{_FIELDS[field]} {desk.text(field, value)}" for field, value in changes.items())
        echo(f"{kind.name(topic)}: {said}")

    return command


def _get(kind: _Kind, open_policies: OpenPolicies) -> click.Command:
    @click.command("get-delayed-delivery")
    @click.argument("subject", metavar=kind.metavar)
    @click.option("-ap", "--applied", is_flag=True, help="What holds after all levels are merged.")
    @click.option("--json", "as_json", is_flag=True, help="As JSON, in the admin API's words.")
    @_FILE
    @_BROKER
    def command(subject: str, applied: bool, as_json: bool, file: str, broker: str | None) -> None:
        """Show how late messages are delivered, as file and store of the gateway say it."""
        topic = kind.read(subject)
        desk = open_policies(file)
        resolver = desk.resolver(_brokers(desk, broker)[0])
        policies = _applied(kind, topic, resolver) if applied else _set_here(kind, topic, resolver)
        if as_json:
            said = {_JSON_NAMES[field]: value for field, (value, _) in policies.items()}
            echo_json(said)
            return
        for field, (value, where) in policies.items():
            echo(f"{_FIELDS[field]}: {desk.text(field, value)} ({where})")
        if not policies:
            hint = "" if applied else "; --applied shows what is inherited"
            echo(f"{kind.name(topic)}: nothing set{hint}")

    return command


def _set_here(kind: _Kind, topic: TopicName, resolver: Resolver) -> _Settings:
    settings = resolver.settings(topic, kind.level)
    return {
        field: (settings[field].value, settings[field].location) for field in _FIELDS if field in settings
    }


def _applied(kind: _Kind, topic: TopicName, resolver: Resolver) -> _Settings:
    effective = resolver.resolve(topic, kind.level)
    policies: _Settings = {}
    for field in _FIELDS:
        if field in effective.values:
            provenance = effective.provenance[field]
            ceiling = f"tightened by {provenance.ceiling}" if provenance.ceiling else ""
            where = (effective.level(field), provenance.location, ceiling)
            policies[field] = (effective.values[field], ", ".join(part for part in where if part))
    return policies


def _remove(kind: _Kind, open_policies: OpenPolicies) -> click.Command:
    @click.command("remove-delayed-delivery")
    @click.argument("subject", metavar=kind.metavar)
    @_FILE
    @_BROKER
    def command(subject: str, file: str, broker: str | None) -> None:
        """Take away what was set, so that it is inherited again; the file's own settings stay."""
        topic = kind.read(subject)
        desk = open_policies(file)
        desk.change(_brokers(desk, broker), kind.level, kind.name(topic), dict.fromkeys(_FIELDS))
        echo(f"{kind.name(topic)}: removed")

    return command


def _brokers(desk: OpenedPolicies, name: str | None) -> list[str]:
    """The broker entries that are meant: all of the file if none is chosen."""
    known = [broker.name for broker in desk.brokers("pulsar")]
    if not known:
        raise click.UsageError("the file names no Pulsar broker")
    if name is not None and name not in known:
        raise click.UsageError(f"unknown broker {name!r}: expected --broker with one of: {', '.join(known)}")
    return known if name is None else [name]


def _refuse_locked(
    desk: OpenedPolicies, broker: str, kind: _Kind, topic: TopicName, changes: dict[str, PolicyValue]
) -> None:
    resolver = desk.resolver(broker)
    for field in changes:
        lock = resolver.lock(topic, kind.level, field)
        if lock is not None:
            raise click.ClickException(f"{field} is locked in {lock.location}: the store cannot set it")
