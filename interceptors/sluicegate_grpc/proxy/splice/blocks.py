"""Header blocks. Those of requests are decoded once and cached; the gateway's own need no dynamic table.

A block that neither uses nor fills the dynamic table means the same wherever it stands (RFC 7541), so its
headers can be cached by its bytes. Clients keep to such blocks once they have seen that the table has no
room; what they sent before is encoded again for the broker.
"""

import re
from binascii import b2a_base64
from collections.abc import Iterable
from typing import Final
from urllib.parse import quote

from hpack import Decoder, Encoder, HPACKError, OversizedHeaderListError

from sluicegate_grpc.events import GrpcClose
from sluicegate_grpc.proxy.splice.frames import ErrorCode, WireError, header_frames
from sluicegate_grpc.semantics.status import Refusal

NO_TABLE = b"\x20"
"""A table size of 0 (RFC 7541 section 6.3): the update that a peer waits for which wants no table."""
FAR = 4
"""So many times the limit on headers ends a connection; what is less refuses one call."""
_FIELD_BYTES = 32
"""What a field counts besides name and value (RFC 9113 section 6.5.2)."""
_MAX_UPDATES = 2
_LONG_UPDATE = 0x3F
_LAST_STATIC_INDEX = 61
_LAST_STATIC = 0x80 + _LAST_STATIC_INDEX
_MAX_BEGINNINGS = 256
_STATUS_200 = b"\x88"
_CONTENT_TYPE = b"\x0f\x10\x10application/grpc"
"""Static name 31, not indexed."""
_DEADLINE, _CODED_DEADLINE = (
    Encoder().encode([("grpc-timeout", "")], huffman=coded)[1:-1] for coded in (False, True)
)
"""The name with its length, as text and in Huffman's code (RFC 7541 appendix B)."""
_LITERALS = b"\x00\x10\x40"
"""First bytes of fields whose name is not in the table."""
_HUFFMAN = 0x80
"""Bit of a length: the text that follows is coded."""
_MOST_SHORT = 0x7F
_TIME = re.compile(rb"[0-9]{1,8}[HMSmun]")
_CODED_TIME = re.compile(
    "0b1(?:000(?:0[01]|10)|011(?:001|01[01]|1[01][01])){1,8}"
    "(?:1100011|1101000|1101110|101001|101101|101010)1{0,7}"
)
"""The same in bits of Huffman's code: digits, a unit, and ones up to the next byte."""


class TooLargeError(WireError):
    """A block's headers are too large, and later blocks can still be read."""

    def __init__(self, most: int) -> None:
        super().__init__(
            ErrorCode.ENHANCE_YOUR_CALM, GrpcClose.HEADER_LIST_TOO_LARGE, f"Headers of over {most} bytes"
        )


class RequestBlocks:
    """The header blocks of one direction.

    :param max_list_bytes: of one block's headers.
    """

    __slots__ = ("_decoder", "_max_list_bytes", "is_plain")

    def __init__(self, max_list_bytes: int) -> None:
        self._decoder = Decoder()
        self._max_list_bytes = max_list_bytes
        self.is_plain = False
        """True once there is no table, so that equal blocks have equal headers."""

    def read(self, block: bytes) -> tuple[list[tuple[str, str]], bool]:
        """The headers of a block, and whether a decoder without dynamic table would read the same.

        :raises TooLargeError: if it holds too much, of which as much was read as the table needs.
        :raises WireError: if it cannot be read, or holds far too much; the table is lost then.
        """
        table, most = self._decoder.header_table, self._max_list_bytes
        plain, size = not table.dynamic_entries, table.maxsize
        self._decoder.max_header_list_size = most * FAR if size else most
        try:
            # Values are bytes, and Latin-1 has a character for each.
            headers = [
                (str(name, "latin-1"), str(value, "latin-1"))
                for name, value in self._decoder.decode(block, raw=True)
            ]
        except OversizedHeaderListError as error:
            if not size and not table.maxsize:  # what was not read cannot have changed the table
                raise TooLargeError(most) from None
            raise WireError(
                ErrorCode.ENHANCE_YOUR_CALM, GrpcClose.HEADER_LIST_TOO_LARGE, str(error)
            ) from None
        except (HPACKError, ValueError, IndexError) as error:
            raise WireError(
                ErrorCode.COMPRESSION_ERROR, GrpcClose.HEADER_BLOCK_MALFORMED, str(error)
            ) from None
        finally:
            self.is_plain = table.maxsize == 0
        if size and sum(len(name) + len(value) + _FIELD_BYTES for name, value in headers) > most:
            raise TooLargeError(most)
        return headers, plain and not table.dynamic_entries and table.maxsize == size


def check_updates(block: bytes, *, may_have_table: bool) -> None:
    """Look at the sizes of the table that a block begins with (RFC 7541 sections 4.2 and 6.3).

    A client may keep its old table, which is small.

    :param may_have_table: False once the block's sender has acknowledged that there is no table.
    :raises WireError: if a size is more than was announced, or if there are more than two.
    """
    at = 0
    for _ in range(_MAX_UPDATES + 1):
        if at >= len(block) or block[at] & 0xE0 != 0x20:
            return
        if not may_have_table and block[at] != NO_TABLE[0]:
            break
        if block[at] == _LONG_UPDATE:
            at += 1
            while at < len(block) and block[at] & 0x80:
                at += 1
        at += 1
    raise WireError(
        ErrorCode.COMPRESSION_ERROR, GrpcClose.HEADER_BLOCK_MALFORMED, "a table that was not announced"
    )


