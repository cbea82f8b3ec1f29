"""Large batches walked in slices: as exact as a limit needs, and no slice longer than it may be."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.schema import NewRecordBatch
from tests.kafka.codec.entities import BATCHES, record_size, write_record_batch

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.record_walk import RECORDS_PER_SLICE, Slice, largest_message
from sluicegate_kafka.codec.records import BATCH_OVERHEAD, MAX_HEADERS
from sluicegate_kafka.codec.slices import at_once

TINY = b"\x0c\0\0\0\x01\x01\0"
"""A record of seven bytes: neither key nor value nor headers."""


def varint(number: int) -> bytes:
    """A signed varint of a number that is not negative."""
    out, number = bytearray(), number << 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def record(value: int, headers: int = 0, delta: bytes = b"\0") -> bytes:
    """A record with so many bytes of value, and so many empty headers.

    :param delta: its timestamp, as it is written.
    """
    rest = b"\0" + delta + b"\0\x01" + varint(value) + bytes(value) + varint(headers) + bytes(2 * headers)
    return varint(len(rest)) + rest


def stored(*records: bytes, count: int | None = None, attributes: int = 0, magic: int = 2) -> bytes:
    """A batch of these records."""
    content = b"".join(records)
    length, count = BATCH_OVERHEAD - 12 + len(content), len(records) if count is None else count
    return (
        struct.pack(">qiibIhiqqqhii", 0, length, 0, magic, 0, attributes, 0, 10, 20, -1, -1, -1, count)
        + content
    )


def largest(raw: bytes, limit: int) -> int:
    return at_once(largest_message(raw, [(0, len(raw))], limit, Slice()))


def turns(raw: bytes, limit: int) -> int:
    """How often a walk lets others have their turn."""
    return sum(1 for _ in largest_message(raw, [(0, len(raw))], limit, Slice()))


@given(st.lists(BATCHES, min_size=1, max_size=3), st.integers(1, 300))
def test_the_walk_decides_as_the_largest_message_does(batches: list[NewRecordBatch], limit: int) -> None:
    buffer = b"".join(map(write_record_batch, batches))
    found = largest(buffer, limit)
    exact = max(record_size(record) for batch in batches for record in batch.records)
    assert (found > limit) == (exact > limit)
    assert found <= exact


@pytest.mark.parametrize(
    ("values", "found"), [((10, 1_001, 5), 1_001), ((3, 1_002, 1_001), 1_002), ((1_000, 2), 1_000), ((7,), 0)]
)
def test_the_first_message_over_the_limit_is_named(values: tuple[int, ...], found: int) -> None:
    assert largest(stored(*map(record, values)), 1_000) == found


def test_the_largest_of_several_record_sets_counts() -> None:
    sets = [stored(record(30)), stored(record(50)), stored(record(40))]
    buffer, ends = b"".join(sets), [sum(map(len, sets[: number + 1])) for number in range(3)]
    spans = list(zip([0, *ends], ends, strict=False))
    assert at_once(largest_message(buffer, spans, 50, Slice())) == 50
    assert at_once(largest_message(buffer, spans, 39, Slice())) == 50
    assert at_once(largest_message(buffer, spans, 30, Slice())) == 50
    assert at_once(largest_message(buffer, [], 10, Slice())) == 0


@pytest.mark.parametrize(("attributes", "magic"), [(1, 2), (4, 2), (7, 2), (0, 1)])
def test_the_whole_payload_counts_where_records_cannot_be_read(attributes: int, magic: int) -> None:
    raw = stored(b"not a record", attributes=attributes, magic=magic)
    counted = len(raw) if magic < 2 else 12
    assert largest(raw, counted) == counted
    assert largest(raw + raw if magic == 2 else raw, counted - 1) == counted


@pytest.mark.parametrize("size", range(62, 67))
def test_lengths_of_one_and_two_bytes_are_read(size: int) -> None:
    """64 is the first that takes two bytes; the first of them is 0x80."""
    raw = record(size - 6)
    assert len(raw) == size + 1 + (size > 63)
    assert largest(stored(raw, raw, record(200)), 150) == 200


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (b"\x0d" + bytes(20), "a record of -7 bytes where 20 remain"),
        (b"\x0a" + bytes(20), "a record of 5 bytes where 20 remain"),
        (b"\x80\x02" + bytes(20), "a record of 128 bytes where 20 remain"),
        (b"\x2a" + bytes(20), "a record of 21 bytes where 20 remain"),
        (b"\x80" * 20, "^a varint that does not end$"),
        (TINY * 3, "more records in a batch than the 1 that it claims"),
    ],
)
def test_records_that_do_not_fit_into_their_batch_are_refused(records: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        largest(stored(records, count=1), 10)


def test_the_walk_ends_where_no_message_over_the_limit_has_room() -> None:
    assert largest(stored(TINY, b"garbage", count=1), 7) == 0
    with pytest.raises(ProtocolError):
        largest(stored(TINY, b"garbage", count=1), 6)


def test_records_of_equal_size_may_hold_messages_of_different_sizes() -> None:
    limit = 10
    smaller, larger = record(limit, delta=b"\x80\x01"), record(limit + 1)
    assert len(smaller) == len(larger)
    assert largest(stored(smaller, larger), limit) == limit + 1


def test_a_smaller_record_is_not_measured_again() -> None:
    garbage = b"\x0c" + b"\xff" * 6
    assert largest(stored(TINY, garbage, TINY * 2, count=4), 5) == 0


def test_small_records_take_a_slice_for_each_four_thousand() -> None:
    count = 10 * RECORDS_PER_SLICE
    # The first slice also looks into the first record, which takes as long as 64 others.
    assert turns(stored(TINY * count, count=count), 1_000) == 9
    exact = RECORDS_PER_SLICE - 64
    assert turns(stored(TINY * exact, bytes(10), count=exact), 10) == 0
    assert turns(stored(TINY * exact, TINY * 2, count=exact + 2), 10) == 1


def test_headers_take_as_long_as_four_records_each() -> None:
    headers = 600  # 2,400, and 65 for the record: the second of each slice uses it up
    assert turns(stored(*[record(0, headers)] * 100), 900) == 49


def test_a_record_with_too_many_headers_counts_whole() -> None:
    for headers, counted in ((MAX_HEADERS, 0), (MAX_HEADERS + 1, 5 + 2 + 2 * 1_001)):
        assert largest(stored(record(0, headers)), 1_900) == counted


@pytest.mark.parametrize(
    ("records", "reason"),
    [
        (b"\x0c\0\0\0\x08ab", "a field of 4 bytes where 2 remain"),
        (b"\x0c\0\0\0\x01\x01\x05", "-3 headers"),
        (b"\x0c\0\0\0\x01\x01\x7f", "-64 headers"),
        (b"\x0e\0\0\0\x01\x01\x00z", "1 bytes left over in a record"),
        (b"\x0c\0\x80\x80\x80\x80\x80", "^a varint that does not end$"),
    ],
)
def test_malformed_records_are_refused(records: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        largest(stored(records), 1)


def test_records_without_size_are_refused_at_once() -> None:
    """Megabytes of zeros compress to nothing; walking each of them would take minutes."""
    with pytest.raises(ProtocolError, match="a record of 0 bytes"):
        largest(stored(bytes(1 << 20), count=1 << 20), 1)
