"""DescribeQuorum responses without the controllers' addresses, against kio for every version."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka.codec.entities import decode_response, entities, full, response_frame, response_schema

from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.quorum import without_listeners
from sluicegate_kafka.codec.slices import at_once

few = settings(max_examples=25, deadline=None)


@pytest.mark.parametrize("version", range(3))
@few
@given(st.data())
def test_only_the_listeners_are_removed(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.DESCRIBE_QUORUM, version)))
    expected = entity
    if version >= 2:
        nodes = tuple(dataclasses.replace(node, listeners=()) for node in entity.nodes)
        expected = dataclasses.replace(entity, nodes=nodes)
    frame = at_once(without_listeners(response_frame(entity), version))
    assert decode_response(frame, ApiKey.DESCRIBE_QUORUM, version) == (7, expected)


def test_topics_stay_as_they_are() -> None:
    entity = full(response_schema(ApiKey.DESCRIBE_QUORUM, 2))
    nodes = tuple(dataclasses.replace(node, listeners=()) for node in entity.nodes)
    frame = at_once(without_listeners(response_frame(entity), 2))
    assert decode_response(frame, ApiKey.DESCRIBE_QUORUM, 2) == (7, dataclasses.replace(entity, nodes=nodes))


def test_a_truncated_response_is_malformed() -> None:
    with pytest.raises(ProtocolError):
        at_once(without_listeners(b"\0\0\0\7\0\0\0\0\5", 2))
