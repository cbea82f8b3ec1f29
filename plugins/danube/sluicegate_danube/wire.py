"""Protobuf messages as bytes, for the few that are read or written without their classes."""

from collections.abc import Iterator

VARINT, FIXED64, LENGTH, FIXED32 = 0, 1, 2, 5
"""Wire types (https://protobuf.dev/programming-guides/encoding/)."""
_FIXED_BYTES = {FIXED64: 8, FIXED32: 4}


def fields(message: bytes) -> Iterator[tuple[int, int, int, int, int]]:
    """The fields of a protobuf message: number, wire type, and where field, value and end are.

    :raises ValueError: if it is no such message.
    """
    at = 0
    while at < len(message):
        start = at
        tag, at = varint(message, at)
        wire_type, value_at = tag & 7, at
        if wire_type == VARINT:
            _, at = varint(message, at)
        elif wire_type == LENGTH:
            length, value_at = varint(message, at)
            at = value_at + length
        elif wire_type in _FIXED_BYTES:
            at += _FIXED_BYTES[wire_type]
        else:
            raise ValueError(f"expected a wire type of proto3, not {wire_type}")
        if at > len(message) or tag >> 3 == 0:
            raise ValueError("a field that does not end, or has no number")
        yield tag >> 3, wire_type, start, value_at, at


def varint(data: bytes, at: int) -> tuple[int, int]:
    """A number, and where it ends.

    :raises ValueError: if it does not end.
    """
    value = 0
    for shift in range(0, 70, 7):
        if at >= len(data):
            break
        value |= (data[at] & 0x7F) << shift
        at += 1
        if data[at - 1] < 0x80:
            return value & 0xFFFF_FFFF_FFFF_FFFF, at
    raise ValueError("a number that does not end")


def _varint_bytes(value: int) -> bytes:
    written = bytearray()
    while value > 0x7F:
        written.append(value & 0x7F | 0x80)
        value >>= 7
    written.append(value)
    return bytes(written)


def varint_field(field: int, value: int) -> bytes:
    """A field that is a number."""
    return _varint_bytes(field << 3 | VARINT) + _varint_bytes(value)


def text_field(field: int, value: str) -> bytes:
    """A field that is a text."""
    return bytes_field(field, value.encode())


def bytes_field(field: int, value: bytes) -> bytes:
    """A field that is bytes, or a message."""
    return _varint_bytes(field << 3 | LENGTH) + _varint_bytes(len(value)) + value
