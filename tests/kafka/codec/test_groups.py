"""Requests and responses of consumer groups, against kio for every version."""

import datetime
import struct
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.static.constants import EntityType
from tests.kafka.codec.entities import (
    decode_framed,
    entities,
    full,
    request_frame,
    request_schema,
    response_frame,
    response_schema,
    write_entity,
)

from sluicegate_kafka.codec import errors, group_requests, group_responses
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead, parse_request_head
from sluicegate_kafka.codec.group_requests import MAX_GROUP_REQUEST
from sluicegate_kafka.codec.slices import at_once

few = settings(max_examples=15, deadline=None)
CODE = errors.GROUP_MAX_SIZE_REACHED


def _versions(low: int, high: int) -> pytest.MarkDecorator:
    return pytest.mark.parametrize("version", range(low, high + 1))


def _drawn(data: st.DataObject, api_key: int, version: int) -> tuple[Any, bytes, RequestHead]:
    """A random request that stands in a larger buffer."""
    entity = data.draw(entities(request_schema(api_key, version)))
    raw = request_frame(entity)
    frame = b"ab" + raw + b"next"
    return entity, frame, parse_request_head(frame, 2, 2 + len(raw))


def _subscription(version: int, topics: list[str]) -> bytes:
    schema = load_entity_schema("consumer_protocol_subscription", version, EntityType.data)
    fields: dict[str, Any] = {"topics": tuple(topics), "user_data": b"sticky"}
    if version >= 1:
        fields["owned_partitions"] = ()
    if version >= 2:
        fields["generation_id"] = 3
    if version >= 3:
        fields["rack_id"] = "r1"
    return struct.pack(">h", version) + write_entity(schema(**fields))


@_versions(0, 9)
@few
@given(st.data())
def test_join_group(version: int, data: st.DataObject) -> None:
    entity, frame, head = _drawn(data, ApiKey.JOIN_GROUP, version)
    if entity.protocol_type == "consumer":
        return
    join = at_once(group_requests.join_group_slices(frame, head))
    assert join == (
        entity.group_id,
        entity.member_id,
        getattr(entity, "group_instance_id", None),
        (),
    )


def _join(version: int, protocol_type: str, metadata: list[bytes]) -> bytes:
    schema = request_schema(ApiKey.JOIN_GROUP, version)
    protocol = schema.__dataclass_fields__["protocols"].type.__args__[0]
    fields: dict[str, Any] = {"rebalance_timeout": datetime.timedelta(0)} if version >= 1 else {}
    return request_frame(
        schema(
            group_id="g",
            session_timeout=datetime.timedelta(seconds=10),
            member_id="",
            protocol_type=protocol_type,
            protocols=tuple(protocol(name=f"p{place}", metadata=each) for place, each in enumerate(metadata)),
            **fields,
        )
    )


@_versions(0, 9)
def test_a_joining_consumer_names_its_topics(version: int) -> None:
    metadata = [
        _subscription(each, topics) for each, topics in enumerate([["a", "b"], ["b"], ["c"], ["a", "d"]])
    ]
    frame = _join(version, "consumer", metadata)
    join = at_once(group_requests.join_group_slices(frame, parse_request_head(frame)))
    assert (join.group, join.topics) == ("g", ("a", "b", "c", "d"))


def test_newer_subscription_versions_are_read() -> None:
    frame = _join(9, "consumer", [b"\0\x63" + _subscription(0, ["new"])[2:] + b"more", b""])
    assert at_once(group_requests.join_group_slices(frame, parse_request_head(frame))).topics == ("new",)


@pytest.mark.parametrize(
    ("metadata", "reason"),
    [
        (b"\xff\xff\0\0\0\0", "a subscription of version -1"),
        (b"\0\0\x7f\xff\xff\xff", "an array of 2147483647 elements"),
        (b"\0\0\xff\xff\xff\xff", "null where an array"),
        (b"\0\0\0\0\0\1\0\x09ab", "9 bytes announced"),
        (b"\0", "truncated"),
    ],
)
def test_hostile_subscriptions(metadata: bytes, reason: str) -> None:
    frame = _join(9, "consumer", [metadata])
    with pytest.raises(ProtocolError, match=reason):
        at_once(group_requests.join_group_slices(frame, parse_request_head(frame)))
    other = _join(9, "connect", [metadata])
    assert at_once(group_requests.join_group_slices(other, parse_request_head(other))).topics == ()


