"""`sluicegate report`: compare a recorded run, render earlier results, analyse a decision log.

Exit codes: 0 done, 1 a threshold of --fail-on is not passed, 2 wrong use, or something that cannot be read.
"""

import importlib
from collections.abc import Callable
from typing import TYPE_CHECKING, TypeVar

import click

from sluicegate_reports import diff_command, log_commands, output, registry
from sluicegate_reports.fail_on import Wanted, option
from sluicegate_reports.locations import FILE, FOLDER
from sluicegate_reports.places import Place, PlaceError
from sluicegate_reports.usage import Unusable, failures, for_stores, need_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate_reports.listing import Listing
    from sluicegate_reports.results import Results

_Command = TypeVar("_Command", bound=Callable[..., object])


def _options(command: _Command) -> _Command:
    """What both commands take."""
    return output.options(option(command))


@click.group()
def report() -> None:
    """Compare how systems enforced the same policies."""
    try:
        registry.check()
    except registry.RegistryError as error:
        raise Unusable(str(error)) from None


@report.command("compare")
@click.argument("directory", type=FOLDER, metavar="DIR")
@_options
def compare(directory: Place, out: Place | None, form: str | None, fail_on: tuple[Wanted, ...]) -> None:
    """Compare the recorded run in DIR with Spark, and report what was found.

    DIR is what `sluicegate compare run` wrote: run.json, decisions and observations, or with --repeat several
    such directories, of which medians and intervals are told. It is a path, or a URL such as s3a://BUCKET/RUN.
    Spark runs where SPARK_REMOTE, spark-submit or spark-defaults say, otherwise on this machine, which then
    needs Java 17.
    """
    chosen = output.chosen(out, form)
    output.deliver(_compared(directory), out, chosen, fail_on)


@report.command("render")
@click.argument("results_file", type=FILE, metavar="RESULTS.json")
@_options
def render(results_file: Place, out: Place | None, form: str | None, fail_on: tuple[Wanted, ...]) -> None:
    """Report earlier results again; needs neither Spark nor Java.

    RESULTS.json is what a command of `sluicegate report` wrote with `--format json`.
    """
    chosen = output.chosen(out, form)
    output.deliver(diff_command.read_results(results_file), out, chosen, fail_on)


def _compared(directory: Place) -> "Results":
    """Run the job.

    :raises Unusable: without Spark or Java, or if the directory holds no run.
    """
    try:
        from sluicegate_reports.progress import working
        from sluicegate_reports.repetitions import repetitions
        from sluicegate_reports.runs import RunError
        from sluicegate_reports.session import is_little, spark_session

        compare_run = _job()
        repeated = repetitions(directory)  # a directory without a run is reported before Java is needed
        need_java()
        little = is_little(sum(each.size for each in repeated.directories))
        name = "sluicegate report compare"
        session = spark_session(name, for_stores(directory), little=little, frugal=True)
    except ModuleNotFoundError as error:
        raise Unusable(
            f"{error.name} is not installed: pip install 'sluicegate[reports]'; "
            "`sluicegate report render RESULTS.json` works without it"
        ) from None
    except (RunError, PlaceError) as error:
        raise Unusable(str(error)) from None
    try:
        with failures(), working("comparing"):
            return repeated.together([compare_run(session, each) for each in repeated.directories])
    except RunError as error:
        raise Unusable(str(error)) from None
    finally:
        session.stop()


def _job() -> "Callable[[SparkSession, Listing], Results]":
    """The job, a function of a session and of a run's directory."""
    job: Callable[[SparkSession, Listing], Results]
    job = importlib.import_module("sluicegate_reports.jobs.compare").compare_run
    return job


for _command in (diff_command.diff, *log_commands.COMMANDS):
    report.add_command(_command)


def groups() -> list[click.Command]:
    """The commands that this room adds."""
    return [report]
