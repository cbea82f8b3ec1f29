"""The walk over tables of fields, on messages that kio writes."""

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka.codec.entities import entities, full, response_frame, response_schema

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import response_body
from sluicegate_kafka.codec.layouts import Reader
from sluicegate_kafka.codec.primitives import Cursor
from sluicegate_kafka.codec.slices import ENTRIES_PER_SLICE

METADATA = (
    "throttle_ms 3+ i32, brokers [node i32, host string, port i32, rack 1+ string?], cluster 2+ string?, "
    "controller 1+ i32, topics* [error i16, topic* string?, topic_id 10+ uuid, internal 1+ i8, "
    "partitions* [error i16, partition* i32, leader i32, epoch 7+ i32, replicas* i32s, in_sync i32s, "
    "offline 5+ i32s], topic_rights 8+ i32], cluster_rights 8-10 i32, error 13+ i16, tags tags, end @"
)


@pytest.mark.parametrize("version", range(14))
@settings(max_examples=15, deadline=None)
@given(st.data())
def test_a_message_is_read_to_its_end(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.METADATA, version)))
    frame = response_frame(entity)
    topics, end = Reader(METADATA).read(response_body(frame, ApiKey.METADATA, version), version)
    assert end == len(frame)
    assert topics == [
        (topic.name, [(part.partition_index, part.replica_nodes) for part in topic.partitions])
        for topic in entity.topics
    ]


@pytest.mark.parametrize("version", range(14))
def test_fields_are_marked_where_they_stand(version: int) -> None:
    entity = full(response_schema(ApiKey.METADATA, version))
    frame = response_frame(entity)
    reader = Reader(
        "start 3+ @, throttle_ms 3+ i32, brokers_at @, brokers* ["
        "start @, node* i32, host_at @, host* string, host_end @, port i32, rack 1+ string?]@, brokers_end @"
    )
    throttle, at, brokers, brokers_end = reader.read(response_body(frame, ApiKey.METADATA, version), version)
    assert (throttle is None) == (version < 3)
    assert throttle in (None, at - 4)
    starts = iter([entry[0] for entry in brokers[1:]] + [brokers_end])
    for (node_at, node, host_at, host, host_end, end), broker in zip(brokers, entity.brokers, strict=True):
        assert (node, host) == (broker.node_id, broker.host)
        assert frame[node_at:host_at] == broker.node_id.to_bytes(4, "big")
        assert frame[host_at:host_end].endswith(broker.host.encode())
        assert frame[host_end : host_end + 4] == broker.port.to_bytes(4, "big")
        assert end == next(starts)


def _read(table: str, buffer: bytes, **make: Any) -> list[Any]:
    return Reader(table).read(Cursor(buffer, 0, flexible=False), 0, **make)


def test_every_kind_of_number_is_read_as_kafka_means_it() -> None:
    raw = b"\xff" + b"\xff\xfe" + b"\xff\xfd" + b"\xff\xff\xff\xfc" + b"\xff" * 7 + b"\xfb" + bytes(range(16))
    table = "a* i8, b* i16, c* u16, d* i32, e* i64, f* uuid"
    assert _read(table, raw) == [-1, -2, 0xFFFD, -4, -5, bytes(range(16))]
    assert _read(table.replace("*", "") + ", end @", raw) == [len(raw)]


def test_an_element_of_a_list_is_made_or_left_out() -> None:
    buffer = b"\0\0\0\3\1\2\3"
    assert _read("numbers* [number* i8]", buffer) == [[1, 2, 3]]
    odd = _read("numbers* [number* i8]", buffer, numbers=lambda n: n % 2 or None)
    assert odd == [[1, 1]]


@pytest.mark.parametrize(("table", "weight"), [("numbers [number i8]", 1), ("numbers 4x[number i8]", 4)])
def test_entries_take_as_much_of_a_slice_as_the_table_says(table: str, weight: int) -> None:
    entries = 2 * ENTRIES_PER_SLICE // weight
    for count, pauses in ((entries - 1, 1), (entries, 2)):
        buffer = count.to_bytes(4, "big") + bytes(count)
        assert sum(1 for _ in Reader(table).slices(Cursor(buffer, 0, flexible=False), 0)) == pauses


@pytest.mark.parametrize(
    ("table", "buffer", "reason"),
    [
        ("number i32", b"\0\0\0", "truncated or garbled"),
        ("name string", b"\0\5ab", "5 bytes announced where 2 remain"),
        ("name string", b"\xff\xff", "null where a string is required"),
        ("numbers i32s", b"\0\0\0\2\0\0\0\0", "8 bytes announced where 4 remain"),
        (
            "numbers [number i8]",
            b"\x7f\xff\xff\xff\1",
            "an array of 2147483647 elements where 1 bytes remain",
        ),
        ("numbers [number i8]", b"\xff\xff\xff\xff", "null where an array is required"),
    ],
)
def test_malformed_messages_are_refused(table: str, buffer: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        _read(table, buffer)


@pytest.mark.parametrize(
    ("table", "reason"),
    [
        ("", "no field of a layout: ''"),
        ("number", "no field of a layout: 'number'"),
        ("number i32,", "no field of a layout: ','"),
        ("number i32, ", "no field of a layout: ''"),
        ("number 3 i32", "number is of an unknown kind: '3'"),
        ("number i24", "number is of an unknown kind: 'i24'"),
        ("number 4xi32", "number is of an unknown kind: '4xi32'"),
        ("numbers [number i32", "numbers has no end"),
        ("number i32]", "no field of a layout: ']'"),
    ],
)
def test_a_malformed_table_is_refused_when_it_is_made(table: str, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        Reader(table)
