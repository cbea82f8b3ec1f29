"""Where a report goes and in which form: the options of all commands that make one."""

from collections.abc import Callable
from typing import TypeVar

import click

from sluicegate_reports.locations import NEW_FILE
from sluicegate_reports.places import Place

FORMATS = ("html", "json", "markdown", "terminal")
_SUFFIXES = {".html": "html", ".htm": "html", ".json": "json", ".md": "markdown", ".txt": "terminal"}

_Command = TypeVar("_Command", bound=Callable[..., object])


def options(command: _Command) -> _Command:
    """The options `--out` and `--format`, which a command takes as `out` and `form`."""
    for option in (
        click.option(
            "--format",
            "form",
            type=click.Choice(FORMATS),
            help="What to write. By default what the ending of --out says (.html, .json, .md, .txt); "
            "without --out, terminal.",
        ),
        click.option(
            "--out",
            type=NEW_FILE,
            help="File to write to; the summary is printed too. Without it the report itself is printed.",
        ),
    ):
        command = option(command)
    return command


def chosen(out: Place | None, form: str | None) -> str:
    """The form to write, known before anything long begins.

    :raises click.UsageError: if neither says one, or the file could not be written where it is to lie.
    """
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
