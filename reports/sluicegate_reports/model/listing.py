"""Lists the files of a directory once, and reads the names of a log's files."""

from collections.abc import Iterable
from dataclasses import dataclass
from itertools import dropwhile
from typing import TypeAlias

from sluicegate.decisions.spool import SPOOL_SUFFIX
from sluicegate_reports.model.locations import File, Location, LocationError, LocationLike, locate, one_line

_TABLE_LOG = "_delta_log"
"""Folder of a compacted log that holds a Delta table's own log."""


@dataclass(frozen=True, slots=True)
class Listing:
    """A folder with all files that were in it, at any depth."""

    folder: Location
    files: tuple[File, ...]
    """In order."""
    others: tuple[Location, ...] = ()
    """Folders of further logs, whose files are among these."""

    def __str__(self) -> str:
        more = len(self.others)
        return f"{self.folder} and {more} more log{'s' * (more > 1)}" if more else str(self.folder)

    @property
    def size(self) -> int:
        """Of all files, in bytes."""
        return sum(file.size for file in self.files)

    def within(self, name: str) -> "Listing":
        """The listing of a folder in it."""
        folder = self.folder / name
        return Listing(
            folder, tuple(file for file in self.files if file.location.url.startswith(f"{folder.url}/"))
        )

    def name(self, file: Location) -> str:
        """A file's path in its log, which is the same wherever the log lies."""
        logs = (log for log in (self.folder, *self.others) if file.url.startswith(f"{log.url}/"))
        return file.relative_to(next(logs))


Listed: TypeAlias = LocationLike | Listing
"""A folder, whether or not its files are known."""


def listing(folder: Listed) -> Listing:
    """List a folder that is not listed yet; a missing one has no files. A Delta table's own log is left out.

    :raises LocationError: if it cannot be listed.
    """
    if isinstance(folder, Listing):
        return folder
    where = locate(folder).absolute()
    try:
        files = where.files()
    except OSError as error:
        raise LocationError(f"cannot list {where}: {one_line(error)}") from None
    own = (where / _TABLE_LOG).url + "/"
    return Listing(where, tuple(file for file in files if not file.location.url.startswith(own)))


def with_files_of(folder: Listed, others: Iterable[Listed]) -> Listing:
    """The listing of a folder, with the files of others, each once.

    :raises LocationError: if one of them cannot be listed.
    """
    own = listing(folder)
    further = [listing(each) for each in others]
    files = {file.location: file for each in (own, *further) for file in each.files}
    return Listing(own.folder, tuple(files.values()), tuple(each.folder for each in further))


def is_table(folder: Location) -> bool:
    """Whether a compacted log is also a Delta table.

    :raises LocationError: if a store does not answer.
    """
    try:
        return (folder / _TABLE_LOG).exists()
    except OSError as error:
        raise LocationError(f"cannot list {folder}: {one_line(error)}") from None


def is_finished(file: Location) -> bool:
    """Whether a file's name is that of a finished one of a log or of observations."""
    return file.name.startswith("part-") and file.suffix == ".parquet"


def is_spool(file: Location) -> bool:
    """Whether the name is that of a file that a gateway is still writing."""
    return file.name.startswith(".") and file.name.endswith(SPOOL_SUFFIX)


def is_followed(file: Location, name: str) -> bool:
    """Whether it is a finished file of a gateway's log or of a compacted one, where these have them.

    Logs of several gateways may lie in folders of their own.

    :param name: its path in the log.
    """
    folders = dropwhile(lambda part: "=" not in part, name.split("/")[:-1])
    laid_out = [part.partition("=")[0] for part in folders] in (["run", "system"], ["run", "system", "date"])
    return laid_out and is_finished(file)
