"""Compressed records, unpacked within a bound, in the forms that Kafka's clients write."""

import struct
from typing import Final

import pyarrow

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.primitives import guarded, read_uvarint

GZIP: Final = 1
SNAPPY: Final = 2
LZ4: Final = 3
ZSTD: Final = 4

_STREAMS: Final = {GZIP: "gzip", LZ4: "lz4", ZSTD: "zstd"}
"""Codecs whose data mark their own end, by pyarrow's names; its lz4 is the frame format, as Kafka's is."""
_CHUNK = 1 << 20
_XERIAL = b"\x82SNAPPY\0"
"""How snappy-java's framing starts: this, two version numbers, then lengths and blocks of raw snappy."""
_XERIAL_HEAD = 16
_block_length = struct.Struct(">i").unpack_from


def unpacked(codec: int, packed: bytes, limit: int) -> bytes:
    """The records of a compressed batch.

    :param codec: the lowest bits of the batch's attributes.
    :param packed: the batch without its header.
    :param limit: the largest result in bytes; unpacking uses about as much memory.
    :raises ProtocolError: when they are damaged, too large, or compressed in another way.
    """
    try:
        if codec == SNAPPY:
            return _unpacked_snappy(packed, limit)
        if codec in _STREAMS:
            return _unpacked_stream(_STREAMS[codec], packed, limit)
    except (pyarrow.ArrowException, OSError) as error:
        raise ProtocolError(f"damaged {_name(codec)} data") from error
    raise ProtocolError(f"compression {codec}, which Kafka does not have")


def _name(codec: int) -> str:
    return _STREAMS.get(codec, "snappy")


def _unpacked_stream(name: str, packed: bytes, limit: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    with pyarrow.CompressedInputStream(pyarrow.BufferReader(packed), name) as stream:
        while chunk := stream.read(_CHUNK):
            size += len(chunk)
            if size > limit:
                raise _too_large(limit)
            chunks.append(chunk)
    return b"".join(chunks)


@guarded
def _unpacked_snappy(packed: bytes, limit: int) -> bytes:
    """Raw, as librdkafka writes it, or framed, as the Java client does."""
    if not packed.startswith(_XERIAL):
        return _unpacked_block(packed, limit, 0)
    blocks: list[bytes] = []
    size, at = 0, _XERIAL_HEAD
    while at < len(packed):
        (length,) = _block_length(packed, at)
        at += 4
        if not 0 < length <= len(packed) - at:
            raise ProtocolError(f"a snappy block of {length} bytes where {len(packed) - at} remain")
        blocks.append(_unpacked_block(packed[at : at + length], limit, size))
        size += len(blocks[-1])
        at += length
    return b"".join(blocks)


def _unpacked_block(packed: bytes, limit: int, before: int) -> bytes:
    """Raw snappy after a prefix; it starts with the size of its content."""
    size, _ = read_uvarint(packed, 0)
    if before + size > limit:
        raise _too_large(limit)
    block: bytes = pyarrow.decompress(packed, decompressed_size=size, codec="snappy", asbytes=True)
    return block


def _too_large(limit: int) -> ProtocolError:
    return ProtocolError(f"more than the {limit} bytes that are unpacked at most")
