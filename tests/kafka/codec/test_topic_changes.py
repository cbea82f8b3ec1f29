"""CreateTopics and CreatePartitions, against kio and, for versions that kio does not know, byte by byte."""

from dataclasses import replace

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka.codec.entities import (
    decode_framed,
    decode_request,
    entities,
    full,
    request_frame,
    request_schema,
    response_frame,
    response_schema,
)

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import RequestHead, parse_request_head
from sluicegate_kafka.codec.slices import at_once
from sluicegate_kafka.codec.topic_changes import (
    RefusedTopic,
    TopicChanges,
    refuse_changes,
    subset_changes,
    topic_changes_slices,
    with_refused_changes,
)

CREATE_TOPICS, CREATE_PARTITIONS = 19, 37
VERSIONS = [(CREATE_TOPICS, n) for n in range(2, 8)] + [(CREATE_PARTITIONS, n) for n in range(4)]
REFUSED = [RefusedTopic("no", 44, "why"), RefusedTopic("x" * 200, 44, "not")]
few = settings(max_examples=20, deadline=None)


def read(frame: bytes) -> TopicChanges:
    return at_once(topic_changes_slices(frame, parse_request_head(frame)))


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@few
@given(st.data())
def test_some_topics_of_a_request_are_kept(api_key: int, version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(request_schema(api_key, version)))
    request = read(request_frame(entity))
    assert [topic.name for topic in request.topics] == [topic.name for topic in entity.topics]
    kept = subset_changes(request, request.topics[1:])
    assert decode_request(kept[4:], api_key, version) == replace(entity, topics=entity.topics[1:])


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
@few
@given(st.data())
def test_refused_topics_stand_beside_the_brokers(api_key: int, version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(api_key, version)))
    head = RequestHead(api_key, version, 7, "", 0, 0, 0)
    field = "topics" if api_key == CREATE_TOPICS else "results"
    seen = decode_framed(with_refused_changes(response_frame(entity), head, REFUSED), api_key, version)
    alone = decode_framed(refuse_changes(head, REFUSED), api_key, version)
    said = [(each.name, each.error_code.value, each.error_message) for each in getattr(alone, field)]
    assert said == [tuple(each) for each in REFUSED]
    assert getattr(seen, field) == getattr(alone, field) + getattr(entity, field)
    assert replace(seen, **{field: getattr(entity, field)}) == entity


@pytest.mark.parametrize("version", [0, 1])
def test_old_versions_have_fewer_fields(version: int) -> None:
    head = CREATE_TOPICS.to_bytes(2, "big") + version.to_bytes(2, "big") + b"\0\0\0\7" + b"\xff\xff"
    entry = b"\0\1t" + b"\0\0\0\3" + b"\0\1" + bytes(4) + b"\0\0\0\1" + b"\0\1k" + b"\xff\xff"
    frame = head + b"\0\0\0\1" + entry + bytes(4) + bytes(version)
    request = read(frame)
    assert [(topic.name, topic.partitions) for topic in request.topics] == [("t", 3)]
    assert subset_changes(request, request.topics)[4:] == frame
    refusal = b"\0\2no" + b"\0\x2c" + (b"\0\3why" if version else b"")
    assert refuse_changes(request.head, REFUSED[:1])[4:] == b"\0\0\0\7" + b"\0\0\0\1" + refusal
    created = b"\0\1t" + b"\0\0" + (b"\xff\xff" if version else b"")
    merged = with_refused_changes(b"\0\0\0\7" + b"\0\0\0\1" + created, request.head, REFUSED[:1])
    assert merged[4:] == b"\0\0\0\7" + b"\0\0\0\2" + refusal + created


@pytest.mark.parametrize(("api_key", "version"), VERSIONS)
def test_a_request_that_ends_too_early_is_malformed(api_key: int, version: int) -> None:
    frame = request_frame(full(request_schema(api_key, version)))
    for end in range(read(frame).topics_end):
        with pytest.raises(ProtocolError):
            read(frame[:end])
