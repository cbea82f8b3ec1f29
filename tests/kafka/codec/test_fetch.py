"""Fetch requests and responses, against kio for every version."""

import dataclasses
import datetime
import struct
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.kafka.codec.entities import (
    decode_framed,
    entities,
    full,
    request_frame,
    request_schema,
    response_frame,
    response_schema,
)

from sluicegate_kafka.codec import errors
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.fetch_requests import MAX_ENTRIES, fetch_request_slices
from sluicegate_kafka.codec.fetch_responses import fetch_response_slices, rebuilding_slices
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.primitives import write_uvarint
from sluicegate_kafka.codec.records import walk_batches
from sluicegate_kafka.codec.slices import at_once

FETCH = 1
versions = pytest.mark.parametrize("version", range(4, 13))
few = settings(max_examples=15, deadline=None)


@versions
@few
@given(st.data())
def test_requests_are_parsed_as_kafka_writes_them(version: int, data: st.DataObject) -> None:
    _requested(data.draw(entities(request_schema(FETCH, version))), version)


@versions
def test_each_field_of_a_request_is_found(version: int) -> None:
    _requested(full(request_schema(FETCH, version)), version)


def _requested(entity: Any, version: int) -> None:
    """What is read from a request in a larger buffer is what kio wrote."""
    raw = request_frame(entity)
    frame = b"ab" + raw + b"next"
    request = at_once(fetch_request_slices(frame, parse_request_head(frame, 2, 2 + len(raw))))
    assert request.max_wait_ms == entity.max_wait // datetime.timedelta(milliseconds=1)
    assert request.topics == [
        (topic.topic, [(part.partition, part.fetch_offset) for part in topic.partitions])
        for topic in entity.topics
    ]
    if version >= 7:
        assert request.session_epoch == entity.session_epoch
        assert request.forgotten == [
            (each.topic, list(each.partitions)) for each in entity.forgotten_topics_data
        ]
    else:
        assert (request.session_epoch, request.forgotten) == (-1, [])


@versions
@few
@given(st.data())
def test_responses_are_parsed_as_kafka_writes_them(version: int, data: st.DataObject) -> None:
    _answered(data.draw(entities(response_schema(FETCH, version))), version)


@versions
@pytest.mark.parametrize("records", [b"records", b"", None])
def test_records_and_errors_of_a_response_are_found(version: int, records: bytes | None) -> None:
    entity = full(response_schema(FETCH, version))
    _answered(_with_records(entity, records), version)


def _with_records(entity: Any, records: bytes | None) -> Any:
    """A response with the same records in each partition."""
    topics = (
        dataclasses.replace(
            topic, partitions=tuple(dataclasses.replace(part, records=records) for part in topic.partitions)
        )
        for topic in entity.responses
    )
    return dataclasses.replace(entity, responses=tuple(topics))


def _answered(entity: Any, version: int) -> None:
    """What is found in a response is what kio wrote."""
    frame = response_frame(entity)
    response = at_once(fetch_response_slices(frame, version))
    assert response.error == getattr(entity, "error_code", 0)
    for topic, expected in zip(response.topics, entity.responses, strict=True):
        assert topic.name == expected.topic
        for part, stored in zip(topic.partitions, expected.partitions, strict=True):
            assert (part.index, part.error) == (stored.partition_index, stored.error_code)
            assert frame[part.records_start : part.records_end] == (stored.records or b"")
            assert part.entry_start < part.length_offset < part.records_start <= part.records_end
    assert at_once(rebuilding_slices(frame, response, {}, {})) == struct.pack(">i", len(frame)) + frame


def _changed(part: Any, records: bytes | None, code: int | None) -> Any:
    if code is not None:
        return dataclasses.replace(part, records=b"", error_code=ErrorCode(code))
    return part if records is None else dataclasses.replace(part, records=records)


@versions
@few
@given(st.data())
def test_a_cut_changes_nothing_else(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(FETCH, version), batches=True))
    frame = response_frame(entity)
    response = at_once(fetch_response_slices(frame, version))
    cuts: dict[tuple[int, int], int] = {}
    refused: dict[tuple[int, int], int] = {}
    topics = []
    for topic_place, (topic, scanned) in enumerate(zip(entity.responses, response.topics, strict=True)):
        parts = []
        for place, (part, found) in enumerate(zip(topic.partitions, scanned.partitions, strict=True)):
            records = code = None
            ends = [found.records_start]
            ends += [
                each.offset + each.size
                for each in walk_batches(frame, found.records_start, found.records_end)
            ]
            match data.draw(st.sampled_from(["keep", "cut", "refuse"])):
                case "cut":
                    end = cuts[topic_place, place] = data.draw(st.sampled_from(ends))
                    if end < found.records_end:
                        records = frame[found.records_start : end]
                case "refuse":
                    code = refused[topic_place, place] = errors.TOPIC_AUTHORIZATION_FAILED
            parts.append(_changed(part, records, code))
        topics.append(dataclasses.replace(topic, partitions=tuple(parts)))
    framed = at_once(rebuilding_slices(frame, response, cuts, refused))
    assert decode_framed(framed, FETCH, version) == dataclasses.replace(entity, responses=tuple(topics))


