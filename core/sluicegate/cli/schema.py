"""`sluicegate schema`."""

import os

import click

from sluicegate.cli.opening import plugins_for
from sluicegate.cli.options import plugins_file
from sluicegate.config.json_schema import json_schema
from sluicegate.output import echo_json


@click.command()
@plugins_file
def schema(file: str | None) -> None:
    """Print the JSON Schema (draft 2020-12) of the configuration file, including plugins' fields."""
    plugins = plugins_for(file, os.environ)
    echo_json(json_schema(plugins.policy_models, plugins.broker_models))
