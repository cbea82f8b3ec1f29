"""Spools that nobody writes any more become zstd Parquet files, and old files are removed.

`python -m sluicegate.decisions.compaction DIRECTORY MAX_BYTES MAX_AGE_S` does it once, in a process that
lives for that only: Arrow takes more memory than all of a worker that decides.
"""

import os
import signal
import sys
import time
from collections.abc import Iterable, Iterator
from contextlib import ExitStack
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate.decisions.reading import record_batches
from sluicegate.decisions.schema import SCHEMA
from sluicegate.decisions.spool import DecisionLogError, locked, parquet_files, parquet_path, spools

IN_PROGRESS_SUFFIX = ".inprogress"
_ROW_GROUP_ROWS = 65_536
_NICE = 10
"""Traffic goes first."""


def tidy(directory: Path, max_bytes: int, max_age_s: float, now_s: float) -> list[str]:
    """Make Parquet of all spools that nobody writes any more, and remove old files.

    :param directory: the log's directory.
    :param max_bytes: of all Parquet files together; 0 for no bound.
    :param max_age_s: since a file was completed; 0 for no bound.
    :param now_s: seconds since 1970.
    :return: what went wrong; spools that could not be made into Parquet stay as they are.
    """
    faults = []
    for spool in spools(directory):
        try:
            compact(spool)
        except (OSError, pa.ArrowException, DecisionLogError) as error:
            faults.append(f"decision spool {spool} stays for now, no Parquet written: {error}")
    try:
        prune(directory, max_bytes, max_age_s, now_s)
    except OSError as error:
        faults.append(f"old decision files under {directory} cannot be removed: {error}")
    return faults


def compact(spool: Path) -> Path | None:
    """Turn a spool that nobody writes any more into a Parquet file, and remove it.

    :return: the Parquet file; None if the spool is in use, gone, or holds no whole batch.
    :raises OSError: if the Parquet file could not be written; the spool stays as it is.
    :raises DecisionLogError: if a later release wrote the spool; it stays as it is.
    """
    with locked(spool) as mine:
        if not mine:
            return None
        target = parquet_path(spool)
        if not target.exists():  # else the process died between renaming and removing
            rows = _write_parquet(spool, target)
            if not rows:
                spool.unlink()
                return None
        spool.unlink()
        return target


def prune(directory: Path, max_bytes: int, max_age_s: float, now_s: float) -> int:
    """Remove the oldest Parquet files until what remains is within both bounds.

    :param directory: the log's directory.
    :param max_bytes: of all Parquet files together; 0 for no bound.
    :param max_age_s: since a file was completed; 0 for no bound.
    :param now_s: seconds since 1970.
    :return: number of files removed.
    """
    files = sorted(_ages_and_sizes(parquet_files(directory)))
    total = sum(size for _, size, _ in files)
    removed = 0
    for modified, size, path in files:
        too_old = max_age_s and now_s - modified > max_age_s
        if not too_old and not (max_bytes and total > max_bytes):
            break
        path.unlink(missing_ok=True)
        total -= size
        removed += 1
        _remove_if_empty(path.parent, path.parent.parent)
    return removed


def main(arguments: list[str]) -> int:
    """Tidy one directory; what went wrong goes to standard error, a line each.

    :param arguments: directory, `max_bytes`, `max_age_s`.
    :return: exit code: 1 if anything went wrong.
    """
    directory, max_bytes, max_age_s = arguments
    faults = tidy(Path(directory), int(max_bytes), float(max_age_s), time.time_ns() / 1e9)
    sys.stderr.writelines(f"{fault}\n" for fault in faults)
    return 1 if faults else 0


def _write_parquet(spool: Path, target: Path) -> int:
    """Write a spool's whole batches to a Parquet file that is there whole or not at all; gives its rows."""
    unfinished = target.with_name(f".{target.name}{IN_PROGRESS_SUFFIX}")
    try:
        with unfinished.open("wb") as file:
            rows = _copy(spool, file)
            file.flush()
            os.fsync(file.fileno())
        if rows:
            unfinished.rename(target)
            _sync_folder(target.parent)
        return rows
    finally:
        unfinished.unlink(missing_ok=True)


def _copy(spool: Path, file: BinaryIO) -> int:
    """Copy a spool's whole batches in large row groups."""
    rows = waiting_rows = 0
    waiting: list[pa.RecordBatch] = []
    with ExitStack() as stack:
        writer = stack.enter_context(pq.ParquetWriter(file, SCHEMA, compression="zstd"))
        for batch in record_batches(spool):
            waiting.append(batch)
            rows += batch.num_rows
            waiting_rows += batch.num_rows
            if waiting_rows >= _ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting, waiting_rows = [], 0
        if waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return rows


def _ages_and_sizes(files: Iterable[Path]) -> Iterator[tuple[float, int, Path]]:
    for path in files:
        try:
            status = path.stat()
        except FileNotFoundError:  # another process removed it
            continue
        yield status.st_mtime, status.st_size, path


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _remove_if_empty(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return


if __name__ == "__main__":
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # Ctrl-C reaches all; whoever started this one waits for it
    os.nice(_NICE)
    pa.set_memory_pool(pa.system_memory_pool())  # half of what Arrow's own pools keep for later
    sys.exit(main(sys.argv[1:]))
