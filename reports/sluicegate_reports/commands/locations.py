"""Arguments and options of commands that name a file or a folder, here or in a store."""

from collections.abc import Sequence
from typing import Any

import click

from sluicegate_reports.model.listing import Listed, with_files_of
from sluicegate_reports.model.locations import Location, locate


class LocationType(click.Path):
    """A local path, checked at once, or a URL, checked at its use; converts to a `Location`.

    :param folder: whether it names a folder; else a file.
    :param exists: whether it has to be there.
    """

    def __init__(self, *, folder: bool, exists: bool = True) -> None:
        super().__init__(exists=exists, file_okay=not folder, dir_okay=folder)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        """Convert an argument.

        :raises click.BadParameter: if a local path is unsuitable.
        """
        wanted = locate(value)
        if wanted.is_local:
            super().convert(wanted.url, param, ctx)
        return wanted


FOLDER = LocationType(folder=True)
FILE = LocationType(folder=False)
NEW_FOLDER = LocationType(folder=True, exists=False)
NEW_FILE = LocationType(folder=False, exists=False)

further_logs = click.option(
    "--log",
    "logs",
    type=FOLDER,
    multiple=True,
    metavar="LOG",
    help="Read this decision log too, as that of another gateway of the fleet; may be repeated.",
)
"""The option of commands that read the logs of several gateways as one."""


def together(log: Location, logs: Sequence[Location]) -> Listed:
    """A log with further ones, as one.

    :raises LocationError: if one of several cannot be listed.
    """
    return with_files_of(log, logs) if logs else log
