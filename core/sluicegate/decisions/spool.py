"""Files of the decision log: an Arrow stream while it is written, a zstd Parquet file once it is whole.

A stream can be read up to its last batch whatever happens to the process; a Parquet file without its end is
lost. A spool's name begins with a dot, so that Spark and others who read the directory pass it over until it
has become Parquet. The lock on a spool tells a live writer's from one that a killed process left behind.
"""

import fcntl
import logging
import os
from collections.abc import Iterable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate.decisions.schema import SCHEMA

_log = logging.getLogger(__name__)

SPOOL_SUFFIX = ".spool"
PARQUET_SUFFIX = ".parquet"
IN_PROGRESS_SUFFIX = ".inprogress"
_ROW_GROUP_ROWS = 131_072


def partition(directory: Path, run: str, system: str) -> Path:
    """Where the files of one run and system are, in the form that Spark and others read as columns."""
    return directory / f"run={run}" / f"system={system}"


def parquet_path(spool: Path) -> Path:
    """The Parquet file that a spool becomes: `.part-x.spool` -> `part-x.parquet`."""
    return spool.with_name(spool.name.removeprefix(".").removesuffix(SPOOL_SUFFIX) + PARQUET_SUFFIX)


class Spool:
    """An Arrow stream file being written; each `write` has reached the operating system when it returns.

    :param folder: made if it does not exist.
    :param name: stem of the file, unique in the folder.
    :raises OSError: if the file cannot be made.
    """

    def __init__(self, folder: Path, name: str) -> None:
        folder.mkdir(parents=True, exist_ok=True)
        self.path = folder / f".{name}{SPOOL_SUFFIX}"
        self.rows = 0
        self._lock = os.open(self.path, os.O_CREAT | os.O_EXCL | os.O_WRONLY, 0o640)
        try:
            fcntl.flock(self._lock, fcntl.LOCK_EX)
            self._file = pa.OSFile(str(self.path), "wb")
            options = pa.ipc.IpcWriteOptions(compression="zstd")
            self._writer = pa.ipc.new_stream(self._file, SCHEMA, options=options)
        except BaseException:
            os.close(self._lock)
            raise

    @property
    def bytes(self) -> int:
        """Bytes written so far."""
        return int(self._file.tell())

    def write(self, batch: pa.RecordBatch) -> None:
        """Append a batch.

        :raises OSError: if it could not be written whole; readers then end before it.
        """
        self._writer.write_batch(batch)
        self.rows += batch.num_rows

    def close(self) -> None:
        """End the stream and give up the lock.

        :raises OSError: if the end could not be written; every batch before it can be read all the same.
        """
        try:
            self._writer.close()
        finally:
            self._file.close()
            os.close(self._lock)


def batches(spool: Path) -> Iterator[pa.RecordBatch]:
    """Read the whole batches of a spool, be it unfinished, cut short or still being written.

    :raises FileNotFoundError: if it is gone, which means that its Parquet file is there.
    """
    with pa.OSFile(str(spool), "rb") as file:
        try:
            reader = pa.ipc.open_stream(file)
            while True:
                yield reader.read_next_batch()
        except StopIteration:
            return
        except (pa.ArrowInvalid, OSError) as error:
            # Expected after a kill, and while the writer is in the middle of a batch.
            _log.debug("decision spool %s ends in the middle of a batch: %s", spool, error)


def compact(spool: Path) -> Path | None:
    """Turn a spool that nobody writes any more into a Parquet file, and remove it.

    :return: the Parquet file; None if the spool is in use, gone, or holds no whole batch.
    :raises OSError: if the Parquet file could not be written; the spool stays as it is.
    """
    with _locked(spool) as mine:
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


def spools(directory: Path) -> list[Path]:
    """All spools under a log's directory, those in use too."""
    return sorted(directory.glob(f"run=*/system=*/.*{SPOOL_SUFFIX}"))


def parquet_files(directory: Path) -> list[Path]:
    """All finished files under a log's directory."""
    return sorted(directory.glob(f"run=*/system=*/[!._]*{PARQUET_SUFFIX}"))


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
    """Copy a spool's whole batches in large row groups, in the schema version that it was written with."""
    rows = 0
    waiting: list[pa.RecordBatch] = []
    with ExitStack() as stack:
        writer = None
        for batch in batches(spool):
            if writer is None:
                writer = stack.enter_context(pq.ParquetWriter(file, batch.schema, compression="zstd"))
            waiting.append(batch)
            rows += batch.num_rows
            if sum(each.num_rows for each in waiting) >= _ROW_GROUP_ROWS:
                writer.write_table(pa.Table.from_batches(waiting))
                waiting = []
        if writer is not None and waiting:
            writer.write_table(pa.Table.from_batches(waiting))
    return rows


def _ages_and_sizes(files: Iterable[Path]) -> Iterator[tuple[float, int, Path]]:
    for path in files:
        try:
            status = path.stat()
        except FileNotFoundError:  # another worker removed it
            continue
        yield status.st_mtime, status.st_size, path


def _sync_folder(folder: Path) -> None:
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


@contextmanager
def _locked(spool: Path) -> Iterator[bool]:
    """Hold the lock of a spool; gives False if a live process has it, or if the spool is gone."""
    try:
        handle = os.open(spool, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield spool.exists()
    except BlockingIOError:
        yield False
    finally:
        os.close(handle)


def _remove_if_empty(*folders: Path) -> None:
    for folder in folders:
        try:
            folder.rmdir()
        except OSError:
            return
