"""Records compressed as Kafka's clients do it, by libraries other than the gateway's."""

import gzip
import struct

import lz4.frame
import pyarrow
import zstandard

GZIP, SNAPPY, LZ4, ZSTD = 1, 2, 3, 4


def packed(form: str, records: bytes) -> tuple[int, bytes]:
    """Codec and compressed records.

    :param form: `gzip`, `lz4`, `zstd`, `snappy`, or `xerial`: snappy in the Java client's framing.
    """
    if form == "gzip":
        return GZIP, gzip.compress(records)
    if form == "lz4":
        return LZ4, lz4.frame.compress(records, block_linked=False)
    if form == "zstd":
        return ZSTD, zstandard.ZstdCompressor(write_content_size=False).compress(records)
    if form == "snappy":
        return SNAPPY, _snappy(records)
    blocks = [_snappy(records[at : at + 32_768]) for at in range(0, len(records), 32_768)]
    framed = b"".join(struct.pack(">i", len(block)) + block for block in blocks)
    return SNAPPY, b"\x82SNAPPY\0" + struct.pack(">ii", 1, 1) + framed


def _snappy(raw: bytes) -> bytes:
    return bytes(pyarrow.compress(raw, codec="snappy", asbytes=True))


FORMS = ("gzip", "snappy", "xerial", "lz4", "zstd")


def packed_batch(plain: bytes, form: str) -> bytes:
    """An uncompressed batch with its records compressed; nothing here looks at its checksum."""
    codec, records = packed(form, plain[61:])
    length = (49 + len(records)).to_bytes(4, "big")
    attributes = (int.from_bytes(plain[21:23], "big") | codec).to_bytes(2, "big")
    return plain[:8] + length + plain[12:21] + attributes + plain[23:61] + records