class Deadlines:
    """Leaves the value of `grpc-timeout`, another one in each call, out of header blocks without decoding."""

    __slots__ = ("_beginnings",)

    def __init__(self) -> None:
        self._beginnings: set[bytes] = set()
        """Whole fields that stood before the deadline."""

    def without(self, block: bytes) -> bytes | None:
        """A block without the value of its deadline, whose name stays where it is; None if there is none.

        Also None if what is before it has anything unusual, or if it is no time.
        """
        # <hot> Runs for nearly every request with a deadline.
        at = block.find(_DEADLINE)
        begin = at + len(_DEADLINE)
        if at < 0:
            at = block.find(_CODED_DEADLINE)
            begin = at + len(_CODED_DEADLINE)
        before = block[: at - 1]
        if at < 1 or block[at - 1] not in _LITERALS or not self._are_fields(before) or begin == len(block):
            return None
        stop = begin + 1 + (block[begin] & _MOST_SHORT)
        if block[begin] < _HUFFMAN:
            is_time = _TIME.fullmatch(block, begin + 1, stop) is not None
        else:
            bits = bin(int.from_bytes(b"\x01" + block[begin + 1 : stop]))
            is_time = _CODED_TIME.fullmatch(bits) is not None
        return block[:begin] + b"\0" + block[stop:] if is_time and stop <= len(block) else None

    def _are_fields(self, before: bytes) -> bool:
        """Whether a field begins after these bytes."""
        if before in self._beginnings:
            return True
        if not _are_fields(before):
            return False
        if len(self._beginnings) >= _MAX_BEGINNINGS:
            self._beginnings.clear()
        self._beginnings.add(before)
        return True


def _are_fields(block: bytes) -> bool:
    """Whether these are whole fields as RFC 7541 section 6 has them, with indices into the static table."""
    at, stop = 0, len(block)
    try:
        while at < stop:
            first = block[at]
            at += 1
            if first >= 0x80:
                if first > _LAST_STATIC:
                    return False
                continue
            most = 0x3F if first >= 0x40 else 0x0F
            index = first & most
            if index == most:
                index += block[at]
                at += 1
            if 0x20 <= first < 0x40 or index > _LAST_STATIC_INDEX:
                return False
            if not index:
                at += 1 + _short(block[at])
            size = block[at] & 0x7F
            if size == 0x7F:
                size, at = _long(block, at + 1)
            at += 1 + size
    except IndexError:
        return False
    return at == stop


def _short(first: int) -> int:
    """A length of one byte."""
    if first & 0x7F == 0x7F:
        raise IndexError
    return first & 0x7F


def _long(block: bytes, at: int) -> tuple[int, int]:
    """A length of two or three bytes, and the offset of its last one."""
    size = 0x7F + (block[at] & 0x7F)
    if block[at] >= 0x80:
        at += 1
        size += (block[at] & 0x7F) << 7
        if block[at] >= 0x80:
            raise IndexError
    return size, at


def read_alone(block: bytes, max_list_bytes: int) -> list[tuple[str, str]]:
    """The headers of a block whose sender knows that there is no dynamic table.

    :raises WireError: if it cannot be read.
    """
    return RequestBlocks(max_list_bytes).read(block)[0]


def value_alone(block: bytes, name: str, max_list_bytes: int) -> str:
    """One header of such a block; empty if it has none of that name.

    :raises WireError: if it cannot be read.
    """
    return dict(read_alone(block, max_list_bytes)).get(name, "")


def encode(headers: Iterable[tuple[str, str]]) -> bytes:
    """A block that any decoder can read; it leaves the dynamic table empty."""
    return NO_TABLE + b"".join(
        literal(name.encode("latin-1"), value.encode("latin-1")) for name, value in headers
    )


def literal(name: bytes, value: bytes) -> bytes:
    """A header that is not indexed (RFC 7541 section 6.2.2), without Huffman coding."""
    return b"\x00" + _length(len(name)) + name + _length(len(value)) + value


def _length(size: int) -> bytes:
    if size < 0x7F:
        return bytes((size,))
    out = bytearray((0x7F,))
    size -= 0x7F
    while size >= 0x80:
        out.append(size & 0x7F | 0x80)
        size >>= 7
    out.append(size)
    return bytes(out)


def trailers(refusal: Refusal, *, alone: bool) -> bytes:
    """The block that ends a call (gRPC over HTTP/2, Trailers and Trailers-Only).

    :param alone: True if the response has no other headers.
    """
    parts = [NO_TABLE, _STATUS_200, _CONTENT_TYPE] if alone else [NO_TABLE]
    parts.append(literal(b"grpc-status", str(refusal.code).encode()))
    parts.append(literal(b"grpc-message", quote(refusal.text, safe=_UNQUOTED).encode()))
    for name, value in refusal.trailers:
        coded = value.encode() if isinstance(value, str) else b2a_base64(value, newline=False).rstrip(b"=")
        parts.append(literal(name.encode(), coded))
    return b"".join(parts)


def ending(stream: int, refusal: Refusal, *, alone: bool) -> bytes:
    """The frames that end a call with a refusal.

    :param alone: True if the response has no other headers.
    """
    return header_frames(stream, trailers(refusal, alone=alone), end=True)


_UNQUOTED: Final = "".join(chr(code) for code in range(0x20, 0x7F) if chr(code) != "%")
