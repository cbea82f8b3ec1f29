"""What is being written of a decision log: lines of JSON, each of them a batch of rows.

The first line tells the versions and the columns that are the same for all rows; each further line is a
batch, by columns: whole numbers are packed (`{"q": base64}`), texts are ids, and a line says what those ids
stand for that it is the first to use (`interned`). A file can be read up to its last whole line whatever
happens to the process, and takes nothing but the standard library and a JSON encoder to write. Its name
begins with a dot, so that Spark and others who read the directory pass it over until it has become Parquet.
The lock on it tells a live writer's from one that was ended, or that a killed process left behind.
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
from sluicegate.private_files import make_folder, opener

_log = logging.getLogger(__name__)

FORM = 2
"""How lines are written; the columns have a version of their own. Form 1 had plain lists and no ids; it is
read too."""

SPOOL_SUFFIX = ".jsonl"
PARQUET_SUFFIX = ".parquet"


class DecisionLogError(Exception):
    """A decision log cannot be read; the message says which file and why."""


def partition(directory: Path, run: str, system: str) -> Path:
    """Where the files of one run and system are, in the form that Spark and others read as columns."""
    return directory / f"run={run}" / f"system={system}"


def parquet_path(spool: Path) -> Path:
    """The Parquet file that a spool becomes: `.part-x.jsonl` -> `part-x.parquet`."""
    return spool.with_name(spool.name.removeprefix(".").removesuffix(SPOOL_SUFFIX) + PARQUET_SUFFIX)


def encode(batch: Batch) -> bytes:
    """A batch as a line.

    :raises TypeError: if it holds what JSON cannot.
    """
    return orjson.dumps(batch, default=_packed, option=orjson.OPT_APPEND_NEWLINE)


def _packed(numbers: object) -> dict[str, str]:
    if not isinstance(numbers, array):
        raise TypeError(f"{type(numbers).__name__} is nothing that a spool can hold")
    # In the order of bytes of this machine: a spool becomes Parquet where it was written.
    return {numbers.typecode: b2a_base64(numbers, newline=False).decode("ascii")}


class Spool:
    """A spool being written; each `write` has reached the operating system when it returns.

    :param folder: made if it does not exist.
    :param name: stem of the file, unique in the folder.
    :param constants: the columns that are the same for all rows.
    :raises OSError: if the file cannot be made.
    """

    def __init__(self, folder: Path, name: str, constants: Mapping[str, str]) -> None:
        make_folder(folder)
        self.path = folder / f".{name}{SPOOL_SUFFIX}"
        self.bytes = 0
        """Bytes written so far."""
        self._file = _create_locked(self.path)
        try:
            self.write(encode({"version": VERSION, "form": FORM, **constants}))
        except BaseException:
            # Without its first line it can never be read, and a full disk would collect one at each attempt.
            self.path.unlink(missing_ok=True)
            self.close()
            raise

    def write(self, line: bytes) -> None:
        """Append a line.

        :raises OSError: if it could not be written whole: readers then end before it, so it must be the last.
        """
        written = 0
        while written < len(line):
            written += os.write(self._file, line[written:] if written else line)
        self.bytes += written

    def close(self) -> None:
        """Close the file and give up the lock.

        :raises OSError: if the system tells only now that something was not written.
        """
        os.close(self._file)


def batches(spool: Path) -> Iterator[Batch]:
    """Read the whole lines of a spool, be it cut short or still being written, with the constants in each.

    :raises FileNotFoundError: if it is gone, which means that its Parquet file is there.
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
                # Expected after a kill, on a full disk, and while the writer is in the middle of a line.
                _log.debug("decision spool %s ends in the middle of a line", spool)
                return
            if constants is None:
                constants = _constants(content, spool)
            else:
                yield {**constants, **content}


def _constants(head: dict[str, Any], spool: Path) -> dict[str, Any]:
    for key, what, known in (("version", "decision schema version", VERSION), ("form", "spool form", FORM)):
        found = head.pop(key, 1)
        if found > known:
            raise DecisionLogError(
                f"{str(spool)!r} has {what} {found}, this release reads up to {known}: "
                "read it with the release that wrote it, or a later one"
            )
    return head


def spools(directory: Path) -> list[Path]:
    """All spools under a log's directory, those in use too."""
    return sorted(directory.glob(f"run=*/system=*/.*{SPOOL_SUFFIX}"))


def ended(directory: Path) -> list[Path]:
    """The finished spools under a log's directory: no process writes them any more."""
    found = []
    for spool in spools(directory):
        with locked(spool) as free:
            if free:
                found.append(spool)
    return found


def parquet_files(directory: Path) -> list[Path]:
    """All finished files under a log's directory."""
    return sorted(directory.glob(f"run=*/system=*/[!._]*{PARQUET_SUFFIX}"))


@contextmanager
def locked(spool: Path) -> Iterator[bool]:
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
        os.close(handle)  # between the two calls another process took it for an abandoned one
