"""Reports as a plugin: loaded through the entry point group `sluicegate.plugins`."""

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

from sluicegate import hookimpl

if TYPE_CHECKING:
    import click


@hookimpl
def sluicegate_commands() -> "Sequence[click.Command]":
    """Offer `sluicegate report` and `sluicegate compare`."""
    from sluicegate_reports.commands.group import report
    from sluicegate_reports.runner.command import compare

    return [report, compare]


@hookimpl
def sluicegate_demo(directory: Path, systems: Sequence[str], plain: bool) -> Sequence[str]:
    """End the demo with a comparison of the systems."""
    from sluicegate_reports.commands.demo import show

    return show(directory, systems, plain)
