"""`sluicegate plugins`."""

import os

import click

from sluicegate.cli.aligning import aligned
from sluicegate.cli.opening import plugins_for
from sluicegate.cli.options import plugins_file
from sluicegate.output import echo
from sluicegate.runtime.plugins import PluginInfo


@click.group()
def plugins() -> None:
    """Show the loaded plugins."""


@plugins.command(name="list")
@plugins_file
def list_(file: str | None) -> None:
    """List the plugins: name, version, origin, and the hooks that each implements.

    Installed plugins are found by the entry point group `sluicegate.plugins`. SLUICEGATE_LOAD_PLUGINS limits
    them to the names that it lists, separated by commas. A plugin whose extra is not installed is skipped;
    the lines below the table show what it needs and how to install it.
    """
    loaded = plugins_for(file, os.environ)
    echo(*table(loaded.overview()))
    for absent in loaded.left_out.values():
        echo(f"left out: {absent.plugin}: {absent.explanation}")


def table(plugins: list[PluginInfo]) -> list[str]:
    """Format the plugins as the lines of a table."""
    rows = [("plugin", "version", "from", "hooks")]
    rows += [(info.name, info.version or "-", info.origin, ", ".join(info.hooks)) for info in plugins]
    return aligned(rows)
