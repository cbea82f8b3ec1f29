"""Batches with other headers, read back by aiokafka."""

import pytest
from aiokafka.record.default_records import DefaultRecordBatch
from aiokafka.record.memory_records import MemoryRecords
from hypothesis import given
from tests.kafka.codec.packing import FORMS, packed_batch
from tests.kafka.codec.test_message_reading import RECORDS, Record, built

from sluicegate.model import HeaderChange, Part
from sluicegate_kafka.codec.compression import unpacked
from sluicegate_kafka.codec.header_changes import change_headers, rebuilt
from sluicegate_kafka.codec.message_reading import read_messages
from sluicegate_kafka.codec.record_walk import Slice
from sluicegate_kafka.codec.records import BATCH_OVERHEAD, COMPRESSION_MASK, walk_batches
from sluicegate_kafka.codec.slices import at_once

CHANGE = HeaderChange({"added": b"x" * 200}, frozenset({"gone"}))
THREE: list[Record] = [
    (b"k", b"v" * 100, [("gone", b"1"), ("stays", b"2"), ("gone", b"3")]),
    (None, b"", []),
    (b"", b"v", [("added", b"before")]),
]


def changed(batch: bytes, plain: bytes) -> bytes:
    """A batch with the change, whose records uncompressed are those of the plain one."""
    (head,) = walk_batches(batch, 0, len(batch))
    records = at_once(change_headers(plain, BATCH_OVERHEAD, len(plain), CHANGE.apply, Slice()))
    return rebuilt(batch, head, records)


def read_back(batch: bytes) -> list[Record]:
    whole = MemoryRecords(batch).next_batch()
    assert isinstance(whole, DefaultRecordBatch)
    assert whole.validate_crc()
    return [(record.key, record.value or b"", list(record.headers)) for record in whole]


@given(RECORDS)
def test_only_headers_change(records: list[Record]) -> None:
    batch = built(records)

    assert read_back(changed(batch, batch)) == [
        (key, value, list(CHANGE.apply(tuple(headers)))) for key, value, headers in records
    ]


@pytest.mark.parametrize("form", FORMS)
def test_a_batch_is_compressed_as_it_was(form: str) -> None:
    plain = built(THREE)
    batch = packed_batch(plain, form)

    after = changed(batch, plain)

    (head,) = walk_batches(after, 0, len(after))
    (before,) = walk_batches(batch, 0, len(batch))
    assert head.attributes == before.attributes
    assert (head.record_count, head.size) == (before.record_count, len(after))
    codec = head.attributes & COMPRESSION_MASK
    records = b"".join(unpacked(codec, after[BATCH_OVERHEAD:], 1 << 20))
    assert records == changed(plain, plain)[BATCH_OVERHEAD:]


def test_a_number_of_headers_that_is_not_written_in_the_shortest_form_is_replaced_whole() -> None:
    record = b"\0\0\0\x01\x02v" + b"\x82\0" + b"\x08gone\x02x"
    records = bytes([2 * len(record)]) + record
    after = at_once(change_headers(records, 0, len(records), CHANGE.apply, Slice()))
    (content,) = at_once(read_messages(after, 0, len(after), 1, Slice(), list(Part)))
    assert content == ((("added", b"x" * 200),), None, "", b"v")
