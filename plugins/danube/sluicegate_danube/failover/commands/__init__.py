"""`sluicegate danube failover`: run the controller, look at the cluster, move topics by hand."""

import click

from sluicegate_danube.failover.commands.reassign import reassign
from sluicegate_danube.failover.commands.run import run
from sluicegate_danube.failover.commands.status import status

__all__ = ["groups"]


def groups() -> list[click.Command]:
    """The commands, below `sluicegate danube`."""
    failover = click.Group("failover", help="Move topics of dead Danube brokers to live ones.")
    for command in (run, status, reassign):
        failover.add_command(command)
    danube = click.Group("danube", help="What Danube clusters need besides a gateway.")
    danube.add_command(failover)
    return [danube]
