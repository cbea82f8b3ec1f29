"""The stamp in front of each payload, which identifies the message to consumers."""

import struct
from typing import NamedTuple

from sluicegate_reports.runner.scenario import HEADER_BYTES

_HEADER = struct.Struct(">HHHHIq")
_MAGIC = 0x5C6A
_LOW = 2**32


class Stamp(NamedTuple):
    """Identifies a message."""

    producer: int
    """Index of the producer in the plan."""
    phase: int
    """Index of the phase that it was sent in."""
    sequence: int
    """Its number from its producer, from 0 on; up to 2**48 - 1."""
    published_us: int
    """When it was sent, us since 1970 by the producer's clock."""


def write(stamp: Stamp, size: int) -> bytes:
    """A payload of a size, in bytes, of which the first 20 are the stamp."""
    high, low = divmod(stamp.sequence, _LOW)
    head = _HEADER.pack(_MAGIC, stamp.producer, stamp.phase, high, low, stamp.published_us)
    return head + bytes(size - HEADER_BYTES)


def read(payload: bytes) -> Stamp | None:
    """The stamp of a payload; None if it is not one of the runner's."""
    if len(payload) < HEADER_BYTES:
        return None
    magic, producer, phase, high, low, published = _HEADER.unpack_from(payload)
    return Stamp(producer, phase, high * _LOW + low, published) if magic == _MAGIC else None
