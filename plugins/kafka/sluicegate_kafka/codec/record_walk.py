"""The size of single records in large batches, found in slices: a batch may hold a million of them.

The walk only decides whether a message is over a limit. It ends at the first one that is, and as
soon as the rest is too small to hold one.
"""

from collections.abc import Iterable
from typing import Final

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.records import (
    BATCH_OVERHEAD,
    COMPRESSION_MASK,
    MAGIC,
    SMALLEST_RECORD,
    Batch,
    batch_payload_size,
    read_varint,
    record_payload,
    walk_batches,
)
from sluicegate_kafka.codec.slices import Slices

RECORDS_PER_SLICE: Final = 10_000
"""Records passed over in one slice: about a millisecond."""
_LOOK, _HEADER = 64, 16
"""Looking into a record, and into each of its headers, takes as long as passing over so many."""
_LARGEST_SHORT = 0x80
_FEWEST_BITS = 2 * SMALLEST_RECORD
"""The length of the shortest record, as it is written: one byte, a zigzag number."""


def largest_message(buffer: bytes, spans: Iterable[tuple[int, int]], limit: int) -> Slices[int]:
    """The size of the largest message in some record sets, in bytes of key, value and headers.

    Exact as far as a limit is concerned: it is over the limit if and only if a message is. It is the size of
    the first message over the limit if there is one, else that of the largest record that was measured.
    Compressed batches are not opened: there the whole payload of the batch counts, as it does for brokers.

    :param buffer: what holds the record sets.
    :param spans: where each of them starts and ends.
    :param limit: of one message, in bytes.
    :raises ProtocolError: when records do not fit into their batch; what is not walked is not checked.
    """
    largest = 0
    for start, end in spans:
        for batch in walk_batches(buffer, start, end):
            if batch.magic != MAGIC or batch.attributes & COMPRESSION_MASK:
                largest = max(largest, batch_payload_size(batch))
            else:
                largest = max(largest, (yield from _largest_in(buffer, batch, limit)))
            if largest > limit:
                return largest
    return largest


def _largest_in(buffer: bytes, batch: Batch, limit: int) -> Slices[int]:
    """The same for one batch that is not compressed."""
    at, end = batch.offset + BATCH_OVERHEAD, batch.offset + batch.size
    left = batch.record_count
    longest = largest = 0
    while end - at > limit:
        work = RECORDS_PER_SLICE
        while work > 0 and end - at > limit:
            work -= 1
            left -= 1
            if left < 0:
                raise ProtocolError(f"more records in a batch than the {batch.record_count} that it claims")
            size = buffer[at]
            if size < _LARGEST_SHORT and not size & 1 and size >= _FEWEST_BITS:
                size >>= 1
                at += 1
            else:
                size, at = read_varint(buffer, at, end)
            if not SMALLEST_RECORD <= size <= end - at:
                raise ProtocolError(f"a record of {size} bytes where {end - at} remain in its batch")
            # A message takes at least six bytes less than its record; equal records need no second look.
            if size > longest or size > limit + SMALLEST_RECORD:
                payload, headers = record_payload(buffer, at, at + size)
                work -= _LOOK + _HEADER * headers
                longest = max(longest, size)
                largest = max(largest, payload)
                if largest > limit:
                    return largest
            at += size
        if end - at > limit:
            yield
    return largest
