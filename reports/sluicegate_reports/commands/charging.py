"""`sluicegate report usage`: who used how much of a log. Needs neither Spark nor Java."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from datetime import date, datetime
from typing import TYPE_CHECKING

import click

from sluicegate_reports.commands import output
from sluicegate_reports.commands.locations import FOLDER, NEW_FILE, further_logs, together
from sluicegate_reports.commands.usage import Unusable, part
from sluicegate_reports.model.locations import Location, one_line

if TYPE_CHECKING:
    import pyarrow as pa

_DATE = click.DateTime(["%Y-%m-%d"])


@click.command("usage")
@click.argument("log", type=FOLDER, metavar="LOG")
@further_logs
@click.option("--since", type=_DATE, metavar="DATE", help="First day, in UTC; by default that of the log.")
@click.option(
    "--before", type=_DATE, metavar="DATE", help="Day after the last one; by default all of the log."
)
@click.option(
    "--csv", "csv_file", type=NEW_FILE, metavar="FILE", help="Write all rows as CSV, for spreadsheets."
)
@click.option("--parquet", type=NEW_FILE, metavar="FILE", help="Write all rows as Parquet.")
@click.option(
    "--service-level",
    type=NEW_FILE,
    metavar="FILE",
    help="Write in how many seconds limits were kept and how long holds took, by month, as CSV.",
)
@click.option(
    "--burst-seconds",
    type=click.FloatRange(0, min_open=True),
    metavar="N",
    default=1.0,
    show_default=True,
    help="The policies' burst_seconds, which a log does not tell.",
)
@output.options
def usage(
    log: Location,
    logs: tuple[Location, ...],
    since: datetime | None,
    before: datetime | None,
    csv_file: Location | None,
    parquet: Location | None,
    service_level: Location | None,
    burst_seconds: float,
    out: Location | None,
    form: str | None,
) -> None:
    """Sum LOG by day, topic and principal: messages, bytes, what was refused and what was held.

    The report has the sums by day, principal, namespace and topic, and who was refused or held most. The
    files of --csv and --parquet have a row for each day, gateway, topic and principal.
    """
    chosen = output.chosen(out, form)
    job = part("jobs.usage")
    try:
        with _written(csv_file, parquet) as write:
            summed = job.usage(together(log, logs), _day(since), _day(before), write, burst_seconds)
        if service_level is not None:
            _write_level(summed.level, service_level)
    except job.UsageError as error:
        raise Unusable(str(error)) from None
    except OSError as error:
        raise Unusable(one_line(error)) from None
    output.deliver(job.findings(summed), out, chosen)


def _day(time: datetime | None) -> date | None:
    return time.date() if time is not None else None


def _write_level(level: "pa.Table", location: Location) -> None:
    from sluicegate_reports.render.delimited import csv_writer

    with location.written() as file, csv_writer(file, level.schema) as write:
        write(level)


@contextmanager
def _written(csv_file: Location | None, parquet: Location | None) -> "Iterator[Callable[[pa.Table], None]]":
    """What writes rows to the files that are wanted; they appear when the block has ended."""
    import pyarrow.parquet as pq

    from sluicegate_reports.jobs.usage import USAGE
    from sluicegate_reports.render.delimited import csv_writer

    with ExitStack() as stack:
        writes: list[Callable[[pa.Table], None]] = []
        if csv_file is not None:
            file = stack.enter_context(csv_file.written())
            writes.append(stack.enter_context(csv_writer(file, USAGE)))
        if parquet is not None:
            file = stack.enter_context(parquet.written())
            writes.append(stack.enter_context(pq.ParquetWriter(file, USAGE, compression="zstd")).write_table)

        def write(table: "pa.Table") -> None:
            for each in writes:
                each(table)

        yield write
