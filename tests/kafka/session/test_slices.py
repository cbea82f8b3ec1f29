"""What takes long is done in slices: the session asks for a turn between two of them, and order is kept."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.schema import NewRecordBatch
from tests.kafka.codec.entities import BATCHES, write_record_batch
from tests.kafka.session.messages import batch, outcome, produce, topics_of
from tests.kafka.session.wire import Bench, Wire

from sluicegate_kafka.codec.record_walk import RECORDS_PER_SLICE, largest_message
from sluicegate_kafka.codec.records import BATCH_OVERHEAD, MAX_BATCHES, MAX_HEADERS, largest_record
from sluicegate_kafka.codec.slices import at_once
from sluicegate_kafka.connection import TOPICS_PER_SLICE

TINY = b"\x0c\0\0\0\x01\x01\0"
"""A record of seven bytes: neither key nor value nor headers."""
NOT_ENOUGH_REPLICAS, POLICY_VIOLATION = 19, 44


def stored(records: bytes, count: int) -> bytes:
    """A batch of these records."""
    length = BATCH_OVERHEAD - 12 + len(records)
    return struct.pack(">qiibIhiqqqhii", 0, length, 0, 2, 0, 0, 0, 10, 20, -1, -1, -1, count) + records


def record(value: int, headers: int = 0) -> bytes:
    """A record with so many bytes of value, and so many empty headers."""
    rest = b"\0\0\0\x01" + _varint(value) + bytes(value) + _varint(headers) + bytes(2 * headers)
    return _varint(len(rest)) + rest


def _varint(number: int) -> bytes:
    out, number = bytearray(), number << 1
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    return bytes((*out, number))


def test_a_batch_of_tiny_records_is_walked_in_slices_and_passes() -> None:
    count = 10 * RECORDS_PER_SLICE
    wire = Wire(Bench(max_message_size=1_000))
    large = produce({"t": stored(TINY * count, count)})
    wire.client_sends(large + produce({"u": batch(b"behind")}, correlation_id=2))
    assert wire.forwarded() == []
    assert 9 <= wire.take_turns() <= 11
    assert [topics_of(each) for each in wire.forwarded()] == [["t"], ["u"]]
    assert wire.shared.budget.used == 0
    assert wire.shared.gate("t", False, wire.now).state.allowed_messages == count


def test_what_cannot_hold_a_message_over_the_limit_is_not_walked() -> None:
    records = TINY * RECORDS_PER_SLICE
    limit = len(records) - len(TINY)
    wire = Wire(Bench(max_message_size=limit))
    wire.client_sends(produce({"t": stored(records * 2, 2 * RECORDS_PER_SLICE)}))
    assert wire.take_turns() == 1
    assert len(wire.forwarded()) == 1


def test_the_walk_ends_at_the_first_message_over_the_limit() -> None:
    wire = Wire(Bench(max_message_size=1_000))
    records = record(1_001) + TINY * (10 * RECORDS_PER_SLICE)
    wire.client_sends(produce({"t": stored(records, 1 + 10 * RECORDS_PER_SLICE)}))
    assert wire.take_turns() == 0
    ((code, text),) = outcome(wire.answered()[0]).values()
    assert code == POLICY_VIOLATION
    assert text is not None
    assert "Current: 1001 bytes, Limit: 1000 bytes" in text


def test_a_message_over_the_limit_is_found_in_a_later_slice() -> None:
    wire = Wire(Bench(max_message_size=1_000))
    records = TINY * (2 * RECORDS_PER_SLICE) + record(1_001)
    wire.client_sends(produce({"t": stored(records, 2 * RECORDS_PER_SLICE + 1)}))
    assert wire.take_turns() >= 1
    assert [code for code, _ in outcome(wire.answered()[0]).values()] == [POLICY_VIOLATION]


def test_a_record_with_too_many_headers_counts_whole() -> None:
    wire = Wire(Bench(max_message_size=MAX_HEADERS))
    wire.client_sends(produce({"t": stored(record(0, MAX_HEADERS), 1)}))
    assert len(wire.forwarded()) == 1
    wire.client_sends(produce({"t": stored(record(0, MAX_HEADERS + 1), 1)}, correlation_id=2))
    assert wire.forwarded() == []


def test_records_with_many_headers_take_more_slices() -> None:
    wire = Wire(Bench(max_message_size=900))
    headers = MAX_HEADERS - 400
    wire.client_sends(produce({"t": stored(record(0, headers) * 100, 100)}))
    assert wire.take_turns() >= 100 * headers // RECORDS_PER_SLICE
    assert len(wire.forwarded()) == 1


def test_a_client_that_goes_in_the_middle_leaves_nothing_behind() -> None:
    wire = Wire(Bench(max_message_size=1_000))
    count = 5 * RECORDS_PER_SLICE
    wire.client_sends(produce({"t": stored(TINY * count, count)}))
    assert wire.take_turn()
    assert wire.shared.budget.used > 0
    wire.session.closed(wire.now)
    assert wire.shared.budget.used == 0
    assert wire.take_turns() <= 1
    assert wire.forwarded() == []


def test_a_batch_that_cannot_be_kept_for_its_slices_is_to_be_sent_again() -> None:
    bench = Bench(max_message_size=1_000)
    bench.budget.limit = 10_000
    wire = Wire(bench)
    count = 5 * RECORDS_PER_SLICE
    wire.client_sends(produce({"t": stored(TINY * count, count)}))
    ((code, _),) = outcome(wire.answered()[0]).values()
    assert (code, wire.closed, bench.budget.used) == (NOT_ENOUGH_REPLICAS, None, 0)


def test_topics_that_are_new_are_decided_some_at_a_time() -> None:
    wire = Wire(Bench(max_publish_rate=1_000_000))
    names = [f"t{number}" for number in range(10 * TOPICS_PER_SLICE)]
    wire.client_sends(produce(dict.fromkeys(names, batch(b"x"))))
    states = wire.shared.gates.states
    seen = [len(states)]
    while wire.take_turn():
        seen.append(len(states))
    assert max(b - a for a, b in zip([0, *seen], seen, strict=False)) <= TOPICS_PER_SLICE
    assert len(seen) == 11
    assert topics_of(wire.forwarded()[0]) == names


def test_partitions_with_more_batches_than_brokers_take_end_the_connection() -> None:
    wire = Wire(Bench())
    wire.client_sends(produce({"t": batch(b"x") * MAX_BATCHES}))
    assert wire.closed is None
    wire.client_sends(produce({"t": batch(b"x") * (MAX_BATCHES + 1)}))
    assert wire.closed is not None
    assert f"more than {MAX_BATCHES} batches" in wire.closed.detail


@given(st.lists(BATCHES, min_size=1, max_size=3), st.integers(1, 300))
def test_slices_judge_a_limit_as_the_whole_does(batches: list[NewRecordBatch], limit: int) -> None:
    buffer = b"".join(map(write_record_batch, batches))
    largest = at_once(largest_message(buffer, [(0, len(buffer))], limit))
    exact = largest_record(buffer, 0, len(buffer))
    assert (largest > limit) == (exact > limit)
    assert largest <= exact


@pytest.mark.parametrize("values", [(10, 1_001, 5), (1_000,), (3, 1_002, 1_001)])
def test_the_first_over_the_limit_is_told(values: tuple[int, ...]) -> None:
    raw = stored(b"".join(map(record, values)), len(values))
    first = next((value for value in values if value > 1_000), 0)
    largest = at_once(largest_message(raw, [(0, len(raw))], 1_000))
    assert largest == first if first else largest <= 1_000
