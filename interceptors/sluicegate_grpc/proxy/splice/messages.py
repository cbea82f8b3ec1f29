"""gRPC messages in a stream's DATA (gRPC over HTTP/2, Length-Prefixed-Message)."""

import zlib
from struct import Struct

PREFIX = 5
"""A flag that tells whether the message is compressed, and its length."""
read_prefix = Struct(">BI").unpack_from
_write_prefix = Struct(">BI").pack
_WINDOW_BITS = {"gzip": 31, "deflate": 15}


class UnreadableError(Exception):
    """A message cannot be read by the gateway: its compression is invalid, or it is too large."""


class UnknownEncodingError(UnreadableError):
    """A message is compressed in a way that the gateway does not know."""


def with_prefix(message: bytes) -> bytes:
    """A message as it stands in a stream, not compressed."""
    return _write_prefix(0, len(message)) + message


def inflated(message: bytes, encoding: str, limit: int) -> bytes:
    """Decompress a message.

    :param encoding: as `grpc-encoding` says.
    :param limit: of the result, in bytes.
    :raises UnknownEncodingError: if the gateway does not know the encoding.
    :raises UnreadableError: if it is malformed or too large.
    """
    bits = _WINDOW_BITS.get(encoding)
    if bits is None:
        raise UnknownEncodingError
    reader = zlib.decompressobj(bits)
    try:
        content = reader.decompress(message, limit)
    except zlib.error:
        raise UnreadableError from None
    # Readers differ in what they make of bytes behind the end: what is decided must be what is read.
    if not reader.eof or reader.unused_data:
        raise UnreadableError
    return content
