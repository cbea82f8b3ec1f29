"""Compressed payloads as Pulsar's clients write them: bare blocks of LZ4 or Snappy, zlib, Zstandard."""

import zlib
from collections.abc import Mapping
from typing import Final

import pyarrow

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.pulsar_pb2 import MessageMetadata
from sluicegate_pulsar.codec.varints import read_uvarint

_CODECS: Final[Mapping[int, str]] = {
    MessageMetadata.LZ4: "lz4_raw",
    MessageMetadata.ZSTD: "zstd",
    MessageMetadata.SNAPPY: "snappy",
}
"""pyarrow's names."""


def unpacked(compression: int, packed: bytes, size: int) -> bytes:
    """The content of a payload.

    :param compression: a value of MessageMetadata.CompressionType.
    :param packed: the payload.
    :param size: bytes of its content, which the caller has bounded.
    :raises ProtocolError: when it is damaged, of another size, or compressed in an unknown way.
    """
    if compression == MessageMetadata.NONE:
        return packed
    try:
        if compression == MessageMetadata.ZLIB:
            content = _inflated(packed, size)
        elif compression in _CODECS:
            content = _decompressed(compression, packed, size)
        else:
            raise ProtocolError(f"compression {compression}, which is unknown")
    except (pyarrow.ArrowException, OSError, zlib.error, IndexError) as error:
        raise ProtocolError(f"a compressed payload that is damaged or not of {size} bytes") from error
    if content is None:
        raise ProtocolError(f"a compressed payload whose content is not of {size} bytes")
    return content


def packed(compression: int, content: bytes) -> bytes:
    """A payload with this content; `compression` is one that `unpacked` knows."""
    if compression == MessageMetadata.NONE:
        return content
    if compression == MessageMetadata.ZLIB:
        return zlib.compress(content)
    payload: bytes = pyarrow.compress(content, codec=_CODECS[compression], asbytes=True)
    return payload


def _inflated(packed: bytes, size: int) -> bytes | None:
    inflater = zlib.decompressobj()
    content = inflater.decompress(packed, size + 1)
    return content if inflater.eof and len(content) == size else None


def _decompressed(compression: int, packed: bytes, size: int) -> bytes | None:
    """The content; None if it is shorter. pyarrow would fill it up with whatever lies in memory."""
    if compression == MessageMetadata.SNAPPY and read_uvarint(packed, 0)[0] != size:
        return None
    codec = _CODECS[compression]
    content: bytes = pyarrow.decompress(packed, decompressed_size=size, codec=codec, asbytes=True)
    if compression == MessageMetadata.LZ4 and _fits(packed, size - 1):
        return None
    return content


def _fits(packed: bytes, size: int) -> bool:
    """Whether the content of a block of LZ4, which does not say its size, has at most so many bytes."""
    if size < 0:
        return False
    try:
        pyarrow.decompress(packed, decompressed_size=size, codec="lz4_raw")
    except OSError:
        return False
    return True
