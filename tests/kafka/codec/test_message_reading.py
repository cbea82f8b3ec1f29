"""Records read as messages, against aiokafka's builder."""

from typing import TypeAlias

import pytest
from aiokafka.record.default_records import DefaultRecordBatchBuilder
from hypothesis import given
from hypothesis import strategies as st

from sluicegate.model import Headers, Message, Part
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.message_reading import read_messages, schema_of
from sluicegate_kafka.codec.record_walk import Slice
from sluicegate_kafka.codec.records import BATCH_OVERHEAD, walk_batches
from sluicegate_kafka.codec.slices import at_once

Record: TypeAlias = tuple[bytes | None, bytes, list[tuple[str, bytes]]]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=80)
VALUES = st.binary(max_size=200)
RECORDS = st.lists(
    st.tuples(st.none() | VALUES, VALUES, st.lists(st.tuples(TEXTS, VALUES), max_size=3)), max_size=20
)


def built(records: list[Record]) -> bytes:
    builder = DefaultRecordBatchBuilder(2, 0, 0, -1, -1, -1, 1 << 20)
    for offset, (key, value, headers) in enumerate(records):
        builder.append(offset, 1_700_000_000_000 + 1_000 * offset, key, value, headers)
    return bytes(builder.build())


def read(batch: bytes, *parts: Part) -> list[Message]:
    (head,) = walk_batches(batch, 0, len(batch))
    count = head.record_count
    reading = read_messages(batch, BATCH_OVERHEAD, len(batch), count, Slice(), parts or list(Part))
    return [Message(*content) for content in at_once(reading)]


@given(RECORDS)
def test_every_part_is_read_as_it_was_written(
    records: list[Record],
) -> None:
    messages = read(built(records))

    assert [(each.key, each.value, list(each.headers)) for each in messages] == records


@given(RECORDS, st.data())
def test_damaged_records_are_refused_or_read(records: list[Record], data: st.DataObject) -> None:
    batch = bytearray(built(records))
    if len(batch) > BATCH_OVERHEAD:
        at = data.draw(st.integers(BATCH_OVERHEAD, len(batch) - 1))
        batch[at] = data.draw(st.integers(0, 255))
    try:
        messages = read(bytes(batch))
    except ProtocolError:
        return
    assert len(messages) == len(records)


@given(RECORDS, st.sampled_from(Part))
def test_only_what_is_asked_for_is_read(records: list[Record], part: Part) -> None:
    batch = built(records)
    everything, alone = read(batch), read(batch, part)

    assert alone == [Message()._replace(**{part: getattr(each, part)}) for each in everything]


def test_records_with_the_headers_of_the_one_before_are_read_as_well() -> None:
    same, other = [("a", b"1"), ("b", b"2")], [("a", b"1"), ("b", b"3")]
    batch = built([(b"k", b"v", headers) for headers in (same, same, other, [], [], same)])

    read_headers = [list(each.headers) for each in read(batch, Part.HEADERS)]
    assert read_headers == [same, same, other, [], [], same]


@pytest.mark.parametrize(
    ("headers", "value", "schema"),
    [
        ((), b"\0\0\0\0\x11Hv", "17"),
        ((), b"\0\0\0\0\0\0\0\0\x11v", "17"),
        ((), b"{}", ""),
        ((), b"\0\0\0\0", ""),
        ((), b"\0\0\0\0\0", ""),
        ((), b"\0\xff\xff\xff\xff\xff", ""),
        ((("apicurio.value.globalId", (17).to_bytes(8, "big")),), b"{}", "17"),
        ((("apicurio.value.contentId", (18).to_bytes(8, "big")),), b"\0\0\0\0\x11v", "18"),
        ((("__value_schema_id", b"\x01" + bytes(range(16))),), b"{}", bytes(range(16)).hex()),
    ],
)
def test_a_schema_is_named_by_value_or_header(headers: Headers, value: bytes, schema: str) -> None:
    assert schema_of(headers, value) == schema


def test_many_records_are_read_in_slices() -> None:
    batch = built([(None, b"", [])] * 1_000)
    work = read_messages(batch, BATCH_OVERHEAD, len(batch), 1_000, Slice(), [Part.HEADERS])

    assert sum(1 for _ in work) > 10
