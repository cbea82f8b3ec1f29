"""Batches with other headers in their records: all else stays, and they are compressed as they were."""

import struct
from collections.abc import Callable
from typing import Final

from sluicegate_kafka.codec.message_reading import Headers, read_headers, skip_fields
from sluicegate_kafka.codec.primitives import write_uvarint
from sluicegate_kafka.codec.record_walk import HEADER, LOOK, Slice, misfit
from sluicegate_kafka.codec.records import (
    BATCH_OVERHEAD,
    COMPRESSION_MASK,
    LENGTH_AT,
    LOG_OVERHEAD,
    SMALLEST_RECORD,
    Batch,
    read_varint,
    write_checksum,
)
from sluicegate_kafka.codec.slices import Slices, guarded_slices

_CODECS: Final = {1: "gzip", 2: "snappy", 3: "lz4", 4: "zstd"}
"""By pyarrow's names; its snappy is a raw block, which all clients read."""
_pack_i32 = struct.Struct(">i").pack_into


@guarded_slices
def change_headers(
    buffer: bytes, at: int, end: int, change: Callable[[Headers], Headers], current: Slice
) -> Slices[bytes]:
    """The records between two offsets with other headers.

    :param buffer: what holds them, not compressed.
    :param at: where the first of them starts.
    :param end: the offset after the last.
    :param change: gives the new headers of a record by its old ones.
    :param current: the slice that it begins in.
    :raises ProtocolError: when they are not records.
    """
    out = bytearray()
    while at < end:
        if current.left <= 0:
            yield from current.end()
        size, at = read_varint(buffer, at, end)
        if not SMALLEST_RECORD <= size <= end - at:
            raise misfit(size, end - at)
        headers_at = skip_fields(buffer, at, at + size)
        old = read_headers(buffer[headers_at : at + size])
        new = change(old)
        record = bytearray(buffer[at:headers_at]) + _varint(len(new))
        for name, value in new:
            raw = name.encode("utf-8", "surrogateescape")
            record += b"".join((_varint(len(raw)), raw, _varint(len(value)), value))
        out += _varint(len(record))
        out += record
        current.left -= 2 * (LOOK + HEADER * len(old))
        at += size
    return bytes(out)


def rebuilt(frame: bytes, batch: Batch, records: bytes) -> bytes:
    """A batch with other records: compressed in the same way, with its length and checksum.

    :param frame: what holds the batch.
    :param batch: its header.
    :param records: as many as before, not compressed.
    """
    if codec := batch.attributes & COMPRESSION_MASK:
        import pyarrow  # loaded by then, as the batch had to be unpacked

        records = pyarrow.compress(records, codec=_CODECS[codec], asbytes=True)
    new = bytearray(frame[batch.offset : batch.offset + BATCH_OVERHEAD]) + records
    _pack_i32(new, LENGTH_AT, len(new) - LOG_OVERHEAD)
    write_checksum(new, 0, len(new))
    return bytes(new)


def _varint(value: int) -> bytes:
    """A number that is not negative, as a zigzag varint."""
    return write_uvarint(value << 1)
