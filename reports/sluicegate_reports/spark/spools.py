"""Finds what a log has in any state of its directory: finished files, and spools that are still written."""

from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import pyarrow.parquet as pq

from sluicegate.decisions.spool import DecisionLogError, parquet_path
from sluicegate_reports.model.listing import Listed, is_spool, listing
from sluicegate_reports.model.locations import File, Location, one_line
from sluicegate_reports.spark.log_files import DECISIONS, Form, LeftOut, inspected

_Taken = TypeVar("_Taken")


def whole_files(
    directory: Listed, form: Form, look: Callable[[pq.ParquetFile], _Taken], read: Callable[[Path], int]
) -> tuple[dict[Location, _Taken], list[LeftOut]]:
    """Read the spools of a log, and look at its finished files.

    :param look: what is read of a finished file, see `inspected`.
    :param read: reads a spool up to its last whole batch, and returns the number of rows. It may raise
        FileNotFoundError and DecisionLogError before there is a row, and OSError.
    :return: the finished files that are whole, and what is left out.
    :raises LocationError: if the directory cannot be listed, or a store does not give a file.
    """
    left_out: list[LeftOut] = []
    files = listing(directory).files
    finished = [file for file in files if not is_spool(file.location)]
    for file in files:
        if not is_spool(file.location):
            continue
        # One that has become Parquet since it was listed is read as that, once.
        taken = _became(file.location) is None and take_spool(file, form, read, left_out)
        became = None if taken else _became(file.location)
        if became is not None and became not in {other.location for other in finished}:
            finished.append(File(became, became.path.stat().st_size))
    looks = inspected(finished, form, look)
    left_out += [each for each in looks if isinstance(each, LeftOut)]
    both = zip(finished, looks, strict=True)
    return {file.location: each for file, each in both if not isinstance(each, LeftOut)}, left_out


def take_spool(file: File, form: Form, read: Callable[[Path], int], left_out: list[LeftOut]) -> bool:
    """Read a spool, or record why not; False if it no longer exists."""
    if not file.location.is_local:
        left_out.append(LeftOut(file.location, "is a spool: it is read only on the machine that wrote it"))
        return True
    path = file.location.path
    if form is not DECISIONS:
        return True
    try:
        rows = read(path)
    except FileNotFoundError:
        return False
    except DecisionLogError as error:
        left_out.append(LeftOut(file.location, str(error)))
        return True
    except OSError as error:
        left_out.append(LeftOut(file.location, f"cannot be read: {one_line(error)}"))
        return True
    if not rows and path.stat().st_size:
        left_out.append(LeftOut(file.location, "holds no whole batch of rows yet, or no more"))
    return True


def _became(spool: Location) -> Location | None:
    """The finished file that a spool of this machine has become."""
    if not spool.is_local or not parquet_path(spool.path).exists():
        return None
    return Location(str(parquet_path(spool.path)))
