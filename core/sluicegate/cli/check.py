"""`sluicegate check FILE`."""

import os
from collections.abc import Iterator
from itertools import chain

import click

from sluicegate.cli.opening import Opened, open_file
from sluicegate.config.load import Loaded
from sluicegate.storage_quota.fields import LIMITS


@click.command()
@click.argument("file", type=click.Path())
def check(file: str) -> None:
    """Find every mistake in FILE in one pass, and change nothing.

    Environment variables that begin with SLUICEGATE__ are checked too. The exit code is 1 if there are
    mistakes. Policies that a configured broker cannot apply are warned of.
    """
    opened = open_file(file, os.environ)
    for warning in chain(not_applicable(opened), unread_limits(opened)):
        click.echo(f"warning[config]: {warning}", err=True)
    click.echo(f"{file}: ok, {summary(opened.loaded)}")


def summary(loaded: Loaded) -> str:
    """What a file says, in one line."""
    brokers = ", ".join(f"{broker.name} ({broker.system})" for broker in loaded.config.brokers)
    settings = sum(len(layer.settings) + len(layer.ceilings) for layer in loaded.policy_layers)
    levels = len(loaded.policy_layers)
    return (
        f"{'broker' if len(loaded.config.brokers) == 1 else 'brokers'} {brokers}; {settings} "
        f"policy setting{'' if settings == 1 else 's'} in {levels} place{'' if levels == 1 else 's'}"
    )


def not_applicable(opened: Opened) -> Iterator[str]:
    """Policies that are set and that a configured kind of broker has no way to apply."""
    for broker in opened.loaded.config.brokers:
        capabilities = opened.capabilities(broker.system)
        for layer in opened.loaded.policy_layers:
            for name, setting in layer.settings.items():
                if capabilities.get(name) == "not applicable" and setting.value != 0:
                    yield (
                        f"{name!r} is not applicable to {broker.system} and does nothing on broker "
                        f"{broker.name!r}\n  --> {setting.location}"
                    )


def unread_limits(opened: Opened) -> Iterator[str]:
    """Limits on volumes that a configured broker does not look at."""
    settings = {
        name: setting for layer in opened.loaded.policy_layers for name, setting in layer.settings.items()
    }
    for broker in opened.loaded.config.brokers:
        for name in sorted(LIMITS & settings.keys()):
            if broker.storage is None and settings[name].value != 0:
                yield (
                    f"{name!r} does nothing on broker {broker.name!r}, which has no 'storage:' section\n"
                    f"  --> {settings[name].location}"
                )
