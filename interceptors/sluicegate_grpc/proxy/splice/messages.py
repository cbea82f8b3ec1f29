"""gRPC messages in a stream's DATA (gRPC over HTTP/2, Length-Prefixed-Message)."""

import zlib
from struct import Struct

PREFIX = 5
"""A flag that tells whether the message is compressed, and its length."""
read_prefix = Struct(">BI").unpack_from
_write_prefix = Struct(">BI").pack
_WINDOW_BITS = {"gzip": 31, "deflate": 15}


class UnreadableError(Exception):
    """A message cannot be read by the gate: it is not compressed as it says, or too large."""


class UnknownEncodingError(Exception):
    """A message is compressed in a way that the gate does not know."""


def with_prefix(message: bytes) -> bytes:
    """A message as it stands in a stream, not compressed."""
    return _write_prefix(0, len(message)) + message


def inflated(message: bytes, encoding: str, limit: int) -> bytes:
    """What a compressed message holds.

    :param encoding: as `grpc-encoding` says.
    :param limit: of what it may hold, in bytes.
    :raises UnknownEncodingError: if the gate does not know the encoding.
    :raises UnreadableError: if it does not hold together, or too much.
    """
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        raise UnknownEncodingError
    reader = zlib.decompressobj(bits)
    try:
        content = reader.decompress(message, limit)
    except zlib.error:
        raise UnreadableError from None
    if not reader.eof or reader.unused_data:
        raise UnreadableError
    return content
