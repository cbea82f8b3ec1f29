"""Produce requests and responses, against kio for every version."""

import dataclasses
import datetime
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka.codec.entities import (
    decode_framed,
    decode_request,
    entities,
    request_frame,
    request_schema,
    response_frame,
    response_schema,
)

from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.primitives import write_uvarint
from sluicegate_kafka.codec.produce_parts import subset_produce
from sluicegate_kafka.codec.produce_requests import MAX_ENTRIES, ProduceRequest, scan_produce
from sluicegate_kafka.codec.produce_responses import (
    appended,
    has_node_endpoints,
    merge_produce_responses,
    plain_response_length,
    refusal_response,
    scan_produce_response,
    unauthorized,
)
from sluicegate_kafka.codec.records import batch_payload_size, walk_batches

PRODUCE = 0
versions = pytest.mark.parametrize("version", range(3, 13))
few = settings(max_examples=15, deadline=None)


def _ms(span: datetime.timedelta) -> int:
    return span // datetime.timedelta(milliseconds=1)


def _scan(frame: bytes) -> ProduceRequest:
    return scan_produce(frame, parse_request_head(frame))


def _requests(version: int) -> st.SearchStrategy[Any]:
    return entities(request_schema(PRODUCE, version), batches=True)


@versions
@few
@given(st.data())
def test_requests_are_parsed_as_kafka_writes_them(version: int, data: st.DataObject) -> None:
    entity = data.draw(_requests(version))
    before, after = data.draw(st.binary(max_size=5)), data.draw(st.binary(max_size=5))
    raw = request_frame(entity)
    frame = before + raw + after
    request = scan_produce(frame, parse_request_head(frame, len(before), len(before) + len(raw)))
    assert request.head.version == version
    assert request.acks == entity.acks
    assert (request.head.start, request.head.end) == (len(before), len(before) + len(raw))
    for topic, expected in zip(request.topics, entity.topic_data, strict=True):
        stored = [part.records or b"" for part in expected.partition_data]
        assert topic.name == expected.name
        assert topic.partitions == [part.index for part in expected.partition_data]
        assert [frame[start:end] for start, end in topic.records] == stored
        batches = [batch for raw in stored for batch in walk_batches(raw, 0, len(raw))]
        assert topic.messages == sum(batch.record_count for batch in batches)
        assert topic.bytes == sum(map(len, stored))
        assert topic.largest_batch == max(map(batch_payload_size, batches), default=0)
        assert topic.max_timestamp == max((batch.max_timestamp for batch in batches), default=-1)
        first = [walk_batches(raw, 0, len(raw))[0].producer_id for raw in stored if raw]
        assert topic.producer_id == next((producer for producer in first if producer >= 0), -1)


@versions
@few
@given(st.data())
def test_a_subset_is_the_same_request_with_fewer_topics(version: int, data: st.DataObject) -> None:
    entity = data.draw(_requests(version))
    frame = request_frame(entity)
    request = _scan(frame)
    keep = data.draw(st.sets(st.integers(0, len(entity.topic_data) - 1))) if entity.topic_data else set()
    framed = subset_produce(request, sorted(keep))
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    kept = tuple(entity.topic_data[place] for place in sorted(keep))
    assert decode_request(framed[4:], PRODUCE, version) == dataclasses.replace(entity, topic_data=kept)
    assert framed[4 : 4 + request.topics_offset] == frame[: request.topics_offset]
    if len(keep) == len(entity.topic_data):
        assert framed[4:] == frame


