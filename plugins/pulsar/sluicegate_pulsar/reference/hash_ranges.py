"""Keys and the hash range that Key_Shared subscriptions divide among their consumers."""

import base64
import binascii
from struct import Struct

from sluicegate_pulsar.codec.pulsar_pb2 import MessageMetadata

SLOTS = 1 << 16
"""The hash range: clients that ask for ranges of their own name parts of it."""
_MASK = 0xFFFF_FFFF
_block = Struct("<I").unpack_from


def key_of(metadata: MessageMetadata) -> bytes:
    """The routing key of an entry: its ordering key, else its key.

    An entry with neither has a key of its own, so that such entries spread over the consumers.
    """
    if metadata.HasField("ordering_key"):
        return metadata.ordering_key
    if not metadata.HasField("partition_key"):
        return f"{metadata.producer_name}-{metadata.sequence_id}".encode()
    if metadata.partition_key_b64_encoded:
        try:
            return base64.b64decode(metadata.partition_key, validate=True)
        except binascii.Error:
            pass  # a key that only claims to be base64 is still a key
    return metadata.partition_key.encode()


def slot_of(key: bytes) -> int:
    """The slot of a key in the hash range, by the hash that Pulsar and its clients use."""
    return murmur3(key) % SLOTS


def murmur3(data: bytes) -> int:
    """MurmurHash3, 32 bit, x86, seed 0, with the sign bit cleared as in Pulsar."""
    state = 0
    whole = len(data) & ~3
    for at in range(0, whole, 4):
        state ^= _scrambled(_block(data, at)[0])
        state = (_rotated(state, 13) * 5 + 0xE654_6B64) & _MASK
    if whole < len(data):
        state ^= _scrambled(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = ((state ^ state >> 16) * 0x85EB_CA6B) & _MASK
    state = ((state ^ state >> 13) * 0xC2B2_AE35) & _MASK
    return (state ^ state >> 16) & 0x7FFF_FFFF


def _scrambled(block: int) -> int:
    return _rotated(block * 0xCC9E_2D51 & _MASK, 15) * 0x1B87_3593 & _MASK


def _rotated(value: int, bits: int) -> int:
    return (value << bits | value >> 32 - bits) & _MASK
