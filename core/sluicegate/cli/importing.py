"""`sluicegate import`: converts other systems' configuration to policy files."""

from pathlib import Path

import click

from sluicegate.cli.policy_output import output_file, refusing, write_policies
from sluicegate.config.load import read_text
from sluicegate.features.storage_quota.strimzi import import_strimzi


class _Importers(click.Group):
    """Besides files, the kinds of brokers that tell their own limits: a command for each of their drivers."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return [*super().list_commands(ctx), *_systems()]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        command = super().get_command(ctx, cmd_name)
        if command is not None or cmd_name not in _systems():
            return command
        from sluicegate.cli.import_broker import command_for

        return command_for(cmd_name)


@click.group(name="import", cls=_Importers)
def import_() -> None:
    """Convert another system's configuration to a policy file."""


@import_.command()
@click.argument("file", type=click.Path(readable=False))
@output_file
def strimzi(file: str, output: Path | None) -> None:
    """Convert the properties of Strimzi's quota plugin to a policy file.

    FILE is a .properties file, such as a Kafka broker's server.properties. Comments in the result explain
    how each property was converted, and why some were not. The exit code is 2 if the file cannot be used.
    """
    with refusing(file):
        imported = import_strimzi(read_text(file), file)
        write_policies(output, imported.text, imported.taken, imported.left_out)


def _systems() -> list[str]:
    """Kinds of brokers that tell their own limits."""
    from sluicegate.cli.import_broker import systems

    return systems()