@versions
@few
@given(st.data())
def test_a_merged_response_is_complete(version: int, data: st.DataObject) -> None:
    parts = data.draw(st.lists(entities(response_schema(PRODUCE, version)), max_size=3))
    refused = data.draw(
        st.lists(
            st.tuples(
                st.text(max_size=8),
                st.lists(st.integers(0, 2**31 - 1), max_size=3),
                st.sampled_from([errors.POLICY_VIOLATION, errors.NOT_ENOUGH_REPLICAS]),
                st.text(max_size=20),
            ),
            max_size=3,
        )
    )
    throttle_ms = data.draw(st.integers(0, 2**31 - 1))
    framed = merge_produce_responses(
        version, -9, [response_frame(part) for part in parts], refused, throttle_ms
    )
    assert framed[4:8] == struct.pack(">i", -9)
    merged = decode_framed(framed, PRODUCE, version)
    upstream = [topic for part in parts for topic in part.responses]
    assert list(merged.responses[: len(upstream)]) == upstream
    assert _ms(merged.throttle_time) == max([throttle_ms, *(_ms(part.throttle_time) for part in parts)])
    for topic, (name, partitions, code, text) in zip(merged.responses[len(upstream) :], refused, strict=True):
        assert topic.name == name
        assert [each.index for each in topic.partition_responses] == partitions
        for each in topic.partition_responses:
            assert (each.error_code, each.base_offset) == (code, -1)
            assert each.log_append_time is None
            if version >= 5:
                assert each.log_start_offset == -1
            if version >= 8:
                assert (each.error_message, each.record_errors) == (text, ())
    if version >= 10:
        expected = {each.node_id: each for part in parts for each in part.node_endpoints}
        assert {each.node_id: each for each in merged.node_endpoints} == expected


def test_unknown_tagged_fields_of_the_broker_are_kept() -> None:
    schema = response_schema(PRODUCE, 12)
    plain = response_frame(schema(responses=(), throttle_time=datetime.timedelta(0), node_endpoints=()))
    tagged = plain[:-1] + b"\x01\x63\x02hi"
    framed = merge_produce_responses(12, 7, [tagged, plain], [("t", [1], 44, "no")], 0)
    assert framed.endswith(b"\0\0\0\0\x01\x63\x02hi")


@versions
def test_a_refusal_names_every_partition(version: int) -> None:
    framed = refusal_response(
        version, 3, [("orders", [0, 4], 44, "limit 5"), ("b", [1], 10, "too large")], 250
    )
    answer = decode_framed(framed, PRODUCE, version)
    found = {(t.name, p.index): p.error_code for t in answer.responses for p in t.partition_responses}
    assert found == {("orders", 0): 44, ("orders", 4): 44, ("b", 1): 10}
    assert _ms(answer.throttle_time) == 250


@versions
@few
@given(st.data())
def test_addresses_in_a_response_are_detected(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(PRODUCE, version)))
    assert has_node_endpoints(response_frame(entity), version) == bool(getattr(entity, "node_endpoints", ()))


def _usual(version: int, name: str) -> Any:
    """A response to one partition, with nothing in it that brokers send only at times."""
    answer = decode_framed(refusal_response(version, 1, [(name, [0], 0, "")], 0), PRODUCE, version)
    (topic,) = answer.responses
    quiet = dataclasses.replace(topic.partition_responses[0], error_message=None)
    return dataclasses.replace(answer, responses=(dataclasses.replace(topic, partition_responses=(quiet,)),))


@pytest.mark.parametrize("version", [10, 11, 12])
@pytest.mark.parametrize(
    "name", ["t", "x" * 126, "x" * 127, "x" * 300, "\N{LATIN SMALL LETTER E WITH ACUTE}"]
)
def test_the_usual_response_is_recognised_by_its_length(version: int, name: str) -> None:
    usual = _usual(version, name)
    endpoints = response_schema(PRODUCE, version).__dataclass_fields__["node_endpoints"].type
    endpoint = endpoints.__args__[0](node_id=1, host="", port=1, rack=None)
    other = response_frame(dataclasses.replace(usual, node_endpoints=(endpoint,)))
    assert has_node_endpoints(other, version)
    assert not has_node_endpoints(response_frame(usual), version)
    assert len(other) > len(response_frame(usual)) == plain_response_length(name)


