"""Spools: the files that a decision log writes first, with one batch of rows in each line of JSON.

The first line has the versions and the columns that are the same for all rows. Each further line is a batch
of columns. Integers are packed (`{"q": base64}`), strings are ids, and a line defines the ids that it uses
first (`interned`). A spool can be read up to its last complete line, even after a crash. Writing it takes
only the standard library and a JSON encoder. Its name starts with a dot, so that Spark and other readers of
the directory skip it. A lock distinguishes spools in use from finished and abandoned ones.
"""

import fcntl
import logging
import os
from array import array
from binascii import b2a_base64
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import orjson

from sluicegate.decisions.columns import VERSION
from sluicegate.decisions.rows import Batch
from sluicegate.host.private_files import identity, make_folder, opener

_log = logging.getLogger(__name__)

FORM = 2
"""Version of the line format; the columns have their own version. Form 1, with plain lists and without ids,
can still be read."""

SPOOL_SUFFIX = ".jsonl"
PARQUET_SUFFIX = ".parquet"


class DecisionLogError(Exception):
    """A decision log cannot be read; the message says which file and why."""


def partition(directory: Path, run: str, system: str) -> Path:
    """The directory for the files of one run and system, as a Hive partition."""
    return directory / f"run={run}" / f"system={system}"


def parquet_path(spool: Path) -> Path:
    """The Parquet file of a compacted spool: `.part-x.jsonl` -> `part-x.parquet`."""
    return spool.with_name(spool.name.removeprefix(".").removesuffix(SPOOL_SUFFIX) + PARQUET_SUFFIX)


def encode(batch: Batch) -> bytes:
    """Encode a batch as a line.

    :raises TypeError: if a value cannot be represented in JSON.
    """
    return orjson.dumps(batch, default=_packed, option=orjson.OPT_APPEND_NEWLINE)


def _packed(numbers: object) -> dict[str, str]:
    if not isinstance(numbers, array):
        raise TypeError(f"{type(numbers).__name__} cannot be stored in a spool")
    # In native byte order: a spool is compacted on the machine that wrote it.
    return {numbers.typecode: b2a_base64(numbers, newline=False).decode("ascii")}


class Spool:
    """A spool being written; each `write` has reached the operating system when it returns.

    :param folder: created if it does not exist.
    :param name: stem of the file, unique in the folder.
    :param constants: columns with the same value in all rows.
    :raises OSError: if the file cannot be created.
    """

    def __init__(self, folder: Path, name: str, constants: Mapping[str, str | int]) -> None:
        make_folder(folder)
        self.path = folder / f".{name}{SPOOL_SUFFIX}"
        self.bytes = 0
        """Bytes written so far."""
        self._file = _create_locked(self.path)
        self._identity = identity(self._file)
        try:
            self.write(encode({"version": VERSION, "form": FORM, **constants}))
        except BaseException:
            # Without its first line it cannot be read, and a full disk would accumulate such files.
            self.path.unlink(missing_ok=True)
            self.close()
            raise

    @property
    def is_linked(self) -> bool:
        """Whether the file is where it was made; elsewhere no reader finds what is written to it."""
        try:
            return identity(self.path) == self._identity
        except NotADirectoryError:
            return False
        except OSError:  # the next write says so
            return True

    def write(self, line: bytes) -> None:
        """Append a line.

        :raises OSError: if it was not written completely. Readers stop before it, so it must be the last one.
        """
        written = 0
        while written < len(line):
            # A disk that is nearly full takes a part of it.
            written += os.write(self._file, line[written:] if written else line)
        self.bytes += written

    def close(self) -> None:
        """Close the file and release the lock.

        :raises OSError: if the system reports a delayed write error.
        """
        os.close(self._file)


def batches(spool: Path) -> Iterator[Batch]:
    """Read the complete lines of a spool, even if it is truncated or still being written.

    :return: batches that include the constants.
    :raises FileNotFoundError: if it no longer exists because its Parquet file does.
    :raises DecisionLogError: if a later release wrote it.
    """
    with spool.open("rb") as file:
        constants: dict[str, Any] | None = None
        for line in file:
            try:
                content = orjson.loads(line) if line.endswith(b"\n") else None
            except orjson.JSONDecodeError:
                content = None
            if not isinstance(content, dict):
                # Expected after a kill, on a full disk, and while the writer is writing a line.
                _log.debug("decision spool %s: reading ends at a bad line", spool)
                return
            if constants is None:
                constants = _constants(content, spool)
            else:
                yield {**constants, **content}


def _constants(head: dict[str, Any], spool: Path) -> dict[str, Any]:
    for key, what, known in (("version", "decision schema version", VERSION), ("form", "spool form", FORM)):
        number = head.pop(key, 1)
        if number > known:
            raise DecisionLogError(
                f"{str(spool)!r} has {what} {number}, this release reads up to {known}: "
                "read it with the release that wrote it, or a later one"
            )
    return head


def spools(directory: Path) -> list[Path]:
    """All spools under a log's directory, including those in use."""
    return sorted(directory.glob(f"run=*/system=*/.*{SPOOL_SUFFIX}"))


def ended(directory: Path) -> tuple[list[Path], list[str]]:
    """The finished spools under a log's directory, which no process is writing.

    :return: them, and a message for each spool that cannot be looked at.
    """
    finished, faults = [], []
    for spool in spools(directory):
        try:
            with locked(spool) as free:
                if free:
                    finished.append(spool)
        except OSError as error:
            faults.append(not_compacted(spool, error))
    return finished, faults


def not_compacted(spool: Path, error: Exception) -> str:
    """The message for a spool that stays as it is."""
    return f"decision spool {spool} was not compacted and stays for now: {error}"


def parquet_files(directory: Path) -> list[Path]:
    """All finished files under a log's directory."""
    return sorted(directory.glob(f"run=*/system=*/[!._]*{PARQUET_SUFFIX}"))


@contextmanager
def locked(spool: Path) -> Iterator[bool]:
    """Hold the lock of a spool; yields False if another process holds it or the spool does not exist.

    :raises OSError: if it cannot be opened or locked.
    """
    try:
        handle = os.open(spool, os.O_RDONLY)
    except FileNotFoundError:
        yield False
        return
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
        # It may have been compacted and removed between the two calls.
        yield spool.exists()
    except BlockingIOError:
        yield False
    finally:
        os.close(handle)


def _create_locked(path: Path) -> int:
    while True:
        handle = opener(os.fspath(path), os.O_CREAT | os.O_EXCL | os.O_WRONLY)
        try:
            fcntl.flock(handle, fcntl.LOCK_EX)
            if os.fstat(handle).st_nlink:
                return handle
        except BaseException:
            os.close(handle)
            raise
        os.close(handle)  # another process considered it abandoned and removed it between the two calls
