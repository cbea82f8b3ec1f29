"""`sluicegate drift`: where brokers' own limits differ from the policies in force."""

import os
import sys
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass
from itertools import groupby
from textwrap import wrap
from typing import Any

import click

from sluicegate.cli.asking import look_for
from sluicegate.cli.file_door import FileDoor
from sluicegate.cli.opening import Opened, choose, open_file
from sluicegate.cli.options import config_file
from sluicegate.cli.own_limits import differences, exiting_with
from sluicegate.cli.policy_doors import Door, GatewayDoor
from sluicegate.config.fields import PolicyFields
from sluicegate.config.load import entry_policies
from sluicegate.config.models import BrokerConfig
from sluicegate.engine.hierarchy import Resolver
from sluicegate.features.drift import wording
from sluicegate.features.drift.comparing import Difference, Kind, Side
from sluicegate.model import LEVELS, Setting, Source, visible
from sluicegate.model.own_limits import OwnSettingsError
from sluicegate.output import echo, echo_json
from sluicegate.store import Key
from sluicegate.store.policy_store import grouped

_STRICTER = 1
_UNKNOWN = 2
_WIDTH = 79
_INDENT = " " * 10
_ROW = "{:<8}  {:<36}  {:<13}  {}"


@dataclass(frozen=True, slots=True)
class _Asked:
    """What one broker answered, and how it differs."""

    config: BrokerConfig
    differences: Sequence[Difference] = ()
    gaps: Sequence[str] = ()
    error: OwnSettingsError | None = None

    @property
    def exit_code(self) -> int:
        if any(each.kind is Kind.STRICTER for each in self.differences):
            return _STRICTER
        return _UNKNOWN if self.error is not None or self.gaps else 0


@click.command()
@config_file
@click.option("--broker", metavar="NAME", help="Only this broker; all brokers of the file by default.")
@click.option("--all", "shows_all", is_flag=True, help="Show equal values, too.")
@click.option("--json", "is_json", is_flag=True, help="Print everything as JSON.")
def drift(file: str, broker: str | None, shows_all: bool, is_json: bool) -> None:
    """Show where brokers' own limits differ from the policies in force.

    These are those of the gateway that runs on this host with FILE. If there is none, they are read from
    FILE and its store; the last line says which.

    `stricter`: the gateway admits what the broker refuses or holds. `looser`: clients that bypass the gateway
    are not held to its limit. `unset`: the broker alone has a limit. Brokers are asked with the login and the
    TLS of their entry.

    The exit code is 1 if a broker is stricter, 2 if a broker did not tell everything, and 0 otherwise.
    """
    with exiting_with(_UNKNOWN):
        opened = open_file(file, os.environ)
        wanted = opened.loaded.config.brokers if broker is None else [choose(opened, broker)]
        compared = _Compared(file, opened)
        asked = [compared.ask(config) for config in wanted]
    fields = opened.loaded.fields
    if is_json:
        echo_json({"policies": compared.as_json(), "brokers": [_as_json(each, fields) for each in asked]})
    else:
        for each in asked:
            echo(*_lines(each, fields, shows_all), "")
        echo(*_wrapped(f"policies {compared.version}, {compared.origin}"))
    codes = {each.exit_code for each in asked}
    sys.exit(_STRICTER if _STRICTER in codes else max(codes))


