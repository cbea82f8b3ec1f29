"""Broker addresses in responses, against kio for every version."""

import dataclasses
from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from kio.schema.errors import ErrorCode
from tests.kafka.codec.entities import decode_response, entities, full, response_frame, response_schema

from sluicegate_kafka.codec.addresses import (
    Address,
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


def _gate(node: int, host: str, port: int) -> Address:
    """As long as the host it replaces, or longer than a varint of one byte tells."""
    return f"gate-{node}.example" + "x" * (abs(port) % 2 * 150), (node ^ port) & 0xFFFF


def _advertised(nodes: Mapping[int, Address]) -> Mapping[int, Address]:
    """Every third node must not be known."""
    return {node: _gate(node, *address) for node, address in nodes.items() if node % 3}


def _all(nodes: Mapping[int, Address]) -> Mapping[int, Address]:
    return {node: _gate(node, *address) for node, address in nodes.items()}


def _mapped(listed: Iterable[Any], node_field: str, address_map: AddressMap = _advertised) -> tuple[Any, ...]:
    named = {getattr(each, node_field): (each.host, each.port) for each in listed}
    seen = {node: {"host": host, "port": port} for node, (host, port) in address_map(named).items()}
    each_of = ((each, seen.get(getattr(each, node_field))) for each in listed)
    return tuple(dataclasses.replace(each, **found) for each, found in each_of if found)


def _coordinator(entity: Any) -> Any:
    if entity.node_id == -1:
        return entity
    if found := _mapped([entity], "node_id"):
        return found[0]
    return dataclasses.replace(entity, node_id=-1, host="", port=-1, error_code=ErrorCode(15))


def _whole_find_coordinator(frame: bytes, version: int, address_map: AddressMap) -> bytes:
    return at_once(rewrite_find_coordinator(frame, version, address_map))


@pytest.mark.parametrize("version", range(14))
@few
@given(st.data())
def test_metadata(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.METADATA, version)))
    assume(len({broker.node_id for broker in entity.brokers}) == len(entity.brokers))  # a node is listed once
    frame = response_frame(entity)
    brokers = _mapped(entity.brokers, "node_id")
    rewritten = decode_response(rewrite_metadata(frame, version, _advertised), ApiKey.METADATA, version)
    assert rewritten == (7, dataclasses.replace(entity, brokers=brokers))
    assert rewrite_metadata(frame, version, lambda nodes: nodes) == frame


@pytest.mark.parametrize("version", range(7))
@few
@given(st.data())
def test_find_coordinator(version: int, data: st.DataObject) -> None:
    entity = data.draw(entities(response_schema(ApiKey.FIND_COORDINATOR, version)))
    if version >= 4:
        found = tuple(map(_coordinator, entity.coordinators))
        expected = dataclasses.replace(entity, coordinators=found)
    else:
        expected = _coordinator(entity)
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
        mapped = _mapped(getattr(entity, listed), node, _all)
        frame = rewrite(response_frame(entity), version, _all)
        assert decode_response(frame, api_key, version) == (
            7,
            dataclasses.replace(entity, **{listed: mapped}),
        )


@pytest.mark.parametrize(
    ("api_key", "versions", "rewrite", "listed", "node"),
    [
        (ApiKey.METADATA, range(14), rewrite_metadata, "brokers", "node_id"),
        (ApiKey.FIND_COORDINATOR, range(4, 7), _whole_find_coordinator, "coordinators", "node_id"),
        (ApiKey.DESCRIBE_CLUSTER, range(3), rewrite_describe_cluster, "brokers", "broker_id"),
        (ApiKey.PRODUCE, range(10, 13), rewrite_node_endpoints, "node_endpoints", "node_id"),
    ],
)
def test_brokers_that_must_not_be_known_are_left_out(
    api_key: ApiKey, versions: range, rewrite: Any, listed: str, node: str
) -> None:
    for version in versions:
        entity = full(response_schema(api_key, version))
        one = getattr(entity, listed)[0]
        for nodes in ([6], [6, 5, 9], [5, 6, 7], [5, 9, 6], range(200)):
            many = tuple(dataclasses.replace(one, **{node: each}) for each in nodes)
            frame = rewrite(
                response_frame(dataclasses.replace(entity, **{listed: many})), version, _advertised
            )
            known = tuple(map(_coordinator, many)) if listed == "coordinators" else _mapped(many, node)
            expected = dataclasses.replace(entity, **{listed: known})
            assert decode_response(frame, api_key, version) == (7, expected)


@pytest.mark.parametrize("version", range(4))
def test_a_single_coordinator_is_replaced(version: int) -> None:
    entity = full(response_schema(ApiKey.FIND_COORDINATOR, version))
    for node in (5, 6):
        found = dataclasses.replace(entity, node_id=node)
        frame = _whole_find_coordinator(response_frame(found), version, _advertised)
        assert decode_response(frame, ApiKey.FIND_COORDINATOR, version) == (7, _coordinator(found))


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
    assume(len({broker.broker_id for broker in entity.brokers}) == len(entity.brokers))
    brokers = _mapped(entity.brokers, "broker_id")
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
        nodes = _mapped(entity.node_endpoints, "node_id")
        expected = dataclasses.replace(entity, node_endpoints=nodes)
    frame = rewrite_node_endpoints(response_frame(entity), version, _advertised)
    assert decode_response(frame, ApiKey.PRODUCE, version) == (7, expected)


def test_false_lengths_in_broker_lists_are_refused() -> None:
    with pytest.raises(ProtocolError, match="an array of 2147483646 elements where 3 bytes remain"):
        rewrite_metadata(b"\0\0\0\1\0\0\0\0\0\xff\xff\xff\xff\x07abc", 12, _advertised)
    with pytest.raises(ProtocolError, match="an array of 2147483647 elements"):
        rewrite_metadata(b"\0\0\0\1\x7f\xff\xff\xff", 0, _advertised)
