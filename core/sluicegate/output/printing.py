"""Prints lines, documents and JSON."""

import json
from typing import Any

import click

from sluicegate.model import visible, visible_json


def echo(*lines: str, err: bool = False) -> None:
    """Print lines. A line end within one is escaped, so that no name makes a line of its own.

    :param err: print to standard error.
    """
    for line in lines:
        click.echo(visible(line), err=err)  # noqa: TID251 - the one place


def echo_document(text: str, *, err: bool = False) -> None:
    """Print a text of several lines, such as a policy file; what is in a line must be escaped already."""
    click.echo(visible(text.removesuffix("\n"), keep="\n\t"), err=err)  # noqa: TID251 - the one place


def echo_json(value: Any) -> None:
    """Print a value as JSON, indented."""
    click.echo(visible_json(json.dumps(value, indent=2)))  # noqa: TID251 - the one place
