"""`sluicegate import kafka` and the like: a policy file from the limits that a running broker has."""

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import click

from sluicegate.broker import BaseDriver
from sluicegate.cli.imported import ImportedFile
from sluicegate.cli.opening import choose, open_file, plugins_for
from sluicegate.cli.own_limits import exiting_with, own_settings
from sluicegate.cli.policy_output import BAD_SOURCE, refusing, write_policies
from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.fields import PolicyFields
from sluicegate.config.models import BrokerConfig
from sluicegate.config.units import parse_address
from sluicegate.config.validation import first_problem
from sluicegate.model.own_limits import OwnSettingsError
from sluicegate.output import echo

_FILE = "gateway.yaml"
_UNKNOWN = "127.0.0.1:6650"
_PORTS_APART = 10_000
"""From the port of the brokers to the gateway's."""
_MOST_PORTS = 65_000
"""Those of single brokers follow the gateway's port."""
_LISTEN_NOTE = "The new address for clients, `listen`: choose an address and a port."
_HELP = """Convert the limits of a running broker to a policy file.

The broker is that of an entry of FILE, asked with the login and the TLS that the entry has. Without a file,
name its address. Comments in the result explain where each value comes from, and why some are not converted.
The exit code is 2 if the broker cannot be asked.
"""


class _Source(NamedTuple):
    """The broker whose settings are read."""

    driver: BaseDriver
    config: BrokerConfig
    fields: PolicyFields
    command: str
    notes: Sequence[str]


def systems() -> list[str]:
    """Kinds of brokers that tell their own limits, sorted; with a warning if plugins cannot be loaded."""
    try:
        drivers = plugins_for(None, os.environ).drivers
    except click.ClickException as error:
        echo(f"warning: {error.message}", err=True)
        return []
    return sorted(system for system, driver in drivers.items() if driver.tells_own_settings)


def command_for(system: str) -> click.Command:
    """The command for one kind of broker."""
    driver = plugins_for(None, os.environ).drivers[system]

    def run(**given: Any) -> None:
        with exiting_with(BAD_SOURCE):
            _run(system, **given)

    return click.Command(system, callback=run, params=_options(driver), help=_HELP)


def _options(driver: BaseDriver) -> list[click.Parameter]:
    options = [
        click.Option(
            ["-c", "--config", "file"],
            type=click.Path(readable=False),
            metavar="FILE",
            help=f"Configuration file with the broker's entry; {_FILE} by default.",
        ),
        click.Option(
            ["--broker"], metavar="NAME", help="Broker entry, if the file has several of this kind."
        ),
        click.Option(
            ["--bootstrap"],
            multiple=True,
            metavar="HOST:PORT",
            help="Address of a broker, in place of a file; may be given several times.",
        ),
    ]
    if _has_admin(driver):
        options.append(
            click.Option(["--admin"], metavar="URL", help="Address of the admin API, in place of a file.")
        )
    output = click.Option(
        ["-o", "--output"],
        type=click.Path(path_type=Path),
        metavar="FILE",
        help="Write the policy file here instead of to standard output; it must not exist yet.",
    )
    return [*options, output]


def _has_admin(driver: BaseDriver) -> bool:
    """Whether this kind of broker is asked at an admin API."""
    return "admin" in driver.config_model.model_fields


def _run(
    system: str,
    file: str | None,
    broker: str | None,
    bootstrap: Sequence[str],
    output: Path | None,
    admin: str | None = None,
) -> None:
    if (bootstrap or admin) and (file or broker):
        raise click.UsageError("expected addresses, or a file and a broker of it, not both")
    if bootstrap or admin:
        source = _named(system, bootstrap, admin)
    else:
        source = _of_file(system, file or _FILE, broker)
    with refusing(source.config.name):
        try:
            own = own_settings(source.driver, source.config)
        except OwnSettingsError as error:
            problem = f"broker {source.config.name!r} cannot be asked: {error.text}"
            raise ConfigErrors([Finding(file or "", 0, 0, "", problem, error.remedy)]) from None
        made = ImportedFile(source.command, source.config, source.fields, source.notes)
        made.add(own.settings)
        write_policies(output, made.text(own.gaps), made.taken, made.left_out)


def _of_file(system: str, file: str, broker: str | None) -> _Source:
    opened = open_file(file, os.environ)
    config = choose(opened, broker, system)
    command = f"sluicegate import {system} -c {file} --broker {config.name}"
    note = f"`tls`, logins and all else of the entry are in {file}."
    driver = opened.plugins.drivers[config.system]
    return _Source(driver, config, opened.loaded.fields, command, (note, _LISTEN_NOTE))


def _named(system: str, bootstrap: Sequence[str], admin: str | None) -> _Source:
    plugins = plugins_for(None, os.environ)
    driver = plugins.drivers[system]
    entry: dict[str, Any] = {"name": system, "system": system, "bootstrap": list(bootstrap) or [_UNKNOWN]}
    entry["listen"] = {"host": "127.0.0.1", "port": _port(entry["bootstrap"][0])}
    notes = [_LISTEN_NOTE]
    command = " ".join([f"sluicegate import {system}", *(f"--bootstrap {each}" for each in bootstrap)])
    if admin:
        entry["admin"] = {"url": admin}
        command += f" --admin {admin}"
    elif _has_admin(driver):
        raise click.UsageError("expected --admin URL, as that is where this kind of broker is asked")
    if not bootstrap:
        notes.insert(0, "Where the brokers serve clients, `bootstrap`, is not known: write their addresses.")
    try:
        config: BrokerConfig = driver.config_model.model_validate(entry)
    except ValueError as error:
        raise click.UsageError(first_problem(error)) from None
    return _Source(driver, config, PolicyFields.of(plugins.policy_models), command, notes)


def _port(address: str) -> int:
    """A port for the gateway, if the brokers are at an address."""
    try:
        port = parse_address(address).port + _PORTS_APART
    except ValueError:
        return _PORTS_APART  # the address is refused with the entry
    return port if port < _MOST_PORTS else _PORTS_APART
