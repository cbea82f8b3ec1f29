"""`sluicegate report`: compare a recorded run, render earlier results, analyse a decision log.

Exit codes: 0 done, 1 a threshold of --fail-on is not passed, 2 wrong use, or something that cannot be read.
"""

import importlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

import click

from sluicegate.output import echo_json
from sluicegate_reports import registry
from sluicegate_reports.commands import analyses, output
from sluicegate_reports.commands.archive import archive_classes
from sluicegate_reports.commands.diff import diff, read_results, trend
from sluicegate_reports.commands.fail_on import Wanted, option
from sluicegate_reports.commands.locations import FILE, FOLDER, further_logs
from sluicegate_reports.commands.usage import Unusable, not_installed, part, spark
from sluicegate_reports.model.listing import listing
from sluicegate_reports.model.locations import Location, LocationError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate_reports.model.results import Results


@click.group()
def report() -> None:
    """Evaluate what was recorded: comparison runs and decision logs."""
    try:
        registry.check()
    except registry.RegistryError as error:
        raise Unusable(str(error)) from None


@report.command("compare")
@click.argument("directory", type=FOLDER, metavar="DIR")
@further_logs
@click.option("--spark", "by_spark", is_flag=True, help="Compare by Spark, however small the run is.")
@output.options
@option
def compare(
    directory: Location,
    logs: tuple[Location, ...],
    by_spark: bool,
    out: Location | None,
    form: str | None,
    fail_on: tuple[Wanted, ...],
) -> None:
    """Compare the recorded run in DIR, and report the results.

    DIR is what `sluicegate compare run` wrote: run.json, decisions and observations, or with --repeat several
    such directories, which are reported as medians with intervals. It is a path, or a URL such as
    s3a://BUCKET/RUN. A run of up to 32 MiB of files on this machine is compared by this process. A larger one
    is compared by Spark, and so is any if SPARK_REMOTE, MASTER, spark-submit or spark-defaults say where
    Spark runs. On this machine it needs Java 17.
    """
    chosen = output.chosen(out, form)
    output.deliver(_compared(directory, logs, by_spark=by_spark), out, chosen, fail_on)


@report.command("render")
@click.argument("results_file", type=FILE, metavar="RESULTS.json")
@output.options
@option
def render(
    results_file: Location, out: Location | None, form: str | None, fail_on: tuple[Wanted, ...]
) -> None:
    """Report earlier results again; needs neither Spark nor Java.

    RESULTS.json is what a command of `sluicegate report` wrote with `--format json`.
    """
    chosen = output.chosen(out, form)
    output.deliver(read_results(results_file), out, chosen, fail_on)


def _compared(directory: Location, logs: Sequence[Location], *, by_spark: bool) -> "Results":
    """Run the job.

    :raises Unusable: without what it needs, or if the directory holds no run.
    """
    try:
        from sluicegate_reports.model.repetitions import repetitions
        from sluicegate_reports.model.runs import RunError
        from sluicegate_reports.spark.session import is_little, is_placed

        job = importlib.import_module("sluicegate_reports.jobs.compare")
        further = [listing(log) for log in logs]
        repeated = repetitions(directory)  # a directory without a run is reported before Java is needed
    except ModuleNotFoundError as error:
        raise Unusable(
            f"{not_installed(error).message}; `sluicegate report render RESULTS.json` works without it"
        ) from None
    except (RunError, LocationError) as error:
        raise Unusable(str(error)) from None
    little = is_little(sum(each.size for each in (*repeated.directories, *further)))
    is_local = all(each.is_local for each in (directory, *logs))
    alone = little and is_local and not (by_spark or is_placed() or registry.needs_spark())
    with _where("sluicegate report compare", directory, *logs, alone=alone, little=little) as session:
        try:
            return repeated.together(
                [job.compare_run(session, each, further) for each in repeated.directories]
            )
        except (RunError, LocationError) as error:
            raise Unusable(str(error)) from None


@contextmanager
def _where(name: str, *locations: Location, alone: bool, little: bool) -> "Iterator[SparkSession | None]":
    """Where it is computed: in Spark, or alone in this process, which takes less time than to start Spark."""
    if not alone:
        with spark(name, *locations, little=little, frugal=True) as session:
            yield session
        return
    from sluicegate_reports.spark.progress import working

    with working("compare"):
        yield None


@report.command("schema")
def schema() -> None:
    """Print the JSON Schema of results, as `--format json` writes them; needs neither Spark nor Java."""
    echo_json(part("model.json_schema").json_schema())


for _command in (diff, trend, archive_classes, *analyses.COMMANDS):
    report.add_command(_command)