def _request(topics: bytes, version: int = 12) -> bytes:
    if version >= 9:
        return struct.pack(">hhihB", 0, version, 1, -1, 0) + b"\0" + struct.pack(">hi", 1, 100) + topics
    return struct.pack(">hhih", 0, version, 1, -1) + b"\xff\xff" + struct.pack(">hi", 1, 100) + topics


@pytest.mark.parametrize(
    ("topics", "version", "reason"),
    [
        (b"\0\0", 12, "-1 topics"),
        (b"\2\0", 12, r"^a topic without a name$"),
        (b"\2\2t\0\0\0", 12, "-1 partitions"),
        (write_uvarint(2**31 - 1), 12, "2147483646 topics"),
        (b"\2\2t" + write_uvarint(MAX_ENTRIES + 1), 12, "20000 partitions"),
        (b"\2\2t\2\0\0\0\0" + write_uvarint(2**31 - 1), 12, "truncated"),
        (b"\2\3\xff\xfe\1\0\0", 12, "truncated"),
        (b"\2\2t\1\0\0!", 12, "a Produce request of 24 bytes in 25"),
        (b"\xff\xff\xff\xff", 3, "-1 topics"),
        (b"\x7f\xff\xff\xff", 3, "2147483647 topics"),
        (b"\0\0\0\1\xff\xff", 3, r"^a topic without a name$"),
        (b"\0\0\0\1\0\1t\xff\xff\xff\xff", 3, "-1 partitions"),
        (b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\0\0\0\0\x10", 3, "truncated"),
        (b"\0\0\0\0!", 3, "a Produce request of 22 bytes in 23"),
        (b"\1\0", 13, "produce version 13, expected 3 to 12"),
        (b"\0\0\0\0", 2, "produce version 2, expected 3 to 12"),
    ],
)
def test_false_lengths_in_requests_are_refused(topics: bytes, version: int, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        _scan(_request(topics, version))


def test_null_records_hold_nothing() -> None:
    for version, topics in (
        (12, b"\2\2t\2\0\0\0\5\0\0\0\0"),
        (3, b"\0\0\0\1\0\1t\0\0\0\1\0\0\0\5\xff\xff\xff\xff"),
    ):
        (topic,) = _scan(_request(topics, version)).topics
        assert (topic.partitions, topic.messages, topic.bytes, topic.max_timestamp) == ([5], 0, 0, -1)


def test_a_response_of_another_version_is_not_read() -> None:
    with pytest.raises(ProtocolError, match="produce version 13, expected 3 to 12"):
        scan_produce_response(b"\0\0\0\1\0", 13)


@versions
@few
@given(st.data())
def test_stored_batches_are_reported_with_their_offsets(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(PRODUCE, version)))
    expected = [
        (topic.name, partition.index, partition.base_offset)
        for topic in entity.responses
        for partition in topic.partition_responses
        if partition.error_code == 0 and partition.base_offset >= 0
    ]
    frame = response_frame(entity)
    assert appended(frame, version) == expected
    assert unauthorized(frame, version) == {
        topic.name
        for topic in entity.responses
        if {partition.error_code for partition in topic.partition_responses} & {29, 31, 53}
    }
    for topic in entity.responses:
        if len(entity.responses) == len(topic.partition_responses) == 1:
            only = (topic.name, topic.partition_responses[0].index)
            assert appended(frame, version, only) == expected


@pytest.mark.parametrize(("error", "told"), [(0, [("t", 3, 77)]), (6, [])])
def test_the_usual_response_is_parsed_in_one_step(error: int, told: list[tuple[str, int, int]]) -> None:
    partition = struct.pack(">ihqqq", 3, error, 77, -1, 0) + b"\1\0\0"
    frame = b"\0\0\0\7\0" + b"\2\2t\2" + partition + b"\0" + b"\0\0\0\0" + b"\0"
    assert len(frame) == plain_response_length("t")
    assert appended(frame, 9, ("t", 3)) == appended(frame, 9) == told
