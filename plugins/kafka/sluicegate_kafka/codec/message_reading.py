"""Reads records of a batch as messages, for policies that look at headers, keys, schemas or values."""

import struct
from typing import Final, TypeAlias

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.record_walk import HEADER, LOOK, Slice, misfit
from sluicegate_kafka.codec.records import MAX_HEADERS, SMALLEST_RECORD, read_varint
from sluicegate_kafka.codec.slices import Slices, guarded_slices

Headers: TypeAlias = tuple[tuple[str, bytes], ...]
Message: TypeAlias = tuple[Headers, bytes | None, bytes]
"""Headers, key and value; a null value is empty."""
_VARINT_FLAG = 0x80
_SCHEMA_HEADERS: Final = ("apicurio.value.contentId", "apicurio.value.globalId", "__value_schema_id")
"""Headers in which serializers of Apicurio and Confluent name the schema, if they are set to do so."""
_CONFLUENT_HEADER_BYTES = 17
"""A magic byte and a UUID; Apicurio's headers are a long."""
_id_of = struct.Struct(">xi").unpack_from
_long_id_of = struct.Struct(">xq").unpack_from


@guarded_slices
def read_messages(
    buffer: bytes, at: int, end: int, claimed: int, current: Slice, *, with_headers: bool
) -> Slices[list[Message]]:
    """Read all records between two offsets.

    :param buffer: what holds them, not compressed.
    :param at: where the first of them starts.
    :param end: the offset after the last.
    :param claimed: how many there are by the header of their batch.
    :param current: the slice that it begins in.
    :param with_headers: False to leave headers unread, as they take most of the time.
    :raises ProtocolError: when they are not records, or not as many as claimed.
    """
    messages: list[Message] = []
    while at < end:
        if current.left <= 0:
            yield from current.end()
        size, at = read_varint(buffer, at, end)
        if not SMALLEST_RECORD <= size <= end - at:
            raise misfit(size, end - at)
        if len(messages) >= claimed:
            raise ProtocolError(f"more records in a batch than the {claimed} that it claims")
        key, value, count, headers_at = read_fields(buffer, at, at + size)
        headers: Headers = ()
        if with_headers or not count:
            headers = read_headers(buffer, headers_at, at + size, count)
        messages.append((headers, key, value))
        current.left -= LOOK + HEADER * count
        at += size
    if len(messages) != claimed:
        raise ProtocolError(f"{len(messages)} records in a batch that claims {claimed}")
    return messages


def schema_of(headers: Headers, value: bytes) -> str:
    """The id of the schema that a value names, or its headers do; empty if there is none.

    The wire formats of Confluent's and Apicurio's serializers: a zero byte, then an id of four bytes. Older
    serializers of Apicurio write eight, of which the first four are zero; no id of four bytes is zero.
    """
    if headers:
        named = dict(headers)
        for name in _SCHEMA_HEADERS:
            if text := named.get(name):
                is_uuid = len(text) == _CONFLUENT_HEADER_BYTES
                return text[1:].hex() if is_uuid else str(int.from_bytes(text, "big"))
    if len(value) <= 4 or value[0]:
        return ""
    (number,) = _id_of(value)
    if number == 0 and len(value) > 8:
        (number,) = _long_id_of(value)
    return str(number) if number > 0 else ""


def read_fields(buffer: bytes, at: int, end: int) -> tuple[bytes | None, bytes, int, int]:
    """Key, value and number of headers of the record between two offsets, and where the headers begin."""
    # <hot> Once for each record: numbers of one byte, as most are, are read without a call.
    at += 1  # attributes
    for _ in range(2):  # time stamp and offset: what they are is of no interest
        while buffer[at] >= _VARINT_FLAG:
            at += 1
        at += 1
    key, at = _read_field(buffer, at, end)
    value, at = _read_field(buffer, at, end)
    count = buffer[at]
    if count < _VARINT_FLAG and not count & 1:
        return key, value or b"", count >> 1, at + 1
    count, at = read_varint(buffer, at, end)
    if not 0 <= count <= MAX_HEADERS:
        raise ProtocolError(f"{count} headers in a record, of which at most {MAX_HEADERS} are read")
    return key, value or b"", count, at


def read_headers(buffer: bytes, at: int, end: int, count: int) -> Headers:
    """So many headers, which fill the space between two offsets.

    :return: them; a null value is read as an empty one.
    :raises ProtocolError: when they do not fill it.
    """
    headers: list[tuple[str, bytes]] = []
    for _ in range(count):
        name, at = _read_field(buffer, at, end)
        value, at = _read_field(buffer, at, end)
        headers.append((str(name or b"", "utf-8", "surrogateescape"), value or b""))
    if at != end:
        raise ProtocolError(f"{end - at} bytes left over in a record")
    return tuple(headers)


def _read_field(buffer: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """A key, a value or a part of a header, None if it is null; and the offset after it."""
    size = buffer[at] if at < end else _VARINT_FLAG
    if size < _VARINT_FLAG and not size & 1:  # one byte, not negative: as `read_varint`, without the call
        size >>= 1
        at += 1
    else:
        size, at = read_varint(buffer, at, end)
        if size < 0:
            return None, at
    stop = at + size
    if stop > end:
        raise ProtocolError(f"a field of {size} bytes where {end - at} remain in its record")
    return buffer[at:stop], stop
