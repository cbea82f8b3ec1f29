"""`sluicegate plugins`."""

import os

import click

from sluicegate.config.load import plugin_modules
from sluicegate.gateway.plugins import PluginError, PluginInfo, load_plugins


@click.group()
def plugins() -> None:
    """See what is loaded."""


@plugins.command(name="list")
@click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Also load the plugins that this file names.",
)
def list_(file: str | None) -> None:
    """List the plugins: name, version, where each came from, and the hooks that it implements.

    Installed plugins are found by the entry point group `sluicegate.plugins`; SLUICEGATE_LOAD_PLUGINS
    narrows them down to the names in it, separated by commas. A plugin whose extra is not installed is left
    out; the lines below the table say what each of these lacks and how to install it.
    """
    try:
        found = load_plugins(plugin_modules(file, os.environ) if file else ())
    except PluginError as error:
        raise click.ClickException(str(error)) from None
    click.echo(table(found.overview()))
    for absent in found.left_out.values():
        click.echo(f"left out: {absent.plugin}: {absent.told}")


def table(plugins: list[PluginInfo]) -> str:
    """Lines for a terminal, without the final line end."""
    rows = [("plugin", "version", "from", "hooks")]
    rows += [(info.name, info.version or "-", info.origin, ", ".join(info.hooks)) for info in plugins]
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    return "\n".join(
        "  ".join([*(cell.ljust(width) for cell, width in zip(row, widths, strict=False)), row[3]]).rstrip()
        for row in rows
    )
