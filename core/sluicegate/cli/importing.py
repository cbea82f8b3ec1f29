"""`sluicegate import`: converts other systems' configuration to policy files."""

import sys
from pathlib import Path

import click

from sluicegate.config.errors import ConfigErrors, Finding
from sluicegate.config.load import read_text
from sluicegate.features.storage_quota.strimzi import import_strimzi
from sluicegate.output import echo, echo_document

_BAD_FILE = 2


@click.group(name="import")
def import_() -> None:
    """Convert another system's configuration to a policy file."""


@import_.command()
@click.argument("file", type=click.Path(readable=False))
@click.option(
    "-o",
    "--output",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="Write the policy file here instead of to standard output; it must not exist yet.",
)
def strimzi(file: str, output: Path | None) -> None:
    """Convert the properties of Strimzi's quota plugin to a policy file.

    FILE is a .properties file, such as a Kafka broker's server.properties. Comments in the result explain
    how each property was converted, and why some were not. The exit code is 2 if the file cannot be used.
    """
    try:
        imported = import_strimzi(read_text(file), file)
        if output is not None:
            _write(output, imported.text)
    except ConfigErrors as refused:
        echo_document(refused.render(), err=True)
        echo("", f"{file}: nothing written", err=True)
        sys.exit(_BAD_FILE)
    if output is None:
        echo_document(imported.text)
    where = "" if output is None else f"{output}: "
    echo(f"{where}{imported.taken} converted, {imported.left_out} not", err=True)


def _write(output: Path, text: str) -> None:
    try:
        with output.open("x", encoding="utf-8") as stream:
            stream.write(text)
    except OSError as error:
        problem = f"cannot write {str(output)!r}: {error.strerror}"
        remedy = "name a file that does not exist yet, in a directory that does"
        raise ConfigErrors([Finding(str(output), 0, 0, "", problem, remedy)]) from None
