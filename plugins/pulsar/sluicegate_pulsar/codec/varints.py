"""Varints and the wire types of protobuf, read with explicit offsets."""

from collections.abc import Iterator
from functools import partial
from typing import Final, NamedTuple

from sluicegate_pulsar.codec.errors import ProtocolError

VARINT: Final = 0
FIXED64: Final = 1
BYTES: Final = 2
FIXED32: Final = 5

_FLAG = 0x80
_LAST_SHIFT = 63
_MAX_NUMBER = 2**29 - 1
_MASK64 = 2**64 - 1


class Field(NamedTuple):
    """One field of a serialized message."""

    number: int
    wire_type: int
    start: int
    """Offset of its tag."""
    value: int
    """The varint; for bytes the offset of the first one; 0 for fixed sizes."""
    stop: int
    """Offset after it."""


_field_of = partial(tuple.__new__, Field)  # half the time of a call with so many arguments


def read_uvarint(data: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of up to 64 bits; bits of a tenth byte beyond them are dropped, as protobuf does.

    :param data: the buffer that holds it.
    :param at: offset of its first byte.
    :return: the value and the offset after it.
    :raises ProtocolError: when it has more than ten bytes.
    :raises IndexError: when the buffer ends inside it.
    """
    value = shift = 0
    while True:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _FLAG:
            return value & _MASK64, at
        shift += 7
        if shift > _LAST_SHIFT:
            raise ProtocolError("a varint of more than 10 bytes")


def write_uvarint(value: int) -> bytes:
    """A varint of a number that is not negative."""
    out = bytearray()
    while value >= _FLAG:
        out.append(value & 0x7F | _FLAG)
        value >>= 7
    out.append(value)
    return bytes(out)


def fields(data: bytes, start: int, stop: int) -> Iterator[Field]:
    """The fields of a serialized message, one by one.

    :param data: the buffer that holds it.
    :param start: offset of its first byte.
    :param stop: offset after it.
    :raises ProtocolError: when a field extends beyond the end, or is a group, which Pulsar never uses.
    """
    at = start
    while at < stop:
        try:
            tag, after = data[at], at + 1  # one byte in most cases, and so are sizes
            if tag >= _FLAG:
                tag, after = read_uvarint(data, at)
            number, wire_type = tag >> 3, tag & 7
            if not 0 < number <= _MAX_NUMBER:
                raise ProtocolError(f"field number {number}, expected 1 to {_MAX_NUMBER}")
            value = 0
            if wire_type == VARINT:
                value, after = read_uvarint(data, after)
            elif wire_type == BYTES:
                size, value = data[after], after + 1
                if size >= _FLAG:
                    size, value = read_uvarint(data, after)
                after = value + size
            elif wire_type in (FIXED64, FIXED32):
                after += 8 if wire_type == FIXED64 else 4
            else:
                raise ProtocolError(f"wire type {wire_type} in field {number}, expected 0, 1, 2 or 5")
        except IndexError as error:
            raise ProtocolError(
                f"a field that starts at byte {at - start} of {stop - start} has no end"
            ) from error
        if after > stop:
            raise ProtocolError(f"field {number} ends at byte {after - start} of {stop - start}")
        yield _field_of((number, wire_type, at, value, after))
        at = after