@_versions(0, 5)
@few
@given(st.data())
def test_leave_group(version: int, data: st.DataObject) -> None:
    entity, frame, head = _drawn(data, ApiKey.LEAVE_GROUP, version)
    if version < 3:
        names = [entity.member_id]
    else:
        both = [(each.member_id, each.group_instance_id) for each in entity.members]
        names = [name for pair in both for name in pair if name]
    assert group_requests.read_leave_group(frame, head) == (entity.group_id, tuple(names))


@_versions(2, 9)
@few
@given(st.data())
def test_offset_commit(version: int, data: st.DataObject) -> None:
    entity, frame, head = _drawn(data, ApiKey.OFFSET_COMMIT, version)
    topics, indexes = _committed(entity)
    assert at_once(group_requests.commit_slices(frame, head)) == (
        entity.group_id,
        topics,
        indexes,
    )
    refused = decode_framed(
        at_once(group_responses.refuse_commit(frame, head, CODE)), ApiKey.OFFSET_COMMIT, version
    )
    assert _codes(refused) == {(t, i): CODE for t, each in zip(topics, indexes, strict=True) for i in each}


@_versions(0, 5)
@few
@given(st.data())
def test_txn_offset_commit(version: int, data: st.DataObject) -> None:
    entity, frame, head = _drawn(data, ApiKey.TXN_OFFSET_COMMIT, version)
    topics, indexes = _committed(entity)
    assert at_once(group_requests.commit_slices(frame, head)) == (
        entity.group_id,
        topics,
        indexes,
    )
    refused = decode_framed(
        at_once(group_responses.refuse_commit(frame, head, CODE)), ApiKey.TXN_OFFSET_COMMIT, version
    )
    assert _codes(refused) == {(t, i): CODE for t, each in zip(topics, indexes, strict=True) for i in each}


@pytest.mark.parametrize(
    ("api_key", "versions", "throttled_since"),
    [(ApiKey.OFFSET_COMMIT, range(2, 10), 3), (ApiKey.TXN_OFFSET_COMMIT, range(6), 0)],
)
def test_a_commit_is_read_and_refused_as_kafka_writes_it(
    api_key: ApiKey, versions: range, throttled_since: int
) -> None:
    for version in versions:
        entity = full(request_schema(api_key, version))
        frame = request_frame(entity, -6)
        head = parse_request_head(frame)
        assert at_once(group_requests.commit_slices(frame, head)) == (entity.group_id, *_committed(entity))
        refused = at_once(group_responses.refuse_commit(frame, head, CODE))
        answer = decode_framed(refused, api_key, version)
        assert refused[4:] == response_frame(answer, -6)
        assert hasattr(answer, "throttle_time") == (version >= throttled_since)
        assert _codes(answer) == {
            (topic.name, part.partition_index): CODE for topic in entity.topics for part in topic.partitions
        }


def _committed(entity: Any) -> tuple[tuple[str, ...], tuple[tuple[int, ...], ...]]:
    """Topics and the partitions of each."""
    return (
        tuple(each.name for each in entity.topics),
        tuple(tuple(part.partition_index for part in each.partitions) for each in entity.topics),
    )


def _codes(response: Any) -> dict[tuple[str, int], int]:
    return {(t.name, p.partition_index): p.error_code for t in response.topics for p in t.partitions}


@_versions(0, 1)
@few
@given(st.data())
def test_consumer_group_heartbeat(version: int, data: st.DataObject) -> None:
    entity, frame, head = _drawn(data, ApiKey.CONSUMER_GROUP_HEARTBEAT, version)
    assert group_requests.read_consumer_group_heartbeat(frame, head) == (
        entity.group_id,
        entity.member_id,
        entity.member_epoch,
        entity.instance_id,
        entity.subscribed_topic_names,
        getattr(entity, "subscribed_topic_regex", None),
    )


