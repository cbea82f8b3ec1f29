"""Varints, strings and tagged fields, read with explicit offsets and bounds."""

import struct
from collections.abc import Callable
from functools import wraps
from typing import Final, ParamSpec, TypeVar

from sluicegate_kafka.codec.errors import ProtocolError

MALFORMED: Final = (IndexError, struct.error, UnicodeDecodeError)
"""What reading past the end or decoding a hostile string raises."""

MAX_TAGS: Final = 50
"""Tagged fields in one section; Kafka's messages have five at most, and a client may invent any number."""
_MAX_I32 = 2**31 - 1
_LAST_VARINT_SHIFT = 28
_VARINT_FLAG = 0x80

_i16 = struct.Struct(">h").unpack_from
_i32 = struct.Struct(">i").unpack_from
_pack_i16 = struct.Struct(">h").pack
_pack_i32 = struct.Struct(">i").pack

_Params = ParamSpec("_Params")
_Result = TypeVar("_Result")


def guarded(function: Callable[_Params, _Result]) -> Callable[_Params, _Result]:
    """Make a reader raise ProtocolError for malformed bytes."""

    @wraps(function)
    def reader(*args: _Params.args, **kwargs: _Params.kwargs) -> _Result:
        try:
            return function(*args, **kwargs)
        except MALFORMED as error:
            raise ProtocolError(f"truncated or garbled: {error}") from error

    return reader


def read_uvarint(buffer: bytes, at: int) -> tuple[int, int]:
    """An unsigned varint of up to 31 bits.

    :param buffer: where it stands.
    :param at: offset of its first byte.
    :return: the value and the offset after it.
    :raises ProtocolError: when it has more than 31 bits, which Java's reader would overflow.
    :raises IndexError: when the buffer ends inside it.
    """
    value = shift = 0
    while True:
        byte = buffer[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < _VARINT_FLAG:
            break
        shift += 7
        if shift > _LAST_VARINT_SHIFT:
            raise ProtocolError("a varint of more than 5 bytes")
    if value > _MAX_I32:
        raise ProtocolError(f"a varint of {value}, more than 31 bits")
    return value, at


def write_uvarint(value: int) -> bytes:
    """An unsigned varint."""
    if value < _VARINT_FLAG:
        return bytes((value,))
    out = bytearray()
    while value >= _VARINT_FLAG:
        out.append(value & 0x7F | _VARINT_FLAG)
        value >>= 7
    out.append(value)
    return bytes(out)


def write_string(text: str, flexible: bool) -> bytes:
    """A string, compact in flexible versions."""
    raw = text.encode()
    return (write_uvarint(len(raw) + 1) if flexible else _pack_i16(len(raw))) + raw


def write_nullable_string(text: str | None, flexible: bool) -> bytes:
    """A string or null."""
    if text is None:
        return b"\0" if flexible else b"\xff\xff"
    return write_string(text, flexible)


def write_array_length(count: int, flexible: bool) -> bytes:
    """The length of an array that is not null."""
    return write_uvarint(count + 1) if flexible else _pack_i32(count)


def with_length(parts: "list[bytes | memoryview]") -> bytes:
    """One frame of these parts, after its four length bytes."""
    return b"".join((_pack_i32(sum(map(len, parts))), *parts))


def skip_tags(buffer: bytes, at: int) -> int:
    """The offset after a tagged-fields section.

    :raises ProtocolError: when a field claims more bytes than there are, or there are too many fields.
    :raises IndexError: when the buffer ends inside it.
    """
    count = buffer[at]
    if count == 0:
        return at + 1
    count, at = read_uvarint(buffer, at)
    if count > MAX_TAGS:
        raise ProtocolError(f"{count} tagged fields, expected up to {MAX_TAGS}")
    for _ in range(count):
        _, at = read_uvarint(buffer, at)
        size, at = read_uvarint(buffer, at)
        at += size
        if at > len(buffer):
            raise ProtocolError(f"a tagged field of {size} bytes reaches past the end")
    return at


class Cursor:
    """Reads one message from front to back; for messages that are not on the hot path.

    Its methods raise one of `MALFORMED` or ProtocolError: use it inside `guarded` functions.
    """

    __slots__ = ("at", "buffer", "flexible")

    def __init__(self, buffer: bytes, at: int, flexible: bool) -> None:
        self.buffer = buffer
        self.at = at
        self.flexible = flexible

    def skip(self, size: int) -> None:
        """Skip `size` bytes."""
        if size < 0 or self.at + size > len(self.buffer):
            raise ProtocolError(f"{size} bytes announced where {len(self.buffer) - self.at} remain")
        self.at += size

    def i16(self) -> int:
        """A signed 16-bit integer."""
        (value,) = _i16(self.buffer, self.at)
        self.at += 2
        return int(value)

    def i32(self) -> int:
        """A signed 32-bit integer."""
        (value,) = _i32(self.buffer, self.at)
        self.at += 4
        return int(value)

    def i32s(self, count: int) -> tuple[int, ...]:
        """A number of signed 32-bit integers."""
        start = self.at
        self.skip(4 * count)
        return struct.unpack_from(f">{count}i", self.buffer, start)

    def uvarint(self) -> int:
        """An unsigned varint."""
        value, self.at = read_uvarint(self.buffer, self.at)
        return value

    def string(self) -> str:
        """A string that must not be null."""
        text = self.nullable_string()
        if text is None:
            raise ProtocolError("null where a string is required")
        return text

    def nullable_string(self) -> str | None:
        """A string or null."""
        size = self.uvarint() - 1 if self.flexible else self.i16()
        if size < 0:
            return None
        start = self.at
        self.skip(size)
        return str(self.buffer[start : self.at], "utf-8")

    def byte_string(self) -> bytes | None:
        """Bytes or null."""
        size = self.uvarint() - 1 if self.flexible else self.i32()
        if size < 0:
            return None
        start = self.at
        self.skip(size)
        return bytes(self.buffer[start : self.at])

    def array_length(self) -> int:
        """The length of an array that must not be null; never more than the bytes that remain."""
        count = self.nullable_array_length()
        if count < 0:
            raise ProtocolError("null where an array is required")
        return count

    def nullable_array_length(self) -> int:
        """The length of an array, -1 for null; never more than the bytes that remain."""
        count = self.uvarint() - 1 if self.flexible else self.i32()
        if count > len(self.buffer) - self.at:
            raise ProtocolError(
                f"an array of {count} elements where {len(self.buffer) - self.at} bytes remain"
            )
        return max(count, -1)

    def tags(self) -> None:
        """Skip tagged fields, if the version has them."""
        if self.flexible:
            self.at = skip_tags(self.buffer, self.at)
