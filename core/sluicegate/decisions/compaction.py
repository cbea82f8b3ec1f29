"""Compacts finished spools to zstd Parquet files, and removes old files."""

import os
from base64 import b64encode
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import BinaryIO

import pyarrow as pa
import pyarrow.parquet as pq

from sluicegate.decisions.reading import coded_tables
from sluicegate.decisions.schema import SCHEMA
from sluicegate.decisions.spool import (
    DecisionLogError,
    locked,
    not_compacted,
    parquet_files,
    parquet_path,
    spools,
)
from sluicegate.decisions.unpacking import CODED_SCHEMA
from sluicegate.host.private_files import opener

IN_PROGRESS_SUFFIX = ".inprogress"
_ROW_GROUP_ROWS = 65_536
_STATISTICS = ["time"]
"""Columns with statistics, by which readers skip row groups. Other columns vary little between groups."""
_ENCODINGS = {"time": "DELTA_BINARY_PACKED", "decision_id": "DELTA_BYTE_ARRAY"}
"""Encodings of columns whose values are nearly unique but similar. Other columns repeat values."""


def tidy(directory: Path, max_bytes: int, max_age_s: float, now_s: float) -> list[str]:
    """Compact all finished spools to Parquet, and remove old files.

    :param directory: the log's directory.
    :param max_bytes: of all Parquet files together; 0 for no bound.
    :param max_age_s: since a file was completed; 0 for no bound.
    :param now_s: seconds since 1970.
    :return: error messages; spools that could not be compacted stay as they are.
    """
    faults = []
    for spool in spools(directory):
        try:
            compact(spool)
        except (OSError, pa.ArrowException, DecisionLogError) as error:
            faults.append(not_compacted(spool, error))
    try:
        prune(directory, max_bytes, max_age_s, now_s)
    except OSError as error:
        faults.append(f"old decision files under {directory} cannot be removed: {error}")
    return faults


def compact(spool: Path) -> Path | None:
    """Convert a finished spool to a Parquet file, and remove the spool.

    :return: the Parquet file; None if the spool is in use, no longer exists, or has no complete batch.
    :raises OSError: if the Parquet file could not be written; the spool stays as it is.
    :raises DecisionLogError: if a later release wrote the spool; it stays as it is.
    """
    with locked(spool) as mine:
        if not mine:
            return None
        target = parquet_path(spool)
        if not target.exists():  # otherwise a process died between renaming and removing
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
    :raises OSError: if one of them could not be removed; the others are.
    """
    files = sorted(_ages_and_sizes(parquet_files(directory)))
    total = sum(size for _, size, _ in files)
    removed, fault = 0, None
    for modified, size, path in files:
        too_old = max_age_s and now_s - modified > max_age_s
        if not too_old and not (max_bytes and total > max_bytes):
            break
        try:
            path.unlink(missing_ok=True)
        except OSError as error:
            fault = error
            continue
        total -= size
        removed += 1
        _remove_if_empty(path.parent, path.parent.parent)
    if fault is not None:
        raise fault
    return removed


def _write_parquet(spool: Path, target: Path) -> int:
    """Write a spool's complete batches to a Parquet file atomically; return the number of rows."""
    unfinished = target.with_name(f".{target.name}{IN_PROGRESS_SUFFIX}")
    try:
        with open(unfinished, "wb", opener=opener) as file:
            rows = _copy(spool, file)
            file.flush()
            os.fsync(file.fileno())
        if rows:
            unfinished.rename(target)
            # The new name must outlast a crash before the spool is removed.
            _sync_folder(target.parent)
        return rows
    finally:
        unfinished.unlink(missing_ok=True)


def _copy(spool: Path, file: BinaryIO) -> int:
    """Copy a spool's complete batches in large row groups."""
    rows = 0
    with parquet_writer(file, CODED_SCHEMA) as writer:
        for table in coded_tables(spool, _ROW_GROUP_ROWS):
            writer.write_table(table)
            rows += len(table)
    return rows


def parquet_writer(
    file: BinaryIO, schema: pa.Schema = SCHEMA, further: Mapping[bytes, bytes] | None = None
) -> pq.ParquetWriter:
    """Create a Parquet writer with the log's encodings.

    :param schema: schema of the tables to write.
    :param further: metadata in addition to that of the log's schema.
    """
    writer = pq.ParquetWriter(
        file,
        schema,
        store_schema=False,
        compression="zstd",
        use_dictionary=[field.name for field in SCHEMA if field.name not in _ENCODINGS],
        column_encoding=_ENCODINGS,
        write_statistics=_STATISTICS,
    )
    # The tables contain dictionaries, but readers should see plain strings. So we store the Arrow schema
    # ourselves instead of the writer, which would store one with dictionaries.
    metadata = {**(SCHEMA.metadata or {}), **(further or {})}
    writer.add_key_value_metadata({**metadata, b"ARROW:schema": b64encode(SCHEMA.serialize().to_pybytes())})
    return writer


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
            return  # not empty, so those above are not either
