"""Keys of entries, and the consumers that they map to."""

import base64
from typing import Any

import pytest

from sluicegate_pulsar.codec.pulsar_pb2 import MessageMetadata
from sluicegate_pulsar.reference.hash_ranges import key_of, murmur3, slot_of


# Of the hash's own test vectors, cut to 31 bits.
@pytest.mark.parametrize(
    ("data", "expected"),
    [
        (b"", 0),
        (b"a", 0x3C2569B2),
        (b"test", 0xBA6BD213 & 0x7FFF_FFFF),
        (b"hello", 0x248BFA47),
        (b"hello, world", 0x149BBB7F),
        (b"The quick brown fox jumps over the lazy dog", 0x2E4FF723),
    ],
)
def test_hash(data: bytes, expected: int) -> None:
    assert murmur3(data) == expected


def metadata(**fields: Any) -> MessageMetadata:
    return MessageMetadata(producer_name="p", sequence_id=7, publish_time=0, **fields)


def test_ordering_key_comes_before_the_key() -> None:
    assert key_of(metadata(partition_key="a", ordering_key=b"b")) == b"b"
    assert key_of(metadata(partition_key="a")) == b"a"


def test_reads_keys_in_base64() -> None:
    text = base64.b64encode(b"\xff\0").decode()
    assert key_of(metadata(partition_key=text, partition_key_b64_encoded=True)) == b"\xff\0"
    assert key_of(metadata(partition_key="no base64!", partition_key_b64_encoded=True)) == b"no base64!"


def test_entries_without_a_key_spread() -> None:
    assert key_of(metadata()) == b"p-7"
    slots = {slot_of(b"p-%d" % number) for number in range(100)}
    assert len(slots) > 90
    assert max(slots) < 1 << 16
