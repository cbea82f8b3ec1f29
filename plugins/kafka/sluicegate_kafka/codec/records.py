"""Record batches in place: headers by offset, and the size of single records where nothing is compressed."""

import struct
import sys
from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple, TypeAlias

from google_crc32c import value as crc32c

from sluicegate_kafka.codec.errors import ProtocolError

Bytes: TypeAlias = bytes | bytearray

COMPRESSION_MASK: Final = 0x07
LOG_APPEND_TIME: Final = 0x08
CONTROL: Final = 0x20

BATCH_OVERHEAD: Final = 61
"""Bytes of a batch before its records."""
MAX_BATCHES: Final = 16
"""Batches in one partition of a Produce request; brokers take a single one from version 3 on."""
MAX_HEADERS: Final = 1_000
"""Headers of one record that are added up."""
LOG_OVERHEAD = 12
"""Base offset and length: what the length field does not count."""
LENGTH_AT: Final = 8
"""Where the length of a batch stands in its header (KIP-98)."""
_MAGIC_AT = 16
CRC_AT: Final = 17
_COVERED_AT = 21
"""Where that begins which the checksum covers, up to the end of the batch."""
MAGIC: Final = 2
_VARINT_FLAG = 0x80
_MAX_VARLONG_BYTES = 10
SMALLEST_RECORD: Final = 6
"""Bytes behind the length of an empty record: attributes, two deltas, no key, no value, no headers."""

# length, magic, attributes, max timestamp, producer id, record count
_HEADER = struct.Struct(">8xi4xb4xh12xqq6xi").unpack_from


class Batch(NamedTuple):
    """The header of one stored batch."""

    offset: int
    """Where the batch starts in the buffer."""
    size: int
    """All its bytes, header included."""
    max_timestamp: int
    """Milliseconds since the epoch; -1 for none."""
    attributes: int
    producer_id: int
    record_count: int
    magic: int


_pack_u32 = struct.Struct(">I").pack_into
_make = partial(tuple.__new__, Batch)  # half the time of a call with seven arguments


def batch_payload_size(batch: Batch) -> int:
    """Bytes of a batch's records as they stand, compressed or not."""
    return max(0, batch.size - BATCH_OVERHEAD) if batch.magic == MAGIC else batch.size


def write_checksum(buffer: bytearray, start: int, end: int) -> None:
    """Write the checksum of a batch that was changed.

    :param buffer: what holds the batch.
    :param start: its first byte.
    :param end: the offset after it.
    """
    covered = bytes(memoryview(buffer)[start + _COVERED_AT : end])  # google-crc32c accepts no memory views
    _pack_u32(buffer, start + CRC_AT, crc32c(covered))


def walk_batches(buffer: bytes, start: int, end: int, most: int = sys.maxsize) -> list[Batch]:
    """The headers of all whole batches in a record set; parameters and errors as for `iter_batches`."""
    return list(iter_batches(buffer, start, end, most))


def iter_batches(buffer: bytes, start: int, end: int, most: int = sys.maxsize) -> Iterator[Batch]:
    """The headers of the whole batches in a record set, one by one.

    A last batch that is cut off is left out: it is legal in a Fetch response. Messages older than batches
    (magic 0 and 1; they can only be stored data) are one unit from the first of them to the end.

    :param buffer: what holds the record set.
    :param start: its first byte.
    :param end: the offset after it.
    :param most: batches that there may be.
    :raises ProtocolError: when a header contradicts itself, or there are more batches.
    """
    if end > len(buffer):
        raise ProtocolError(f"records up to byte {end} in a frame of {len(buffer)}")
    while end - start > _MAGIC_AT:
        if buffer[start + _MAGIC_AT] < MAGIC:
            yield Batch(start, end - start, -1, 0, -1, 1, buffer[start + _MAGIC_AT])
            return
        if end - start < BATCH_OVERHEAD:
            return
        length, magic, attributes, timestamp, producer, count = _HEADER(buffer, start)
        size = length + LOG_OVERHEAD
        if size < BATCH_OVERHEAD or magic != MAGIC or count < 0:
            raise ProtocolError(f"a batch of {size} bytes, {count} records and magic {magic}")
        if size > end - start:
            return
        if most <= 0:
            raise ProtocolError("more batches in one partition of a request than brokers take")
        most -= 1
        yield _make((start, size, timestamp, attributes, producer, count, magic))
        start += size


def record_head(buffer: Bytes, at: int, end: int) -> tuple[int, int, int]:
    """Bytes of key and value of the record between two offsets, how many headers it has, and their offset."""
    at += 1  # attributes
    _, at = read_varint(buffer, at, end)  # timestamp delta
    _, at = read_varint(buffer, at, end)  # offset delta
    key, at = _field(buffer, at, end)
    value, at = _field(buffer, at, end)
    headers, at = read_varint(buffer, at, end)
    if not 0 <= headers <= end - at:
        raise ProtocolError(f"{headers} headers in a record with {end - at} bytes left")
    return key + value, headers, at


def headers_size(buffer: Bytes, at: int, end: int, headers: int) -> int:
    """Bytes of the names and values of so many headers, which fill the space between two offsets."""
    total = 0
    for _ in range(2 * headers):
        size = buffer[at] if at < end else _VARINT_FLAG
        if size < _VARINT_FLAG and not size & 1 and size >> 1 < end - at:  # as `_field`, without the calls
            size >>= 1
            at += 1 + size
        else:
            size, at = _field(buffer, at, end)
        total += size
    if at != end:
        raise ProtocolError(f"{end - at} bytes left over in a record")
    return total


def _field(buffer: Bytes, at: int, end: int) -> tuple[int, int]:
    """Size of a key, a value or a part of a header (null counts 0), and the offset after it."""
    size, at = read_varint(buffer, at, end)
    size = max(size, 0)
    if size > end - at:
        raise ProtocolError(f"a field of {size} bytes where {end - at} remain in its record")
    return size, at + size


def read_varint(buffer: Bytes, at: int, end: int) -> tuple[int, int]:
    """A zigzag varint of up to 64 bits that ends before `end`, and the offset after it."""
    # <hot> Lengths of records: those of two bytes, as most are, without a loop.
    if at + 1 < end and (low := buffer[at]) >= _VARINT_FLAG and (high := buffer[at + 1]) < _VARINT_FLAG:
        value = low & 0x7F | high << 7
        return (value >> 1) ^ -(value & 1), at + 2
    value = shift = 0
    for place in range(at, min(end, at + _MAX_VARLONG_BYTES)):
        byte = buffer[place]
        value |= (byte & 0x7F) << shift
        if byte < _VARINT_FLAG:
            return (value >> 1) ^ -(value & 1), place + 1
        shift += 7
    raise ProtocolError("a varint that does not end")
