"""`sluicegate plugins`."""

import os
import shlex
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from sluicegate.cli.aligning import aligned
from sluicegate.cli.asking import look_for
from sluicegate.cli.new_plugin import KINDS, make_distribution
from sluicegate.cli.opening import plugins_for
from sluicegate.cli.options import plugins_file
from sluicegate.output import echo
from sluicegate.runtime.plugins import PluginInfo

PLUGINS = "/api/v1/plugins"


@click.group()
def plugins() -> None:
    """Show the loaded plugins, and make new ones."""


@plugins.command(name="list")
@plugins_file
@click.option("--timing", is_flag=True, help="Show how long calls of plugins take in the running gateway.")
def list_(file: str | None, timing: bool) -> None:
    """List the plugins: name, version, origin, and the hooks that each implements.

    Installed plugins are found by the entry point group `sluicegate.plugins`. SLUICEGATE_LOAD_PLUGINS limits
    them to the names that it lists, separated by commas. A plugin whose extra is not installed is skipped;
    the lines below the table show what it needs and how to install it.

    --timing asks the gateway that runs with the file (gateway.yaml if none is given). The mean of a check is
    that of one call in 64, the longest that of all. The product's own checks are not timed.
    """
    if timing:
        looked = look_for(file or "gateway.yaml")
        if looked.gateway is None:
            raise click.ClickException(f"{looked.reason}: start one, or name its file by -c")
        echo(*timing_table(looked.gateway.ask_json("GET", f"{PLUGINS}?limit=1000")["plugins"]))
        return
    loaded = plugins_for(file, os.environ)
    echo(*table(loaded.overview()))
    for absent in loaded.left_out.values():
        echo(f"left out: {absent.plugin}: {absent.explanation}")


@plugins.command()
@click.argument("name")
@click.option(
    "--kind",
    type=click.Choice(list(KINDS)),
    default="policy",
    show_default=True,
    help="What the plugin adds.",
)
def new(name: str, kind: str) -> None:
    """Make the distribution of a new plugin in the directory NAME, with tests that pass.

    It holds an example of its KIND, to be replaced: the plugin's module, its tests, and a `pyproject.toml`
    with the entry point by which `sluicegate` finds it once it is installed.
    """
    directory = make_distribution(name, kind, Path())
    echo(
        f"{directory} holds a plugin of kind {kind}",
        f"$ cd {shlex.quote(str(directory))}",
        "$ pip install -e . && pytest",
    )


def table(plugins: list[PluginInfo]) -> list[str]:
    """Format the plugins as the lines of a table."""
    rows = [("plugin", "version", "from", "hooks")]
    rows += [(info.name, info.version or "-", info.origin, ", ".join(info.hooks)) for info in plugins]
    return aligned(rows)


def timing_table(plugins: Sequence[Mapping[str, Any]]) -> list[str]:
    """Format what the admin API answers about plugins as the lines of a table."""
    rows = [("plugin", "broker", "call", "mean", "longest", "sampled", "faults")]
    for row in plugins:
        known = row["plugin"], row["broker"]
        for each in row["calls"] or [{"call": "-"}]:
            times = (f"{each[key]:.1f} us" if key in each else "-" for key in ("mean_us", "longest_us"))
            rows.append((*known, each["call"], *times, str(each.get("sampled", "-")), str(row["faults"])))
    return aligned(rows)
