"""The size of single records, found in slices: a batch may hold a million of them.

A walk only decides whether a message is over a limit, so it looks into few records.
"""

import sys
from collections.abc import Iterable
from typing import Final

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.records import (
    BATCH_OVERHEAD,
    COMPRESSION_MASK,
    MAGIC,
    MAX_HEADERS,
    SMALLEST_RECORD,
    Batch,
    Bytes,
    batch_payload_size,
    headers_size,
    read_varint,
    record_head,
    walk_batches,
)
from sluicegate_kafka.codec.slices import Slices

RECORDS_PER_SLICE: Final = 4_000
"""Records passed over in one slice: half a millisecond. It is the unit of `Walk.work` as well."""
LOOK: Final = 64
"""Looking into a record takes as long as passing over so many."""
HEADER: Final = 4
"""Adding up a header takes as long as passing over so many."""
MAX_OVERHEAD: Final = 1 + 5 * 10 + MAX_HEADERS * 2 * 10
"""Bytes of a record besides key, value and headers, at most, if its headers are added up."""
_LARGEST_SHORT = 0x80
_FEWEST_BITS = 2 * SMALLEST_RECORD
"""The length of the shortest record, as it is written: one byte, a zigzag number."""


class Slice:
    """What is left of a slice; many short walks, one after the other, are as long as a long one."""

    __slots__ = ("left",)

    def __init__(self) -> None:
        self.left = RECORDS_PER_SLICE
        """In records passed over; 0 or less once others should have their turn."""

    def end(self) -> Slices[None]:
        """Let others have their turn if nothing is left."""
        if self.left <= 0:
            self.left = RECORDS_PER_SLICE
            yield


class Walk:
    """What a walk over the records of one batch knows, and what it may still cost.

    :param limit: of one message, in bytes.
    :param claimed: how many records there are by the batch's header; the walk ends at the first beyond that.
    :param current: the slice that it begins in.
    :param work: what it may cost, in records passed over.
    """

    __slots__ = ("_slice", "claimed", "largest", "left", "limit", "longest", "work")

    def __init__(self, limit: int, claimed: int, current: Slice, work: int = sys.maxsize) -> None:
        self._slice = current
        self.limit = limit
        self.claimed = self.left = claimed
        self.work = work
        self.longest = 0
        """Bytes of the longest record that was looked into."""
        self.largest = 0
        """Bytes of key, value and headers of the largest message: exact as far as the limit is concerned.

        It is over the limit if and only if a message is, where one with more than `MAX_HEADERS` counts
        whole; the first such message ends the walk.
        """

    def over(self, buffer: Bytes, at: int, end: int, enough: int = 0) -> Slices[int]:
        """Walk whole records.

        :param buffer: what holds them.
        :param at: where the first of them starts.
        :param end: the offset after the last.
        :param enough: ends the walk where no more bytes are left.
        :return: the offset of the first record that was not walked, or that is not whole.
        :raises ProtocolError: when they are not records, more than claimed, or cost too much.
        """
        over = self.limit + SMALLEST_RECORD
        left, longest = self.left, self.longest
        while end - at > enough:
            yield from self._slice.end()
            work = self._slice.left
            while work > 0 and end - at > enough:
                start = at
                size = buffer[at]
                if size < _LARGEST_SHORT and not size & 1 and size >= _FEWEST_BITS:
                    size >>= 1
                    at += 1
                else:
                    size, at = read_varint(buffer, at, end)
                    if size < SMALLEST_RECORD:
                        raise misfit(size, end - at)
                if size > end - at:
                    self.left = left
                    self.charge(self._slice.left - work)
                    return start
                work -= 1
                left -= 1
                if left < 0:
                    raise ProtocolError(f"more records in a batch than the {self.claimed} that it claims")
                # A message takes at least six bytes less than its record; equal records need no second look.
                if size > longest or size > over:
                    work -= self._look(buffer, at, at + size)
                    longest = self.longest
                    if self.largest > self.limit:
                        self._slice.left = work
                        return at + size
                at += size
            self.left = left
            self.charge(self._slice.left - work)
        return at

    def _look(self, buffer: Bytes, at: int, end: int) -> int:
        """Measure a record.

        :return: what it cost.
        """
        size = end - at
        payload, headers, at = record_head(buffer, at, end)
        work = LOOK
        if headers > MAX_HEADERS:
            payload = size  # to add them all up would take too long
        else:
            work += HEADER * headers
            if work > self.work:
                raise too_much_work()
            payload += headers_size(buffer, at, end, headers)
        self.longest = max(self.longest, size)
        self.largest = max(self.largest, payload)
        return work

    def charge(self, work: int) -> None:
        """Count what was done.

        :raises ProtocolError: when that is more than it may cost.
        """
        self._slice.left -= work
        self.work -= work
        if self.work < 0:
            raise too_much_work()


def misfit(size: int, left: int) -> ProtocolError:
    """A record's length contradicts the bytes that are there."""
    return ProtocolError(f"a record of {size} bytes where {left} remain in its batch")


def too_much_work() -> ProtocolError:
    """A walk has cost what it may."""
    return ProtocolError("more small pieces or headers in a request than are inspected")


def largest_message(
    buffer: bytes, spans: Iterable[tuple[int, int]], limit: int, current: Slice
) -> Slices[int]:
    """The size of the largest message in some record sets, in bytes of key, value and headers.

    Exact as far as a limit is concerned: it is over the limit if and only if a message is. It is the size of
    the first message over the limit if there is one, else that of the largest record that was measured.
    Compressed batches are not opened: there the whole payload of the batch counts, as it does for brokers.

    :param buffer: what holds the record sets.
    :param spans: where each of them starts and ends.
    :param limit: of one message, in bytes.
    :param current: the slice that it begins in.
    :raises ProtocolError: when records do not fit into their batch; what is not walked is not checked.
    """
    largest = 0
    for start, end in spans:
        for batch in walk_batches(buffer, start, end):
            if batch.magic != MAGIC or batch.attributes & COMPRESSION_MASK:
                largest = max(largest, batch_payload_size(batch))
            else:
                largest = max(largest, (yield from _largest_in(buffer, batch, limit, current)))
            if largest > limit:
                return largest
    return largest


def _largest_in(buffer: bytes, batch: Batch, limit: int, current: Slice) -> Slices[int]:
    """The same for one batch that is not compressed."""
    walk = Walk(limit, batch.record_count, current)
    at, end = batch.offset + BATCH_OVERHEAD, batch.offset + batch.size
    at = yield from walk.over(buffer, at, end, limit)
    if walk.largest <= limit < end - at:
        raise misfit(*_cut_off(buffer, at, end))
    return walk.largest


def _cut_off(buffer: Bytes, at: int, end: int) -> tuple[int, int]:
    """The length of a record that is not whole, and the bytes that are there."""
    size, at = read_varint(buffer, at, end)
    return size, end - at