class _Compared:
    """The policies that brokers are compared with: those in force, or else those of a file and its store.

    :param file: path of the file.
    :param opened: the file.
    :raises click.ClickException: if the gateway does not answer, or the store cannot be read.
    """

    def __init__(self, file: str, opened: Opened) -> None:
        self._opened = opened
        looked = look_for(file)
        door: Door = (
            FileDoor(file, opened, looked.reason) if looked.gateway is None else GatewayDoor(looked.gateway)
        )
        in_force = door.settings()
        self.version: str = in_force["version"]
        self.origin = door.origin
        self._is_in_force = looked.gateway is not None
        for_all = (row for row in in_force["settings"] if not row["scope"])  # a broker has limits for all
        self._layers = grouped(map(_setting, for_all))

    def ask(self, config: BrokerConfig) -> _Asked:
        """Ask a broker, and compare."""
        fields = self._opened.loaded.fields
        policies = entry_policies(config, self._layers, int(self.version, 16))
        resolver = Resolver(policies, fields.defaults_with(config.policy_defaults), fields.broker_only)
        try:
            compared, own = differences(self._opened, config, resolver)
        except OwnSettingsError as error:
            return _Asked(config, error=error)
        return _Asked(config, compared, own.gaps)

    def as_json(self) -> dict[str, str]:
        """Where the policies come from."""
        return {"from": "gateway" if self._is_in_force else "file", "version": self.version}


def _setting(row: dict[str, Any]) -> tuple[Key, Setting]:
    """A setting of `runtime.policy_desk`."""
    key = Key(LEVELS[row["level"]], row["name"], row["field"], row["broker"])
    return key, Setting(row["value"], Source[row["source"].upper()], row["location"], row["locked"])


# -- text ---------------------------------------------------------------------------------------------


def _lines(answer: _Asked, fields: PolicyFields, shows_all: bool) -> list[str]:
    """The result of one broker, within the width of a terminal."""
    heading = f"broker {answer.config.name} ({answer.config.system}): "
    if answer.error is not None:
        return [
            *_wrapped(f"{heading}cannot be asked: {answer.error.text}"),
            *_wrapped(answer.error.remedy, "  "),
        ]
    numbers = Counter(each.kind for each in answer.differences)
    lines = _wrapped(
        heading + (", ".join(f"{numbers[kind]} {kind}" for kind in Kind if numbers[kind]) or "no limits")
    )
    shown = [each for each in answer.differences if shows_all or each.kind is not Kind.EQUAL]
    if shown:
        lines += ["", _ROW.format("", "policy", "gateway", "broker")]
    for target, group in groupby(shown, key=wording.target):
        lines += _wrapped(target)
        for each in group:
            lines += _row(each, fields)
    for gap in answer.gaps:
        lines += _wrapped(f"not read: {gap}")
    return lines


def _row(difference: Difference, fields: PolicyFields) -> list[str]:
    sides = wording.gateway_text(difference, fields), wording.broker_text(difference, fields)
    lines = [_ROW.format(difference.kind, difference.field, *sides).rstrip()]
    lines += _wrapped(
        f"gateway: {difference.gateway.location or 'nowhere'}; broker: {difference.broker.location}", _INDENT
    )
    remedy = wording.remedy(difference, fields)
    return lines + (_wrapped(remedy, _INDENT) if remedy else [])


def _wrapped(text: str, indent: str = "") -> list[str]:
    """A text over several lines; names in it may be longer than a line."""
    return wrap(
        visible(text), _WIDTH, initial_indent=indent, subsequent_indent=indent, break_on_hyphens=False
    )


# -- JSON ---------------------------------------------------------------------------------------------


def _as_json(answer: _Asked, fields: PolicyFields) -> dict[str, Any]:
    error = answer.error
    return {
        "broker": answer.config.name,
        "system": answer.config.system,
        "error": None if error is None else {"problem": error.text, "remedy": error.remedy},
        "not_read": list(answer.gaps),
        "differences": [_difference_as_json(each, fields) for each in answer.differences],
    }


def _difference_as_json(difference: Difference, fields: PolicyFields) -> dict[str, Any]:
    def side(side: Side, text: str) -> dict[str, Any]:
        return {"value": side.value, "text": text, "where": side.location}

    return {
        "kind": difference.kind.value,
        "level": difference.level.label,
        "name": difference.name,
        "principal": difference.principal or None,
        "policy": difference.field,
        "gateway": side(difference.gateway, wording.gateway_text(difference, fields)),
        "broker": {
            **side(difference.broker, wording.broker_text(difference, fields)),
            "written": difference.own.text,
            "enforced": difference.own.is_enforced,
        },
        "remedy": wording.remedy(difference, fields),
    }
