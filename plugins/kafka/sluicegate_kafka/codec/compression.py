"""Compressed records, unpacked piece by piece and within a bound, in the forms that Kafka's clients write."""

import struct
from collections.abc import Iterator
from typing import Final

import pyarrow

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.primitives import MALFORMED, read_uvarint
from sluicegate_kafka.codec.unpacked_walk import PIECE, too_large

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

_STREAMS: Final = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
"""Codecs whose data mark their own end, by pyarrow's names; its lz4 is the frame format, as Kafka's is."""
MEMORY: Final = {GZIP: 0, SNAPPY: 0, LZ4: 8 << 20, ZSTD: 128 << 20}
"""Bytes that unpacking keeps besides a piece, once as many are unpacked: the largest window, or two of the
largest blocks."""
_XERIAL = b"\x82SNAPPY\0"
"""How snappy-java's framing starts: this, two version numbers, then lengths and blocks of raw snappy."""
_XERIAL_HEAD = 16
_block_length = struct.Struct(">i").unpack_from


def unpacked(codec: int, packed: bytes, limit: int) -> Iterator[bytes]:
    """The records of a compressed batch, in pieces of at least `PIECE` bytes; only the last may be smaller.

    :param codec: the lowest bits of the batch's attributes.
    :param packed: the batch without its header.
    :param limit: the largest result in bytes, all pieces together.
    :raises ProtocolError: when they are damaged, too large, or compressed in another way.
    """
    try:
        if codec == SNAPPY:
            yield from _unpacked_snappy(packed, limit)
        elif codec in _STREAMS:
            yield from _unpacked_stream(_STREAMS[codec], packed, limit)
        else:
            raise ProtocolError(f"compression {codec}, which Kafka does not have")
    except (pyarrow.ArrowException, OSError) as error:
        raise ProtocolError(f"damaged {_name(codec)} data") from error
    except MALFORMED as error:
        raise ProtocolError(f"truncated or garbled: {error}") from error


def _name(codec: int) -> str:
    return _STREAMS.get(codec, "snappy")


def _unpacked_stream(name: str, packed: bytes, limit: int) -> Iterator[bytes]:
    size = 0
    with pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), name) as stream:
        while piece := stream.read(PIECE):
            size += len(piece)
            if size > limit:
                raise too_large(limit)
            yield piece


def _unpacked_snappy(packed: bytes, limit: int) -> Iterator[bytes]:
    """Raw, as librdkafka writes it, or framed, as the Java client does."""
    if not packed.startswith(_XERIAL):
        yield _unpacked_block(packed, limit, 0)
        return
    piece = bytearray()
    size, at = 0, _XERIAL_HEAD
    while at < len(packed):
        (length,) = _block_length(packed, at)
        at += 4
        if not 0 < length <= len(packed) - at:
            raise ProtocolError(f"a snappy block of {length} bytes where {len(packed) - at} remain")
        block = _unpacked_block(packed[at : at + length], limit, size)
        size += len(block)
        at += length
        piece += block
        if len(piece) >= PIECE:
            yield bytes(piece)
            piece.clear()
    yield bytes(piece)


def _unpacked_block(packed: bytes, limit: int, before: int) -> bytes:
    """Raw snappy after a prefix; it starts with the size of its content."""
    size, _ = read_uvarint(packed, 0)
    if before + size > limit:
        raise too_large(limit)
    block: bytes = pyarrow.decompress(packed, decompressed_size=size, codec="snappy", asbytes=True)
    return block