@pytest.mark.parametrize(
    ("api_key", "high", "refuse"),
    [
        (ApiKey.JOIN_GROUP, 9, group_responses.refuse_join_group),
        (ApiKey.CONSUMER_GROUP_HEARTBEAT, 1, group_responses.refuse_consumer_group_heartbeat),
    ],
)
def test_refusals(api_key: ApiKey, high: int, refuse: Callable[[int, int, int], bytes]) -> None:
    for version in range(high + 1):
        framed = refuse(version, -6, CODE)
        assert framed[4:8] == b"\xff\xff\xff\xfa"
        answer = decode_framed(framed, api_key, version)
        assert answer.error_code == CODE
        if api_key == ApiKey.JOIN_GROUP:
            assert (answer.generation_id, answer.leader, answer.member_id, answer.members) == (-1, "", "", ())
            assert answer.protocol_name == (None if version >= 7 else "")
        if api_key == ApiKey.CONSUMER_GROUP_HEARTBEAT:
            assert (answer.member_id, answer.assignment, answer.error_message) == (None, None, None)


@_versions(0, 9)
@few
@given(st.data())
def test_join_responses_are_read(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.JOIN_GROUP, version)))
    assert group_responses.join_group_result(response_frame(entity), version) == (
        entity.error_code,
        entity.member_id,
    )


@_versions(0, 1)
@few
@given(st.data())
def test_heartbeat_responses_are_read(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.CONSUMER_GROUP_HEARTBEAT, version)))
    expected = (entity.error_code, entity.member_id or "")
    assert group_responses.consumer_group_heartbeat_result(response_frame(entity), version) == expected


def test_unknown_newer_fields_are_skipped() -> None:
    frame = b"\0\x0d\0\4\0\0\0\1\xff\xff\0" + b"\2g\2\2m\0\0" + b"\1\x63\3abc"
    assert group_requests.read_leave_group(frame, parse_request_head(frame)) == ("g", ("m",))


def test_other_requests_are_not_read() -> None:
    frame = b"\0\x0d\0\6\0\0\0\1\xff\xff\0" + b"\2g\1\0"
    with pytest.raises(ProtocolError, match="leave_group version 6, expected 0 to 5"):
        group_requests.read_leave_group(frame, parse_request_head(frame))
    with pytest.raises(ProtocolError, match="API key 13, expected 11"):
        at_once(group_requests.join_group_slices(frame, parse_request_head(frame)))


def test_a_group_request_ends_where_its_frame_ends() -> None:
    raw = b"\0\x0d\0\0\0\0\0\1\xff\xff" + b"\0\1g" + b"\0\5m"
    frame = raw + b"next"
    with pytest.raises(ProtocolError, match="5 bytes announced where 1 remain"):
        group_requests.read_leave_group(frame, parse_request_head(frame, 0, len(raw)))


def test_the_size_of_a_group_request_is_counted_from_its_start() -> None:
    raw = b"\0\x0d\0\4\0\0\0\1\xff\xff\0" + b"\2g\2\2m\0\0\0"
    before = bytes(MAX_GROUP_REQUEST)
    assert group_requests.read_leave_group(before + raw, parse_request_head(before + raw, len(before))) == (
        "g",
        ("m",),
    )
    frame = b"ab" + raw + bytes(MAX_GROUP_REQUEST)
    with pytest.raises(ProtocolError, match=f"a group request of {len(frame) - 2} bytes"):
        group_requests.read_leave_group(frame, parse_request_head(frame, 2))


def test_the_size_of_group_requests_is_bounded() -> None:
    frame = b"\0\x0d\0\4\0\0\0\1\xff\xff\0" + bytes(MAX_GROUP_REQUEST)
    with pytest.raises(ProtocolError, match="a group request of 8388619 bytes, expected up to 8388608"):
        group_requests.read_leave_group(frame, parse_request_head(frame))
