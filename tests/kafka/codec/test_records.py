"""Record batches in place."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.schema import NewRecordBatch
from tests.kafka.codec.entities import BATCHES, record_size, write_record_batch

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.records import (
    BATCH_OVERHEAD,
    CONTROL,
    batch_payload_size,
    largest_record,
    measure_records,
    walk_batches,
)


def _batch(
    payload: bytes = b"", count: int = 1, attributes: int = 0, magic: int = 2, size: int | None = None
) -> bytes:
    length = BATCH_OVERHEAD - 12 + len(payload) if size is None else size
    head = struct.pack(">qiibIhiqqqhii", 5, length, 0, magic, 0, attributes, 0, 10, 20, 77, 3, 9, count)
    return head + payload


def _latest_ms(batch: NewRecordBatch) -> int:
    return max(int(record.timestamp.timestamp() * 1000) for record in batch.records)


@given(st.lists(BATCHES, max_size=4), st.binary(max_size=5))
def test_batch_headers_are_parsed_as_kafka_writes_them(batches: list[NewRecordBatch], before: bytes) -> None:
    raws = [write_record_batch(batch) for batch in batches]
    buffer = before + b"".join(raws)
    found = walk_batches(buffer, len(before), len(buffer))
    assert [each.size for each in found] == [len(raw) for raw in raws]
    assert [each.offset - len(before) for each in found] == [
        sum(map(len, raws[:n])) for n in range(len(raws))
    ]
    for each, batch in zip(found, batches, strict=True):
        assert each.max_timestamp == pytest.approx(_latest_ms(batch), abs=1)
        assert each.attributes == batch.attributes
        assert each.producer_id == batch.producer_id
        assert each.record_count == len(batch.records)
        assert each.magic == 2


@given(st.lists(BATCHES, min_size=1, max_size=3))
def test_a_record_set_is_measured(batches: list[NewRecordBatch]) -> None:
    buffer = b"".join(map(write_record_batch, batches))
    messages, largest, latest, producer = measure_records(buffer, 0, len(buffer))
    found = walk_batches(buffer, 0, len(buffer))
    assert messages == sum(len(batch.records) for batch in batches)
    assert largest == max(map(batch_payload_size, found))
    assert latest == max(each.max_timestamp for each in found)
    assert producer == batches[0].producer_id


def test_an_empty_record_set_holds_nothing() -> None:
    assert measure_records(b"abc", 1, 1) == (0, 0, -1, -1)
    assert walk_batches(b"abc", 1, 1) == []
    assert largest_record(b"abc", 1, 1) == 0


@given(st.lists(BATCHES, max_size=3))
def test_the_largest_message_is_key_value_and_headers(batches: list[NewRecordBatch]) -> None:
    buffer = b"".join(map(write_record_batch, batches))
    expected = max((record_size(record) for batch in batches for record in batch.records), default=0)
    assert largest_record(buffer, 0, len(buffer)) == expected


@pytest.mark.parametrize("codec", [1, 2, 3, 4])
def test_a_compressed_batch_counts_whole(codec: int) -> None:
    assert largest_record(_batch(b"z" * 500, 10, codec), 0, BATCH_OVERHEAD + 500) == 500


@given(BATCHES, st.data())
def test_a_last_batch_that_is_cut_off_is_left_out(batch: NewRecordBatch, data: st.DataObject) -> None:
    raw = write_record_batch(batch)
    cut = data.draw(st.integers(0, len(raw) - 1))
    buffer = raw + raw[:cut]
    assert [each.size for each in walk_batches(buffer, 0, len(buffer))] == [len(raw)]
    if cut:
        with pytest.raises(ProtocolError, match="batches do not fill a record set"):
            measure_records(buffer, 0, len(buffer))


@pytest.mark.parametrize("magic", [0, 1])
def test_messages_older_than_batches_are_one_unit(magic: int) -> None:
    new, old = _batch(b"abc"), struct.pack(">qiib", 0, 30, 0, magic) + b"m" * 25
    found = walk_batches(new + old, 0, len(new + old))
    assert [(each.offset, each.size, each.magic) for each in found] == [
        (0, len(new), 2),
        (len(new), len(old), magic),
    ]
    assert batch_payload_size(found[1]) == len(old)
    assert largest_record(old, 0, len(old)) == len(old)


def test_control_batches_are_recognised() -> None:
    assert walk_batches(_batch(b"x", attributes=CONTROL), 0, 62)[0].attributes & CONTROL


@pytest.mark.parametrize(
    "raw",
    [
        _batch(size=48),
        _batch(size=0),
        _batch(size=-1),
        _batch(size=-(2**31)),
        _batch(count=-1),
        _batch(magic=3),
        _batch(magic=-1),
    ],
)
def test_contradictory_headers_are_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"a batch of -?[0-9]+ bytes, -?1 records and magic"):
        walk_batches(raw, 0, len(raw))
    with pytest.raises(ProtocolError):
        measure_records(raw, 0, len(raw))


def test_a_record_set_stays_within_its_frame() -> None:
    with pytest.raises(ProtocolError, match="records up to byte 62 in a frame of 61"):
        walk_batches(_batch(), 0, 62)


@pytest.mark.parametrize(
    ("payload", "reason"),
    [
        (b"\x03", "a record of -2 bytes"),
        (b"\x20ab", "a record of 16 bytes where 2 remain"),
        (b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff\xff", "a varint that does not end"),
        (b"\x80", "a varint that does not end"),
        (b"\x0c\0\0\0\x08ab", "a field of 4 bytes where 2 remain"),
        (b"\x0c\0\0\0\x01\x01\x05", "-3 headers"),
        (b"\x0c\0\0\0\x01\x01\x7f", "-64 headers"),
        (b"\x0e\0\0\0\x01\x01\x00z", "1 bytes left over in a record"),
        (b"\x0c\0\x80\x80\x80\x80\x80", "a varint that does not end"),
        (b"\x0a\0\0\0\x01\x01", "a record of 5 bytes"),
    ],
)
def test_records_that_do_not_fill_their_batch_are_refused(payload: bytes, reason: str) -> None:
    raw = _batch(payload)
    with pytest.raises(ProtocolError, match=reason):
        largest_record(raw, 0, len(raw))


def test_records_without_size_are_refused_at_once() -> None:
    """Megabytes of zeros compress to nothing; walking each of them would take minutes."""
    raw = _batch(bytes(1 << 20), count=1 << 20)
    with pytest.raises(ProtocolError, match="a record of 0 bytes"):
        largest_record(raw, 0, len(raw))


def test_the_walk_stops_at_more_records_than_claimed() -> None:
    record = b"\x0c\0\0\0\x01\x01\0"
    whole = _batch(record * 3, count=3)
    assert largest_record(whole, 0, len(whole)) == 0
    raw = _batch(record * 2 + b"never reached", count=2)
    with pytest.raises(ProtocolError, match="more records in a batch than the 2 that it claims"):
        largest_record(raw, 0, len(raw))
