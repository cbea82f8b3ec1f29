"""`sluicegate danube failover status`."""

import click

from sluicegate_danube.failover import failover_state as state
from sluicegate_danube.failover.commands.options import json_option, show, store_option, with_store


@click.command()
@store_option
@json_option
def status(url: str, as_json: bool) -> None:
    """Show who leads, which brokers live, and what is wrong with topics and keys.

    It only reads. Topics without an owner, without a policy or a schema, with two owners or without any
    durable entry are named, and so are keys and values of no known shape.
    """
    said = with_store(url, state.status)
    show(said, state.lines(said), as_json=as_json)
