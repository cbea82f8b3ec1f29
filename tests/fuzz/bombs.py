"""Few bytes that ask for much work: what unpacks to a lot, messages with many headers or properties."""

import struct
from functools import cache
from random import Random

from tests.grpc.proxy.splice.oracle.service import varint
from tests.kafka.codec.packing import FORMS, packed_batch
from tests.kafka.session.messages import batch

from sluicegate_pulsar.codec import pulsar_pb2 as pb

_UNPACKED = 128 * 1024
_HEADERS = 1_000
"""In one record, or properties in one message; the most that the product adds up."""
FRAMED = 61
"""Bytes of a Kafka batch before its records."""


def _number(value: int) -> bytes:
    """A number of a Kafka record that is not negative, in its zigzag form."""
    return varint(value << 1)


def _record(value: bytes = b"", headers: int = 0) -> bytes:
    body = bytes(3) + _number(0) + _number(len(value)) + value + _number(headers) + b"\0\0" * headers
    return _number(len(body)) + body


def _of_records(record: bytes, count: int) -> bytes:
    """An uncompressed batch of the same record again and again; nothing reads its checksum."""
    head = bytearray(batch(b"")[:FRAMED])
    struct.pack_into(">i", head, 8, FRAMED - 12 + count * len(record))
    struct.pack_into(">i", head, 23, count - 1)
    struct.pack_into(">i", head, 57, count)
    return bytes(head) + record * count


def _filling(record: bytes) -> bytes:
    return _of_records(record, _UNPACKED // len(record))


@cache
def kafka_batches() -> tuple[bytes, ...]:
    """Batches that unpack to empty headers, empty records or a large value, and headers as they are."""
    headers, empty = _filling(_record(headers=_HEADERS)), _filling(_record())
    large = _filling(_record(bytes(_UNPACKED - 99)))
    return (
        *(packed_batch(headers, form) for form in FORMS),
        packed_batch(empty, "gzip"),
        packed_batch(empty, "zstd"),
        packed_batch(large, "zstd"),
        _of_records(_record(headers=_HEADERS), 5),
    )


def kafka_batch_for_a_thread() -> bytes:
    """A batch that is not unpacked in the event loop, as it is not small."""
    return packed_batch(_of_records(_record(Random(1).randbytes(32 * 1024)), 1), "gzip")


@cache
def pulsar_batch(count: int) -> bytes:
    """The payload of a batch of so many messages, each with many properties."""
    properties = [pb.KeyValue(key="", value="")] * _HEADERS
    single = pb.SingleMessageMetadata(payload_size=1, properties=properties).SerializeToString()
    return (struct.pack(">I", len(single)) + single + b"x") * count


def header_block(block: bytes) -> bytes:
    """An HPACK block, and behind it one field that each further byte repeats.

    RFC 7541, 6.1 and 6.2.1: the field enters the dynamic table, whose first entry has the index 62.
    """
    return block + b"\x40" + b"\x01a" + b"\x7f" + varint(1_000 - 127) + b"b" * 1_000 + b"\xbe" * 2_000