@versions
def test_partitions_of_one_response_are_refused_cut_and_kept(version: int) -> None:
    entity = _with_records(full(response_schema(FETCH, version)), b"records")
    frame = response_frame(entity)
    response = at_once(fetch_response_slices(frame, version))
    (kept, cut), _ = [each.partitions for each in response.topics]
    cuts = {(0, 0): kept.records_end, (0, 1): cut.records_start + 3}
    framed = at_once(rebuilding_slices(frame, response, cuts, {(1, 0): 29, (1, 1): 44}))
    wanted = [[(kept.error, b"records"), (cut.error, b"rec")], [(29, b""), (44, b"")]]
    expected = [
        dataclasses.replace(
            topic,
            partitions=tuple(
                dataclasses.replace(part, error_code=ErrorCode(code), records=records)
                for part, (code, records) in zip(topic.partitions, each, strict=True)
            ),
        )
        for topic, each in zip(entity.responses, wanted, strict=True)
    ]
    assert decode_framed(framed, FETCH, version) == dataclasses.replace(entity, responses=tuple(expected))


@pytest.mark.parametrize("version", [4, 12])
def test_a_large_partition_that_is_emptied_shortens_its_length(version: int) -> None:
    if version >= 12:
        body = bytes(10) + b"\2\2t\2" + bytes(30) + b"\0" + bytes(4) + write_uvarint(20_001)
        frame = b"\0\0\0\1\0" + body + b"r" * 20_000 + b"\0\0\0"
    else:
        body = bytes(4) + b"\0\0\0\1\0\1t\0\0\0\1" + bytes(22) + b"\xff" * 4 + struct.pack(">i", 20_000)
        frame = b"\0\0\0\1" + body + b"r" * 20_000
    response = at_once(fetch_response_slices(frame, version))
    start = response.topics[0].partitions[0].records_start
    emptied = decode_framed(at_once(rebuilding_slices(frame, response, {(0, 0): start}, {})), FETCH, version)
    assert emptied.responses[0].partitions[0].records == b""
    half = decode_framed(
        at_once(rebuilding_slices(frame, response, {(0, 0): start + 100}, {})), FETCH, version
    )
    assert half.responses[0].partitions[0].records == b"r" * 100
    for outside in (start - 1, start + 20_001):
        with pytest.raises(ProtocolError, match="outside the records of partition 0"):
            at_once(rebuilding_slices(frame, response, {(0, 0): outside}, {}))


def _request(version: int, topics: bytes) -> bytes:
    head = struct.pack(">hhih", 1, version, 1, -1) + (b"\0" if version >= 12 else b"")
    return head + struct.pack(">iiiib", -1, 500, 1, 1000, 0) + (bytes(8) if version >= 7 else b"") + topics


@pytest.mark.parametrize(
    ("version", "topics", "reason"),
    [
        (4, b"\x7f\xff\xff\xff", "an array of 2147483647 elements"),
        (4, b"\0\0\0\1\0\1t\0\0\0\3" + bytes(8), "60 bytes announced|48 bytes announced"),
        (12, b"\2\2t\xff\xff\xff\xff\x07", "an array of 2147483646 elements"),
        (12, b"\1\1\1", "a truncated Fetch request"),
        (12, b"\1\1\1\0!", "a Fetch request of 40 bytes in 41"),
        (12, b"\0\1\1\0", "null where an array is required"),
        (13, b"\1\1\1\0", "fetch version 13, expected 4 to 12"),
        (3, b"\0\0\0\0", "fetch version 3, expected 4 to 12"),
    ],
)
def test_false_lengths_in_requests_are_refused(version: int, topics: bytes, reason: str) -> None:
    frame = _request(version, topics)
    with pytest.raises(ProtocolError, match=reason):
        at_once(fetch_request_slices(frame, parse_request_head(frame)))


def test_a_request_ends_where_its_frame_ends() -> None:
    raw = _request(4, b"\0\0\0\0!")
    frame = b"ab" + raw + b"next"
    with pytest.raises(ProtocolError, match="a Fetch request of 31 bytes in 32"):
        at_once(fetch_request_slices(frame, parse_request_head(frame, 2, 2 + len(raw))))


def test_requests_have_a_bounded_number_of_partitions() -> None:
    count = MAX_ENTRIES + 1
    frame = _request(12, b"\2\2t" + b"\xc2\x84\x3d" + bytes(count))
    with pytest.raises(ProtocolError, match="more than 1000000 partitions in a Fetch request"):
        at_once(fetch_request_slices(frame, parse_request_head(frame)))
    frame = _request(12, b"\1\2\2t" + b"\xc2\x84\x3d" + bytes(count))
    with pytest.raises(ProtocolError, match="more than 1000000 partitions"):
        at_once(fetch_request_slices(frame, parse_request_head(frame)))


@pytest.mark.parametrize(
    ("version", "body", "reason"),
    [
        (4, bytes(4) + b"\0\0\0\1\0\1t\0\0\0\1" + bytes(22) + b"\x7f\xff\xff\xff", "truncated"),
        (4, bytes(4) + b"\0\0\0\1\0\1t\0\0\0\1" + bytes(26) + b"\0\0\0\5abc", "a Fetch response of"),
        (12, bytes(10) + b"\2\2t\2" + bytes(30) + b"\xff\xff\xff\xff\x07", "truncated"),
        (12, bytes(10) + b"\1\0!", "a Fetch response of 17 bytes in a frame of 18"),
        (13, b"", "fetch version 13, expected 4 to 12"),
    ],
)
def test_false_lengths_in_responses_are_refused(version: int, body: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        at_once(fetch_response_slices(b"\0\0\0\1" + (b"\0" if version >= 12 else b"") + body, version))
