"""Broker addresses in responses, against kio for every version."""

import dataclasses
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.kafka.codec.entities import decode_response, entities, full, response_frame, response_schema

from sluicegate_kafka.codec.addresses import (
    AddressMap,
    rewrite_describe_cluster,
    rewrite_find_coordinator,
    rewrite_metadata,
    rewrite_node_endpoints,
)
from sluicegate_kafka.codec.api_keys import ApiKey
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.slices import at_once

few = settings(max_examples=15, deadline=None)


def _advertised(node: int, host: str, port: int) -> tuple[str, int]:
    """As long as the host it replaces, or longer than a varint of one byte tells."""
    return f"gate-{node}.example" + "x" * (abs(port) % 2 * 150), (node ^ port) & 0xFFFF


def _mapped(entity: Any, node_field: str) -> Any:
    node = getattr(entity, node_field)
    if node == -1:
        return entity
    host, port = _advertised(node, entity.host, entity.port)
    return dataclasses.replace(entity, host=host, port=port)


def _whole_find_coordinator(frame: bytes, version: int, address_map: AddressMap) -> bytes:
    return at_once(rewrite_find_coordinator(frame, version, address_map))


@pytest.mark.parametrize("version", range(14))
@few
@given(st.data())
def test_metadata(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.METADATA, version)))
    frame = response_frame(entity)
    brokers = tuple(_mapped(each, "node_id") for each in entity.brokers)
    rewritten = decode_response(rewrite_metadata(frame, version, _advertised), ApiKey.METADATA, version)
    assert rewritten == (7, dataclasses.replace(entity, brokers=brokers))
    assert rewrite_metadata(frame, version, lambda node, host, port: (host, port)) == frame


@pytest.mark.parametrize("version", range(7))
@few
@given(st.data())
def test_find_coordinator(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.FIND_COORDINATOR, version)))
    if version >= 4:
        found = tuple(_mapped(each, "node_id") for each in entity.coordinators)
        expected = dataclasses.replace(entity, coordinators=found)
    else:
        expected = _mapped(entity, "node_id")
    frame = _whole_find_coordinator(response_frame(entity), version, _advertised)
    assert decode_response(frame, ApiKey.FIND_COORDINATOR, version) == (7, expected)


@pytest.mark.parametrize(
    ("api_key", "versions", "rewrite", "listed", "node"),
    [
        (ApiKey.METADATA, range(14), rewrite_metadata, "brokers", "node_id"),
        (ApiKey.FIND_COORDINATOR, range(4, 7), _whole_find_coordinator, "coordinators", "node_id"),
        (ApiKey.DESCRIBE_CLUSTER, range(3), rewrite_describe_cluster, "brokers", "broker_id"),
        (ApiKey.PRODUCE, range(10, 13), rewrite_node_endpoints, "node_endpoints", "node_id"),
    ],
)
def test_each_listed_address_is_replaced(
    api_key: ApiKey, versions: range, rewrite: Any, listed: str, node: str
) -> None:
    for version in versions:
        entity = full(response_schema(api_key, version))
        mapped = tuple(_mapped(each, node) for each in getattr(entity, listed))
        frame = rewrite(response_frame(entity), version, _advertised)
        assert decode_response(frame, api_key, version) == (
            7,
            dataclasses.replace(entity, **{listed: mapped}),
        )


@pytest.mark.parametrize("version", range(4))
def test_a_single_coordinator_is_replaced(version: int) -> None:
    entity = full(response_schema(ApiKey.FIND_COORDINATOR, version))
    frame = _whole_find_coordinator(response_frame(entity), version, _advertised)
    assert decode_response(frame, ApiKey.FIND_COORDINATOR, version) == (7, _mapped(entity, "node_id"))


def test_an_unknown_coordinator_stays_unknown() -> None:
    schema = response_schema(ApiKey.FIND_COORDINATOR, 0)
    entity = schema(error_code=ErrorCode(15), node_id=-1, host="", port=-1)
    frame = response_frame(entity)
    assert _whole_find_coordinator(frame, 0, _advertised) == frame


@pytest.mark.parametrize("version", range(3))
@few
@given(st.data())
def test_describe_cluster(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.DESCRIBE_CLUSTER, version)))
    brokers = tuple(_mapped(each, "broker_id") for each in entity.brokers)
    frame = rewrite_describe_cluster(response_frame(entity), version, _advertised)
    expected = dataclasses.replace(entity, brokers=brokers)
    assert decode_response(frame, ApiKey.DESCRIBE_CLUSTER, version) == (7, expected)


@pytest.mark.parametrize("version", range(3, 13))
@few
@given(st.data())
def test_node_endpoints(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.PRODUCE, version)))
    expected = entity
    if version >= 10:
        nodes = tuple(_mapped(each, "node_id") for each in entity.node_endpoints)
        expected = dataclasses.replace(entity, node_endpoints=nodes)
    frame = rewrite_node_endpoints(response_frame(entity), version, _advertised)
    assert decode_response(frame, ApiKey.PRODUCE, version) == (7, expected)


def test_false_lengths_in_broker_lists_are_refused() -> None:
    with pytest.raises(ProtocolError, match="an array of 2147483646 elements where 3 bytes remain"):
        rewrite_metadata(b"\0\0\0\1\0\0\0\0\0\xff\xff\xff\xff\x07abc", 12, _advertised)
    with pytest.raises(ProtocolError, match="an array of 2147483647 elements"):
        rewrite_metadata(b"\0\0\0\1\x7f\xff\xff\xff", 0, _advertised)
