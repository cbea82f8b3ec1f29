"""Produce responses by hand: refusals of each version, merged responses, and the brokers that they name."""

import struct

import pytest
from tests.kafka.codec.entities import decode_framed

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import response_body_offset
from sluicegate_kafka.codec.primitives import write_string, write_uvarint
from sluicegate_kafka.codec.produce_responses import (
    appended,
    has_node_endpoints,
    merge_produce_responses,
    node_endpoints,
    plain_response_length,
    refusal_response,
    scan_produce_response,
)

versions = pytest.mark.parametrize("version", range(3, 13))
REFUSED = [("orders", [0, 4], 44, "limit 5"), ("b", [1], 10, "too large")]


@versions
def test_a_refusal_says_for_each_partition_that_nothing_was_stored(version: int) -> None:
    framed = refusal_response(version, 7, REFUSED, 250)
    answer = decode_framed(framed, ApiKey.PRODUCE, version)
    assert framed[4:8] == (7).to_bytes(4)
    assert [
        (topic.name, [part.index for part in topic.partition_responses]) for topic in answer.responses
    ] == [
        ("orders", [0, 4]),
        ("b", [1]),
    ]
    for topic, (_, _, code, text) in zip(answer.responses, REFUSED, strict=True):
        for part in topic.partition_responses:
            assert (part.error_code, part.base_offset, part.log_append_time) == (code, -1, None)
            assert getattr(part, "log_start_offset", -1) == -1
            assert getattr(part, "error_message", text) == text
            assert getattr(part, "record_errors", ()) == ()


@versions
def test_the_parts_of_a_response_are_found(version: int) -> None:
    frame = refusal_response(version, 7, REFUSED, 250)[4:]
    found = scan_produce_response(frame, version)
    assert (found.topic_count, found.throttle_ms, found.tags) == (2, 250, [])
    assert found.topics_start == response_body_offset(ApiKey.PRODUCE, version, frame) + (
        1 if version >= 9 else 4
    )
    assert found.topics_end == len(frame) - 4 - (1 if version >= 9 else 0)
    assert appended(frame, version) == []


@versions
def test_responses_are_merged_with_refusals(version: int) -> None:
    frames = [
        refusal_response(version, 1, [each], ms)[4:] for each, ms in zip(REFUSED, (30, 20), strict=True)
    ]
    merged = merge_produce_responses(version, 7, frames, [("c", [2], 3, "gone")], 10)
    assert merged == refusal_response(version, 7, [*REFUSED, ("c", [2], 3, "gone")], 30)
    assert merge_produce_responses(version, 7, frames, (), 40) == refusal_response(version, 7, REFUSED, 40)


def endpoint(node: int, host: str = "h") -> bytes:
    return struct.pack(">i", node) + write_string(host, flexible=True) + struct.pack(">i", 9092) + b"\0\0"


def tagged(*fields: tuple[int, bytes]) -> bytes:
    """A response to no topic, with tagged fields."""
    tags = [write_uvarint(tag) + write_uvarint(len(value)) + value for tag, value in fields]
    return struct.pack(">i", 1) + b"\0" + b"\1" + bytes(4) + write_uvarint(len(tags)) + b"".join(tags)


def brokers(*nodes: bytes) -> bytes:
    return write_uvarint(len(nodes) + 1) + b"".join(nodes)


OTHER = (99, b"hi")


def test_brokers_of_merged_responses_become_one_field() -> None:
    frames = [
        tagged((0, brokers(endpoint(1), endpoint(2))), OTHER),
        tagged(),
        tagged((0, brokers(endpoint(2, "new"), endpoint(3))), (98, b"first"), (99, b"late")),
    ]
    merged = merge_produce_responses(10, 1, frames, (), 0)
    all_ = brokers(endpoint(1), endpoint(2, "new"), endpoint(3))
    assert merged[4:] == tagged((0, all_), (98, b"first"), OTHER)


@pytest.mark.parametrize(
    ("version", "fields", "names"),
    [
        (9, [(0, brokers(endpoint(1)))], False),
        (10, [(0, brokers(endpoint(1)))], True),
        (12, [(0, brokers(endpoint(1))), OTHER], True),
        (10, [OTHER], False),
        (10, [], False),
    ],
)
def test_brokers_are_named_by_the_first_tagged_field_from_version_10_on(
    version: int, fields: list[tuple[int, bytes]], names: bool
) -> None:
    frame = tagged(*fields)
    assert has_node_endpoints(frame, version) is names
    found = [frame[start:end] for _, start, end in node_endpoints(frame, version)]
    assert found == ([fields[0][1]] if names else [])


@pytest.mark.parametrize("version", [2, 13])
def test_a_response_of_another_version_is_not_read(version: int) -> None:
    for read in (scan_produce_response, appended):
        with pytest.raises(ProtocolError, match=f"produce version {version}, expected 3 to 12"):
            read(tagged(), version)


def stored(version: int, error: int, offset: int, index: int = 3) -> bytes:
    """A response to one partition, as brokers write most of them."""
    fixed = struct.pack(">ihqqq", index, error, offset, -1, 0)[: 30 if version >= 5 else 22]
    if version >= 9:
        return bytes(3) + b"\7\0" + b"\2\2t\2" + fixed + b"\1\0\0" + b"\0" + bytes(4) + b"\0"
    rest = b"\0\0\0\0\xff\xff" if version >= 8 else b""
    return bytes(3) + b"\7" + b"\0\0\0\1\0\1t\0\0\0\1" + fixed + rest + bytes(4)


@versions
def test_the_offset_of_a_stored_batch_is_read(version: int) -> None:
    for error, offset, told in ((0, 77, [("t", 3, 77)]), (0, 0, [("t", 3, 0)]), (6, 77, []), (0, -1, [])):
        frame = stored(version, error, offset)
        assert appended(frame, version) == appended(frame, version, ("t", 3)) == told
    assert appended(stored(version, 0, 77), version, ("t", 4)) == ([] if version >= 9 else [("t", 3, 77)])
    if version >= 9:
        assert len(stored(version, 0, 77)) == plain_response_length("t")


@versions
def test_errors_of_single_records_are_skipped(version: int) -> None:
    if version < 8:
        return
    flexible = version >= 9
    error = struct.pack(">i", 5) + write_string("bad", flexible) + (b"\0" if flexible else b"")
    count = b"\2" if flexible else b"\0\0\0\1"
    frame = stored(version, 0, 77)
    none = b"\1\0\0" if flexible else b"\0\0\0\0\xff\xff"
    at = frame.rindex(none, 0, len(frame) - (5 if flexible else 4))
    longer = frame[:at] + count + error + none[1 if flexible else 4 :] + frame[at + len(none) :]
    assert appended(longer, version) == [("t", 3, 77)]
