"""`sluicegate schema`."""

import json
import os

import click

from sluicegate.cli.opening import plugins_for
from sluicegate.config.json_schema import json_schema


@click.command()
@click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Also load the plugins that this file lists.",
)
def schema(file: str | None) -> None:
    """Print the JSON Schema (draft 2020-12) of the configuration file, including plugins' fields."""
    plugins = plugins_for(file, os.environ)
    click.echo(json.dumps(json_schema(plugins.policy_models, plugins.broker_models), indent=2))
