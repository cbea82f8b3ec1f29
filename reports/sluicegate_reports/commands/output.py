"""Options that select the location and form of a report, shared by all commands that make one."""

from collections.abc import Callable, Sequence
from dataclasses import replace
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeVar

import click

from sluicegate.model import visible_json
from sluicegate.output import echo, echo_document
from sluicegate_reports.commands.fail_on import Wanted, decisive, end
from sluicegate_reports.commands.locations import NEW_FILE, NEW_FOLDER
from sluicegate_reports.commands.usage import Unusable, not_installed, write
from sluicegate_reports.model.locations import Location, one_line

if TYPE_CHECKING:
    from sluicegate_reports.model.results import Results

FORMATS = ("html", "json", "markdown", "terminal")
_SUFFIXES = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown", ".txt": "terminal"}

_Command = TypeVar("_Command", bound=Callable[..., object])


_FORMAT = click.option(
    "--format",
    "form",
    type=click.Choice(FORMATS),
    help="What to write. By default what the ending of --out says (.html, .json, .md, .txt); without --out, "
    "terminal.",
)
_OUT = click.option(
    "--out",
    type=NEW_FILE,
    help="File to write to; the summary is printed too. Without it the report itself is printed.",
)


_TABLES_KEY = "sluicegate.report.tables"


def _keep(context: click.Context, option: click.Parameter, value: object) -> None:
    """Remember a value for `deliver`, so that no command has to hand it on."""
    context.meta.setdefault(_TABLES_KEY, {})[option.name] = value


_TABLES = click.option(
    "--tables",
    type=NEW_FOLDER,
    metavar="DIR",
    expose_value=False,
    callback=_keep,
    help="Directory to write the matrix (cells) and all tables to, a Parquet file for each.",
)
_DELTA = click.option(
    "--delta",
    is_flag=True,
    expose_value=False,
    callback=_keep,
    help="Write --tables as Delta tables, which keep earlier versions; needs sluicegate[delta].",
)


def options(command: _Command) -> _Command:
    """The options `--out` and `--format`, which a command takes as `out` and `form`, and those of tables."""
    return _OUT(_FORMAT(_TABLES(_DELTA(command))))


def chosen(out: Location | None, form: str | None) -> str:
    """The form to write, determined before a long job starts.

    :raises click.UsageError: if neither option determines it, or the directory of the file does not exist;
        for --delta without --tables.
    :raises Unusable: for --delta where it is not installed.
    """
    _check_tables()
    if out is not None and out.is_local and not out.path.parent.is_dir():
        raise click.UsageError(
            f"--out {str(out)!r}: there is no directory {str(out.path.parent)!r}; make it first"
        )
    if form is not None:
        return form
    if out is None:
        return "terminal"
    if out.suffix.lower() not in _SUFFIXES:
        known = ", ".join(_SUFFIXES)
        raise click.UsageError(
            f"--out {str(out)!r}: its ending names no format; expected one of {known}, or --format"
        )
    return _SUFFIXES[out.suffix.lower()]


def deliver(results: "Results", out: Location | None, form: str, fail_on: Sequence[Wanted] = ()) -> None:
    """Print the results, or write them to a file and print the summary; then apply the thresholds.

    :param form: see `chosen`.
    :raises SystemExit: with 1, if a threshold of `fail_on` is not passed.
    :raises Unusable: if there is no such threshold, or the file cannot be written.
    """
    from sluicegate_reports.render.terminal import show

    deciding = decisive(results.thresholds, fail_on)
    bounded = tuple(deciding.get(threshold.name, threshold) for threshold in results.thresholds)
    results = replace(results, thresholds=bounded)
    if out is None and form != "terminal":
        echo_document(rendered(results, form))
    else:
        if out is not None:
            write(out, rendered(results, form))
        show(results)
        if out is not None:
            echo("", f"written to {out}")
    _write_tables(results)
    end(list(deciding.values()))


def _tables() -> tuple[Location | None, bool]:
    """The directory for tables, and whether they are to be Delta tables."""
    options = click.get_current_context().meta.get(_TABLES_KEY, {})
    return options.get("tables"), bool(options.get("delta"))


def _check_tables() -> None:
    folder, delta = _tables()
    if delta and folder is None:
        raise click.UsageError("--delta says how --tables are written: give a directory with --tables")
    if delta and find_spec("deltalake") is None:
        raise not_installed(ModuleNotFoundError(name="deltalake"), "delta")


def _write_tables(results: "Results") -> None:
    folder, delta = _tables()
    if folder is None:
        return
    from sluicegate_reports.render.parquet import write_tables

    try:
        names = write_tables(results, folder, delta=delta)
    except OSError as error:
        raise Unusable(f"cannot write to {str(folder)!r}: {one_line(error)}") from None
    echo("", f"{len(names)} tables written to {folder}: {', '.join(names)}", err=True)


def rendered(results: "Results", form: str) -> str:
    """The report in one of the forms; the terminal's form is without colours."""
    if form == "html":
        from sluicegate_reports.render.page import page

        return page(results)
    if form == "json":
        from sluicegate_reports.model.results import to_json

        return visible_json(to_json(results).decode()) + "\n"
    if form == "markdown":
        from sluicegate_reports.render.markdown import markdown

        return markdown(results)
    from sluicegate_reports.render.terminal import as_text

    return as_text(results)
