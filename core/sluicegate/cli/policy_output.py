"""Where `sluicegate import` writes policy files, and what it says."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import click

from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.output import echo, echo_document

BAD_SOURCE = 2
"""Exit code if what is to be converted cannot be used, or the result cannot be written."""
output_file = click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the policy file here instead of to standard output; it must not exist yet.",
)
"""The option of all conversions."""


@contextmanager
def refusing(source: str) -> Iterator[None]:
    """Report errors of what is converted, and exit with `BAD_SOURCE`.

    :param source: the name of it.
    """
    try:
        yield
    except ConfigErrors as refused:
        echo_document(refused.render(), err=True)
        echo("", f"{source}: nothing written", err=True)
        sys.exit(BAD_SOURCE)


def write_policies(output: Path | None, text: str, taken: int, left_out: int) -> None:
    """Write or print a policy file, and say how much was converted.

    :param taken: number of converted settings.
    :param left_out: number of others.
    :raises ConfigErrors: if it cannot be written.
    """
    if output is None:
        echo_document(text)
    else:
        _write(output, text)
    where = "" if output is None else f"{output}: "
    echo(f"{where}{taken} converted, {left_out} not", err=True)


def _write(output: Path, text: str) -> None:
    try:
        with output.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        problem = f"cannot write {str(output)!r}: {error.strerror}"
        remedy = "name a file that does not exist yet, in a directory that does"
        raise ConfigErrors([Finding(str(output), 0, 0, "", problem, remedy)]) from None
