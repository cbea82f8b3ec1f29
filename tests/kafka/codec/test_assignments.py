"""Assignments of group members, and the gateway's own requests about them, against kio."""

import datetime
import struct
import uuid
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.index import load_entity_schema
from kio.schema.errors import ErrorCode
from kio.static.constants import EntityType
from tests.kafka.codec.entities import (
    decode_framed,
    decode_request,
    entities,
    full,
    request_frame,
    request_schema,
    response_frame,
    response_schema,
    write_entity,
)

from sluicegate_kafka.codec import assignments, committed, group_responses
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.slices import at_once

few = settings(max_examples=15, deadline=None)
NAMES = st.text("abc", min_size=1, max_size=3)
INDEXES = st.lists(st.integers(0, 99), max_size=4)


def _drawn(data: st.DataObject, api_key: int, version: int) -> tuple[Any, bytes]:
    """A random response."""
    entity = data.draw(entities(response_schema(api_key, version)))
    return entity, response_frame(entity)


@pytest.mark.parametrize("version", range(6))
@few
@given(st.data())
def test_sync_group(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(request_schema(ApiKey.SYNC_GROUP, version)))
    raw = request_frame(entity)
    frame = b"ab" + raw + b"next"
    sync = assignments.read_member(frame, parse_request_head(frame, 2, 2 + len(raw)))
    instance_id = getattr(entity, "group_instance_id", None)
    assert sync == (entity.group_id, entity.member_id, instance_id)
    told, answer = _drawn(data, ApiKey.SYNC_GROUP, version)
    assert assignments.sync_group_result(answer, version) == (int(told.error_code), told.assignment)


@pytest.mark.parametrize("version", range(4))
@given(assigned=st.dictionaries(NAMES, INDEXES, max_size=4))
def test_an_assignment_of_the_consumer_protocol(version: int, assigned: dict[str, list[int]]) -> None:
    schema: Any = load_entity_schema("consumer_protocol_assignment", version, EntityType.data)
    one: Any = schema.__dataclass_fields__["assigned_partitions"].type.__args__[0]
    entity = schema(
        assigned_partitions=tuple(
            one(topic=topic, partitions=tuple(indexes)) for topic, indexes in assigned.items()
        ),
        user_data=b"sticky",
    )
    frame = struct.pack(">h", version) + write_entity(entity)
    assert at_once(assignments.assignment_slices(frame)) == {
        topic: frozenset(each) for topic, each in assigned.items()
    }


def test_no_assignment_and_one_of_another_protocol() -> None:
    assert at_once(assignments.assignment_slices(b"")) == {}
    with pytest.raises(ProtocolError):
        at_once(assignments.assignment_slices(b"\x00\x02not this"))


@pytest.mark.parametrize("version", range(2))
@few
@given(st.data())
def test_a_heartbeats_assignment(version: int, data: st.DataObject) -> None:
    entity, frame = _drawn(data, ApiKey.CONSUMER_GROUP_HEARTBEAT, version)
    found = at_once(assignments.heartbeat_assignment_slices(frame, version))
    if entity.assignment is None:
        assert found is None
    else:
        assert found == {
            _id(each.topic_id): frozenset(each.partitions) for each in entity.assignment.topic_partitions
        }


def _id(topic_id: Any) -> bytes:
    return bytes(16) if topic_id is None else bytes(topic_id.bytes)


@pytest.mark.parametrize("version", range(2))
@pytest.mark.parametrize("instance_id", [None, "i"])
def test_leaving_by_heartbeat(version: int, instance_id: str | None) -> None:
    framed = assignments.leave_by_heartbeat(version, 7, "app", "g", "m", instance_id)
    assert int.from_bytes(framed[:4], "big") == len(framed) - 4
    asked = decode_request(framed[4:], ApiKey.CONSUMER_GROUP_HEARTBEAT, version)
    assert (asked.group_id, asked.member_id, asked.member_epoch) == ("g", "m", -1)
    assert asked.instance_id == instance_id
    assert asked.subscribed_topic_names is None
    assert asked.topic_partitions is None
    assert asked.rebalance_timeout == datetime.timedelta(milliseconds=-1)


def test_topics_are_asked_for_by_id_as_kafka_writes_it() -> None:
    schema = request_schema(ApiKey.METADATA, 12)
    one: Any = schema.__dataclass_fields__["topics"].type.__args__[0].__args__[0]
    ids = [uuid.UUID(int=each) for each in (3, 2**127)]
    entity = schema(
        topics=tuple(one(topic_id=each, name=None) for each in ids),
        allow_auto_topic_creation=False,
        include_topic_authorized_operations=False,
    )
    frame = request_frame(entity, -5, "app")
    framed = assignments.ask_topic_names(-5, "app", [each.bytes for each in ids])
    assert framed == struct.pack(">i", len(frame)) + frame


@few
@given(ids=st.lists(st.uuids(), min_size=1, max_size=5, unique=True))
def test_asking_for_topics_by_id(ids: list[Any]) -> None:
    framed = assignments.ask_topic_names(7, "app", [each.bytes for each in ids])
    asked = decode_request(framed[4:], ApiKey.METADATA, 12)
    assert [(topic.topic_id, topic.name) for topic in asked.topics] == [(each, None) for each in ids]
    assert asked.allow_auto_topic_creation is False


