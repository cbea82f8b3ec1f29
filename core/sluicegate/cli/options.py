"""Options that several commands have."""

import click

config_file = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(readable=False),  # the reader names the reason and a remedy
    metavar="FILE",
    default="gateway.yaml",
    show_default=True,
    help="Configuration file.",
)
"""The option of all commands that need a file."""

plugins_file = click.option(
    "-c",
    "--config",
    "file",
    type=click.Path(exists=True, dir_okay=False),
    metavar="FILE",
    help="Also load the plugins that this file lists.",
)
"""The option of commands that need of a file only its plugins."""
