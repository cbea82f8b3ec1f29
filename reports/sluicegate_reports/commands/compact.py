"""`sluicegate report compact`: compact a decision log by day. Needs neither Spark nor Java."""

from collections.abc import Callable
from typing import TYPE_CHECKING

import click

from sluicegate.output import echo
from sluicegate_reports.commands.locations import FOLDER, NEW_FOLDER
from sluicegate_reports.commands.usage import Unusable, not_installed, part
from sluicegate_reports.model.listing import is_table
from sluicegate_reports.model.locations import Location, one_line

if TYPE_CHECKING:
    from sluicegate_reports.spark.delta_table import Recorded


@click.command("compact")
@click.argument("log", type=FOLDER, metavar="LOG")
@click.option(
    "--to",
    "target",
    type=NEW_FOLDER,
    metavar="DIR",
    required=True,
    help="Where the copy is, a path or a URL; made if it does not exist. One call at a time.",
)
@click.option(
    "--before",
    type=click.DateTime(["%Y-%m-%d"]),
    metavar="DATE",
    help="Copy the days before this one, in UTC; today by default, as it is not over.",
)
@click.option(
    "--delta",
    is_flag=True,
    help="Make DIR a Delta table, which later calls keep up. Needs the extra `delta`.",
)
def compact(log: Location, target: Location, before: object, *, delta: bool) -> None:
    """Copy the days that are over of the decision log LOG into few large files, by run, system and date.

    LOG stays as it is. Each call copies what earlier calls have not; an interrupted one can be repeated.
    Every command that reads a log reads the copy.
    """
    from datetime import datetime

    compaction = part("spark.compaction")
    source, copy = log.absolute(), target.absolute()
    if f"{copy.url}/".startswith(f"{source.url.rstrip('/')}/"):
        raise click.UsageError(f"--to {str(target)!r} is within {str(log)!r}: rows would be read twice")
    day = before.date() if isinstance(before, datetime) else None
    try:
        record = _recorder() if delta or is_table(copy) else None
        done = compaction.compact(source, copy, day)
        recorded = record(copy) if record else None
    except OSError as error:
        raise Unusable(one_line(error)) from None
    for left in done.left_out:
        echo(f"{left.path} is left out: it {left.reason}", err=True)
    echo(f"{done.rows:,} rows of {len(done.sources):,} files are now in {len(done.written):,} files")
    if recorded is not None and recorded.files:
        echo(f"the Delta table has {recorded.files:,} files more, in version {recorded.version}")


def _recorder() -> "Callable[[Location], Recorded]":
    """Keeps the Delta table; loaded before anything is written, as its library may be missing."""
    try:
        from sluicegate_reports.spark.delta_table import record
    except ModuleNotFoundError as error:
        raise not_installed(error, "delta") from None
    return record
