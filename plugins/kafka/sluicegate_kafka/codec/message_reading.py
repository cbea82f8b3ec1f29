"""Reads records of a batch as messages, for policies that look at headers, keys, schemas or values."""

import struct
from collections.abc import Collection
from typing import Final, TypeAlias

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.record_walk import HEADER, LOOK, Slice, misfit
from sluicegate_kafka.codec.records import MAX_HEADERS, SMALLEST_RECORD, read_varint
from sluicegate_kafka.codec.slices import Slices, guarded_slices

Headers: TypeAlias = tuple[tuple[str, bytes], ...]
Content: TypeAlias = tuple[Headers, bytes | None, str, bytes]
"""Headers, key, schema and value of a message, with defaults where they are not asked for."""
_PARTS: Final = ("headers", "key", "schema", "value")
_VARINT_FLAG = 0x80
_SCHEMA_HEADERS: Final = ("apicurio.value.contentId", "apicurio.value.globalId", "__value_schema_id")
"""Headers in which serializers of Apicurio and Confluent name the schema, if they are set to do so."""
_CONFLUENT_HEADER_BYTES = 17
"""A magic byte and a UUID; Apicurio's headers are a long."""
_id_of = struct.Struct(">xi").unpack_from
_long_id_of = struct.Struct(">xq").unpack_from


@guarded_slices
def read_messages(
    buffer: bytes, at: int, end: int, claimed: int, current: Slice, parts: Collection[str]
) -> Slices[list[Content]]:
    """Read all records between two offsets.

    :param buffer: what holds them, not compressed.
    :param at: where the first of them starts.
    :param end: the offset after the last.
    :param claimed: how many there are by the header of their batch.
    :param current: the slice that it begins in.
    :param parts: which of `headers`, `key`, `schema` and `value` to read.
    :raises ProtocolError: when they are not records, or not as many as claimed.
    """
    with_headers, with_key, with_schema, with_value = (part in parts for part in _PARTS)
    contents: list[Content] = []
    headers: Headers = ()
    key, value, schema, block = None, b"", "", b""
    while at < end:
        if current.left <= 0:
            yield from current.end()
        size, at = read_varint(buffer, at, end)
        if not SMALLEST_RECORD <= size <= end - at:
            raise misfit(size, end - at)
        if len(contents) >= claimed:
            raise ProtocolError(f"more records in a batch than the {claimed} that it claims")
        stop = at + size
        if with_key or with_schema or with_value:
            key, value, at = read_fields(buffer, at, stop)
        else:
            at = skip_fields(buffer, at, stop)
        # Many clients give all records of a batch the same headers.
        if (with_headers or with_schema) and (rest := buffer[at:stop]) != block:
            headers, block = read_headers(rest), rest
        if with_schema:
            schema = schema_of(headers, value)
        kept = value if with_value else b""
        contents.append((headers if with_headers else (), key if with_key else None, schema, kept))
        current.left -= LOOK + HEADER * len(headers)
        at = stop
    if len(contents) != claimed:
        raise ProtocolError(f"{len(contents)} records in a batch that claims {claimed}")
    return contents


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


def read_fields(buffer: bytes, at: int, end: int) -> tuple[bytes | None, bytes, int]:
    """Key and value of the record between two offsets, a null value as an empty one, and where they end."""
    key, at = _read_field(buffer, _skip_times(buffer, at), end)
    value, at = _read_field(buffer, at, end)
    return key, value or b"", at


def skip_fields(buffer: bytes, at: int, end: int) -> int:
    """Where key and value of the record between two offsets end, and its headers begin with their number."""
    at = _skip_times(buffer, at)
    for _ in range(2):
        size = buffer[at]
        if size < _VARINT_FLAG and not size & 1:
            at += 1 + (size >> 1)
        else:
            size, at = read_varint(buffer, at, end)
            at += max(size, 0)
    if at >= end:
        raise ProtocolError(f"a record that ends {at - end} bytes before its headers")
    return at


def read_headers(block: bytes) -> Headers:
    """The headers of a record.

    :param block: the rest of the record, behind its value: how many there are, then they.
    :return: them; a null value is read as an empty one.
    :raises ProtocolError: when they do not fill it.
    """
    headers: list[tuple[str, bytes]] = []
    end = len(block)
    count, at = read_varint(block, 0, end)
    if not 0 <= count <= MAX_HEADERS:
        raise ProtocolError(f"{count} headers in a record, of which at most {MAX_HEADERS} are read")
    for _ in range(count):
        name, at = _read_field(block, at, end)
        value, at = _read_field(block, at, end)
        headers.append((str(name or b"", "utf-8", "surrogateescape"), value or b""))
    if at != end:
        raise ProtocolError(f"{end - at} bytes left over in a record")
    return tuple(headers)


def _skip_times(buffer: bytes, at: int) -> int:
    """The offset after a record's attributes, time stamp and offset: what they are is of no interest."""
    at += 1
    for _ in range(2):
        while buffer[at] >= _VARINT_FLAG:
            at += 1
        at += 1
    return at


def _read_field(buffer: bytes, at: int, end: int) -> tuple[bytes | None, int]:
    """A key, a value or a part of a header, None if it is null; and the offset after it."""
    # <hot> A few times for each record: the length is read without a call where it is one byte.
    size = buffer[at] if at < end else _VARINT_FLAG
    if size < _VARINT_FLAG and not size & 1:
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
