"""ApiVersions, against kio for every version."""

import dataclasses

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.kafka.codec.entities import (
    api_versions_5,
    decode_framed,
    decode_response,
    entities,
    request_frame,
    request_schema,
    response_frame,
    response_schema,
)

from sluicegate_kafka.codec.api_keys import ApiKey, Versions
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.frames import parse_request_head
from sluicegate_kafka.codec.versions import (
    client_software,
    restrict_api_versions,
    unsupported_version_response,
)

versions = pytest.mark.parametrize("version", range(5))


@versions
@settings(max_examples=30, deadline=None)
@given(st.data())
def test_offered_versions_are_those_that_broker_and_gateway_support(
    version: int, data: st.DataObject
) -> None:
    entity = data.draw(entities(response_schema(ApiKey.API_VERSIONS, version)))
    entity = dataclasses.replace(entity, error_code=ErrorCode(0))
    keys = st.integers(0, 4)
    entity = dataclasses.replace(
        entity, api_keys=tuple(dataclasses.replace(each, api_key=data.draw(keys)) for each in entity.api_keys)
    )
    bound = st.integers(-(2**15), 2**15 - 1)
    limits = data.draw(st.dictionaries(keys, st.builds(Versions, bound, bound, bound)))
    hidden = data.draw(st.frozensets(keys))
    expected = []
    for each in entity.api_keys:
        low, high, *_ = limits.get(each.api_key, (each.min_version, each.max_version))
        low, high = max(low, each.min_version), min(high, each.max_version)
        if each.api_key not in hidden and low <= high:
            expected.append(dataclasses.replace(each, min_version=low, max_version=high))
    frame = restrict_api_versions(response_frame(entity), version, limits, hidden)
    wanted = dataclasses.replace(entity, api_keys=tuple(expected))
    assert decode_response(frame, ApiKey.API_VERSIONS, version) == (7, wanted)


def test_an_older_broker_answers_in_its_own_format() -> None:
    frame = b"\0\0\0\x07\0\x23\0\0\0\1\0\x12\0\0\0\3"
    assert restrict_api_versions(frame, 4, {18: Versions(0, 4, 3)}, {18}) == frame


def test_a_false_array_length_is_refused() -> None:
    with pytest.raises(ProtocolError, match="an array of 2147483646 elements where 1 bytes remain"):
        restrict_api_versions(b"\0\0\0\x07\0\0\xff\xff\xff\xff\x07a", 3, {}, ())


@pytest.mark.parametrize("version", [6, 99])
def test_a_client_that_is_too_new_gets_the_supported_range(version: int) -> None:
    framed = unsupported_version_response(ApiKey.API_VERSIONS, version, -3)
    assert framed is not None
    answer = decode_framed(framed, ApiKey.API_VERSIONS, 0)
    assert framed[4:8] == b"\xff\xff\xff\xfd"
    assert answer.error_code == 35
    assert [(each.api_key, each.min_version, each.max_version) for each in answer.api_keys] == [(18, 0, 5)]


@pytest.mark.parametrize("version", range(7, 19))
def test_a_fetch_that_is_too_new_is_refused(version: int) -> None:
    framed = unsupported_version_response(ApiKey.FETCH, version, 1)
    assert framed is not None
    answer = decode_framed(framed, ApiKey.FETCH, version)
    assert (answer.error_code, answer.responses, answer.session_id) == (35, (), 0)


@pytest.mark.parametrize(("api_key", "version"), [(ApiKey.FETCH, 19), (ApiKey.PRODUCE, 13), (1000, 0)])
def test_where_kafka_has_no_answer_the_connection_closes(api_key: int, version: int) -> None:
    assert unsupported_version_response(api_key, version, 1) is None


@versions
@settings(max_examples=20, deadline=None)
@given(st.data())
def test_the_name_of_the_client_library(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(request_schema(ApiKey.API_VERSIONS, version)))
    frame = request_frame(entity)
    assert client_software(frame, parse_request_head(frame)) == getattr(entity, "client_software_name", "")


def test_the_name_of_the_library_of_a_client_that_means_one_node() -> None:
    frame = api_versions_5("cluster", 2)
    assert client_software(frame, parse_request_head(frame)) == "raw"
