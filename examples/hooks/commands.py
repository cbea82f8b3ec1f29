"""Command `sluicegate last-refusal STATE_DIR CLIENT`."""

import click

from sluicegate.api import explain_last, hookimpl


@click.command("last-refusal")
@click.argument("state_dir")
@click.argument("client")
def last_refusal(state_dir, client):
    """Say what was last refused to CLIENT."""
    click.echo(explain_last(state_dir, client))


@hookimpl
def sluicegate_commands():
    return [last_refusal]
