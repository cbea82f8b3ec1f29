"""Record batches in place."""

import struct

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.records.schema import NewRecordBatch
from tests.kafka.codec.entities import BATCHES, write_record_batch

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.produce_requests import measure_records
from sluicegate_kafka.codec.records import (
    BATCH_OVERHEAD,
    CONTROL,
    MAX_BATCHES,
    Batch,
    batch_payload_size,
    headers_size,
    read_varint,
    record_head,
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


def test_a_batch_without_records_has_no_payload() -> None:
    raw = _batch(count=0)
    (found,) = walk_batches(raw, 0, len(raw))
    assert found == Batch(0, BATCH_OVERHEAD, 20, 0, 77, 0, 2)
    assert batch_payload_size(found) == 0
    assert measure_records(raw, 0, len(raw)) == (0, 0, 20, 77)


def test_a_message_older_than_batches_says_nothing_of_itself() -> None:
    raw = b"x" + bytes(17)
    assert walk_batches(raw, 1, 18) == [Batch(1, 17, -1, 0, -1, 1, 0)]
    assert walk_batches(raw, 1, 17) == []  # its magic is yet to come


def test_a_batch_that_is_cut_off_is_left_out_wherever_it_stands() -> None:
    raw = b"x" * 20 + _batch(b"abc")
    assert walk_batches(raw, 20, len(raw) - 1) == []
    assert len(walk_batches(raw, 20, len(raw))) == 1


def test_a_header_without_its_end_is_left_out() -> None:
    raw = _batch()
    assert walk_batches(raw, 0, BATCH_OVERHEAD - 1) == []


def test_the_number_of_batches_is_bounded() -> None:
    raw = _batch() * 3
    assert len(walk_batches(raw, 0, len(raw), 3)) == 3
    reason = "^more batches in one partition of a request than brokers take$"
    with pytest.raises(ProtocolError, match=reason):
        walk_batches(raw, 0, len(raw), 2)
    most = _batch() * MAX_BATCHES
    assert measure_records(most, 0, len(most))[0] == MAX_BATCHES
    with pytest.raises(ProtocolError, match=reason):
        measure_records(most + _batch(), 0, len(most) + BATCH_OVERHEAD)


def test_several_batches_are_measured_together() -> None:
    first = _batch(b"abcde", 2)
    other = _batch(b"abc", 3)
    other = other[:35] + (30).to_bytes(8) + (78).to_bytes(8) + other[51:]
    assert measure_records(first + other, 0, len(first + other)) == (5, 5, 30, 77)
    assert measure_records(other + first, 0, len(first + other)) == (5, 5, 30, 78)


def test_a_record_set_is_measured_where_it_stands() -> None:
    first, second = _batch(b"abc", 2), _batch(b"xyz", 3)
    buffer = first + second
    assert measure_records(buffer, len(first), len(buffer)) == (3, 3, 20, 77)


@pytest.mark.parametrize("start", [0, 1])
@pytest.mark.parametrize("more", [1, 2, 12, 24])
def test_a_batch_that_claims_more_than_its_record_set_is_refused(start: int, more: int) -> None:
    raw = b"x" * start + _batch(size=BATCH_OVERHEAD - 12 + more)
    with pytest.raises(ProtocolError, match="batches do not fill a record set of 61 bytes"):
        measure_records(raw, start, len(raw))


def test_a_record_set_that_ends_within_a_header_is_refused() -> None:
    with pytest.raises(ProtocolError, match="a batch of 60 bytes"):
        measure_records(_batch(size=48) + b"x", 0, BATCH_OVERHEAD)
    with pytest.raises(ProtocolError, match="batches do not fill a record set of 60 bytes"):
        measure_records(b"x" + _batch(size=48), 1, BATCH_OVERHEAD)


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


def payload(raw: bytes) -> tuple[int, int]:
    """Bytes of key, value and headers of a record between other bytes, and how many headers it has."""
    end = 1 + len(raw)
    size, headers, at = record_head(b"x" + raw + b"y", 1, end)
    return size + headers_size(b"x" + raw + b"y", at, end, headers), headers


def test_key_value_and_headers_add_up() -> None:
    header = b"\x02h\x06val"
    raw = b"\0\0\0\x04ke\x0avalue" + b"\x04" + header + b"\x00\x01"
    assert payload(raw) == (2 + 5 + 4, 2)


def test_a_header_takes_at_least_a_byte() -> None:
    with pytest.raises(ProtocolError, match=r"^a varint that does not end$"):
        payload(b"\0\0\0\x01\x01\x02\0")
    with pytest.raises(ProtocolError, match="2 headers in a record with 1 bytes left"):
        payload(b"\0\0\0\x01\x01\x04\0")


def test_signed_varints_have_up_to_ten_bytes() -> None:
    assert read_varint(b"x\x80\x01", 1, 3) == (64, 3)
    assert read_varint(b"\xff" * 9 + b"\x01", 0, 10) == (-(2**63), 10)
    assert [read_varint(bytes((byte,)), 0, 1)[0] for byte in range(4)] == [0, -1, 1, -2]
    with pytest.raises(ProtocolError, match=r"^a varint that does not end$"):
        read_varint(b"\x80" * 10 + b"\0", 0, 11)
    with pytest.raises(ProtocolError, match=r"^a varint that does not end$"):
        read_varint(b"\x80\0", 0, 1)
