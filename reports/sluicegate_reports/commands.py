"""`sluicegate report`: compare a recorded run, show again what a comparison found, ask a decision log.

Exit codes: 0 done, 1 a threshold of --fail-on is not passed, 2 wrong use, or something that cannot be read.
"""

import importlib
import math
import re
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn, TypeAlias, TypeVar

import click

from sluicegate_reports import log_commands, output
from sluicegate_reports.usage import Unusable, need_java, write

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from sluicegate_reports.results import Results, Threshold

_FAIL_ON = re.compile(r"\s*([a-z][a-z0-9_]*)\s*(?:<=\s*(\S+)\s*)?")
_TEXT_WIDTH = 150

_Command = TypeVar("_Command", bound=Callable[..., object])
_Wanted: TypeAlias = tuple[str, float | None]
"""Name of a threshold, and its bound where it is not the report's own."""


def _read_fail_on(ctx: click.Context, param: click.Parameter, given: Sequence[str]) -> tuple[_Wanted, ...]:
    wanted: list[_Wanted] = []
    for text in given:
        found = _FAIL_ON.fullmatch(text)
        if found is None:
            _refuse(text, ctx, param)
        bound = found[2]
        try:
            value = None if bound is None else float(bound)
        except ValueError:
            _refuse(text, ctx, param)
        if value is not None and not math.isfinite(value):
            _refuse(text, ctx, param)
        wanted.append((found[1], value))
    return tuple(wanted)


def _refuse(text: str, ctx: click.Context, param: click.Parameter) -> NoReturn:
    raise click.BadParameter(
        f"{text!r} is no threshold: expected NAME, or in quotes 'NAME<=NUMBER', as in 'off_cells<=0'",
        ctx,
        param,
    )


def _options(command: _Command) -> _Command:
    """What both commands take."""
    fail_on = click.option(
        "--fail-on",
        metavar="NAME[<=VALUE]",
        multiple=True,
        callback=_read_fail_on,
        help="End with exit code 1 unless this threshold is passed; may be given several times. VALUE "
        "replaces its bound, in its own unit. Quote it: '<' means something to the shell.",
    )
    return output.options(fail_on(command))


@click.group()
def report() -> None:
    """Compare how systems enforced the same policies."""


@report.command("compare")
@click.argument("directory", type=click.Path(exists=True, file_okay=False, path_type=Path), metavar="DIR")
@_options
def compare(directory: Path, out: Path | None, form: str | None, fail_on: tuple[_Wanted, ...]) -> None:
    """Compare the recorded run in DIR with Spark, and report what was found.

    DIR is what `sluicegate compare run` wrote: run.json, decisions and observations. Spark runs where
    SPARK_REMOTE, spark-submit or spark-defaults say, otherwise on this machine, which then needs Java 17.
    """
    chosen = output.chosen(out, form)
    _deliver(_compared(directory), out, chosen, fail_on)


@report.command("render")
@click.argument(
    "results_file", type=click.Path(exists=True, dir_okay=False, path_type=Path), metavar="RESULTS.json"
)
@_options
def render(results_file: Path, out: Path | None, form: str | None, fail_on: tuple[_Wanted, ...]) -> None:
    """Report again what a comparison found; needs neither Spark nor Java.

    RESULTS.json is what `sluicegate report compare DIR --format json` wrote.
    """
    from sluicegate_reports.results import ResultsError, from_json

    chosen = output.chosen(out, form)
    try:
        results = from_json(results_file.read_bytes())
    except OSError as error:
        raise Unusable(f"cannot read {str(results_file)!r}: {error.strerror}") from None
    except ResultsError as error:
        raise Unusable(f"{str(results_file)!r}: {error}") from None
    _deliver(results, out, chosen, fail_on)


def _compared(directory: Path) -> "Results":
    """Run the job.

    :raises Unusable: without Spark or Java, or if the directory holds no run.
    """
    try:
        from sluicegate_reports.progress import working
        from sluicegate_reports.runs import RunError, read_run
        from sluicegate_reports.session import is_little, spark_session

        compare_run = _job()
        read_run(directory)  # what is no run is told at once, with Java or without
        need_java()
        session = spark_session("sluicegate report compare", little=is_little(directory))
    except ModuleNotFoundError as error:
        raise Unusable(
            f"{error.name} is not installed: pip install 'sluicegate[reports]'; "
            "`sluicegate report render RESULTS.json` works without it"
        ) from None
    except RunError as error:
        raise Unusable(str(error)) from None
    try:
        with working("comparing"):
            return compare_run(session, directory)
    except RunError as error:
        raise Unusable(str(error)) from None
    finally:
        session.stop()


def _job() -> "Callable[[SparkSession, Path], Results]":
    """The job, a function of a session and of a run's directory."""
    job: Callable[[SparkSession, Path], Results]
    job = importlib.import_module("sluicegate_reports.jobs.compare").compare_run
    return job


def _deliver(results: "Results", out: Path | None, form: str, fail_on: Sequence[_Wanted]) -> None:
    from sluicegate_reports.terminal import show

    results, decisive = _with_bounds(results, fail_on)
    if out is None and form == "terminal":
        show(results)
    elif out is None:
        click.echo(_rendered(results, form), nl=False)
    else:
        write(out, _rendered(results, form))
        show(results)
        click.echo(f"\nwritten to {out}")
    failed = [threshold for threshold in decisive if not threshold.passed]
    for threshold in failed:
        click.echo(f"failed: {_said(threshold)}", err=True)
    if failed:
        raise SystemExit(1)


def _with_bounds(results: "Results", fail_on: Sequence[_Wanted]) -> "tuple[Results, list[Threshold]]":
    """The results with the bounds that were asked for, and the thresholds that decide."""
    known = {threshold.name: threshold for threshold in results.thresholds}
    decisive: dict[str, Threshold] = {}
    for name, bound in fail_on:
        if name not in known:
            names = ", ".join(known) or "none"
            raise Unusable(f"--fail-on {name}: no such threshold; these results have: {names}")
        decisive[name] = known[name] if bound is None else known[name].against(bound)
    thresholds = tuple(decisive.get(threshold.name, threshold) for threshold in results.thresholds)
    return replace(results, thresholds=thresholds), list(decisive.values())


def _said(threshold: "Threshold") -> str:
    from sluicegate_reports.quantities import quantity

    measured = quantity(threshold.measured, threshold.unit)
    return f"{threshold.name} is {measured}, expected at most {quantity(threshold.bound, threshold.unit)}"


def _rendered(results: "Results", form: str) -> str:
    if form == "html":
        from sluicegate_reports.page import page

        return page(results)
    if form == "json":
        from sluicegate_reports.results import to_json

        return to_json(results).decode() + "\n"
    if form == "markdown":
        from sluicegate_reports.markdown import markdown

        return markdown(results)
    return _plain(results)


def _plain(results: "Results") -> str:
    """The summary for a file: no colours."""
    from io import StringIO

    from rich.console import Console

    from sluicegate_reports.terminal import show

    text = StringIO()
    show(results, Console(file=text, width=_TEXT_WIDTH, no_color=True, highlight=False, markup=False))
    return text.getvalue()


for _command in log_commands.COMMANDS:
    report.add_command(_command)


def groups() -> list[click.Command]:
    """The commands that this room adds."""
    return [report]