@few
@given(st.data())
def test_topic_names(data: st.DataObject) -> None:
    entity, frame = _drawn(data, ApiKey.METADATA, 12)
    assert at_once(assignments.topic_names_slices(frame)) == {
        _id(topic.topic_id): topic.name
        for topic in entity.topics
        if topic.error_code == 0 and topic.name is not None
    }


def test_a_topic_with_an_error_has_no_name() -> None:
    entity = full(response_schema(ApiKey.METADATA, 12))
    first, second = entity.topics
    assert (first.error_code, second.error_code) == (0, 3)
    frame = response_frame(entity)
    assert at_once(assignments.topic_names_slices(frame)) == {first.topic_id.bytes: first.name}


@pytest.mark.parametrize("version", range(2))
def test_partitions_are_assigned_by_topic_id(version: int) -> None:
    entity = full(response_schema(ApiKey.CONSUMER_GROUP_HEARTBEAT, version))
    frame = response_frame(entity)
    assert at_once(assignments.heartbeat_assignment_slices(frame, version)) == {
        each.topic_id.bytes: frozenset(each.partitions) for each in entity.assignment.topic_partitions
    }


@pytest.mark.parametrize(
    ("api_key", "version"),
    [(ApiKey.OFFSET_COMMIT, version) for version in range(2, 10)]
    + [(ApiKey.TXN_OFFSET_COMMIT, version) for version in range(6)],
)
@few
@given(st.data())
def test_topics_of_which_nothing_was_committed(api_key: ApiKey, version: int, data: st.DataObject) -> None:
    entity, frame = _drawn(data, api_key, version)
    assert at_once(group_responses.refused_topics_slices(frame, api_key, version)) == {
        topic.name
        for topic in entity.topics
        if not any(partition.error_code == 0 for partition in topic.partitions)
    }


@pytest.mark.parametrize("version", range(5))
@few
@given(st.data())
def test_heartbeats(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(request_schema(ApiKey.HEARTBEAT, version)))
    frame = request_frame(entity)
    member = assignments.read_member(frame, parse_request_head(frame))
    assert member[:2] == (entity.group_id, entity.member_id)
    assert member.instance_id == getattr(entity, "group_instance_id", None)
    refused = decode_framed(group_responses.refuse_heartbeat(version, 7, 25), ApiKey.HEARTBEAT, version)
    assert int(refused.error_code) == 25


@pytest.mark.parametrize("version", range(5))
def test_a_refused_heartbeat_is_what_kafka_writes(version: int) -> None:
    throttled = {"throttle_time": datetime.timedelta(0)} if version >= 1 else {}
    entity = response_schema(ApiKey.HEARTBEAT, version)(error_code=ErrorCode(25), **throttled)
    frame = response_frame(entity, -6)
    assert group_responses.refuse_heartbeat(version, -6, 25) == struct.pack(">i", len(frame)) + frame


def test_the_group_of_an_offset_fetch_ends_where_its_frame_ends() -> None:
    raw = b"\0\x09\0\1\0\0\0\1\xff\xff" + b"\0\5g"
    frame = raw + b"next"
    with pytest.raises(ProtocolError, match="5 bytes announced where 1 remain"):
        committed.offset_fetch_group(frame, parse_request_head(frame, 0, len(raw)))


@pytest.mark.parametrize("version", range(1, 10))
def test_partitions_with_an_error_have_no_offset(version: int) -> None:
    entity = full(response_schema(ApiKey.OFFSET_FETCH, version))
    told = {each.group_id: each for each in entity.groups} if version >= 8 else {"g": entity}
    found = at_once(committed.committed_offsets_slices(response_frame(entity), version, "g"))
    assert found == {name: _offsets(each) for name, each in told.items()}
    assert {len(each) for each in found.values()} == {2}


def _offsets(group: Any) -> dict[tuple[str, int], int]:
    """The offsets of a group that have no error, and are some."""
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
        if partition.error_code == 0 and partition.committed_offset >= 0
    }


@pytest.mark.parametrize("version", range(1, 10))
@few
@given(st.data())
def test_committed_offsets(version: int, data: st.DataObject) -> None:
    asked = data.draw(entities(request_schema(ApiKey.OFFSET_FETCH, version)))
    frame = request_frame(asked)
    group = committed.offset_fetch_group(frame, parse_request_head(frame))
    assert group == getattr(asked, "group_id", "")
    entity, answer = _drawn(data, ApiKey.OFFSET_FETCH, version)
    told = {each.group_id: each for each in entity.groups} if version >= 8 else {group: entity}
    assert at_once(committed.committed_offsets_slices(answer, version, group)) == {
        name: _offsets(each) for name, each in told.items()
    }


def test_partitions_without_a_committed_offset_are_left_out() -> None:
    """A broker answers -1 for any partition, so a client may ask for millions that do not exist."""
    entries = b"".join(struct.pack(">iqhh", index, offset, -1, 0) for index, offset in enumerate((7, -1, 0)))
    answer = bytes(4) + struct.pack(">ih1si", 1, 1, b"t", 3) + entries
    assert at_once(committed.committed_offsets_slices(answer, 1, "g")) == {"g": {("t", 0): 7, ("t", 2): 0}}
