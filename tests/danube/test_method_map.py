"""The method map names fields by number; danube-client's own descriptors say which fields these are."""

from dataclasses import fields
from typing import Any

import pytest
from danube.proto import DanubeApi_pb2, SchemaRegistry_pb2

from sluicegate.model import Method, Path, Role, SizeOf
from sluicegate_danube import sluicegate_danube_pb2 as own
from sluicegate_danube.method_map import METHOD_MAP, TOPIC_LOOKUP
from sluicegate_grpc.checking import check

API: Any = DanubeApi_pb2
REGISTRY: Any = SchemaRegistry_pb2

EXPECTED = {
    "/danube.ProducerService/CreateProducer": (
        Role.ATTACH_PRODUCER,
        {
            "topic": "topic_name",
            "producer": "producer_name",
            "reliable": "dispatch_strategy",
            "attachment": "response:producer_id",
        },
    ),
    "/danube.ProducerService/SendMessage": (
        Role.PUBLISH,
        {
            "topic": "msg_id.topic_name",
            "producer": "msg_id.producer_id",
            "name": "producer_name",
            "payload": "payload",
            "headers": "attributes",
            "key": "routing_key",
            "schema": "schema_version",
        },
    ),
    "/danube.Discovery/TopicLookup": (Role.LOOKUP, {"topic": "topic"}),
    "/danube.ConsumerService/Subscribe": (
        Role.SUBSCRIBE,
        {
            "topic": "topic_name",
            "subscription": "subscription",
            "consumer": "consumer_name",
            "attachment": "response:consumer_id",
        },
    ),
    "/danube.ConsumerService/ReceiveMessages": (
        Role.DISPATCH,
        {
            "consumer": "consumer_id",
            "payload": "response:payload",
            "position": "response:msg_id.topic_offset",
            "published": "response:publish_time",
            "message_topic": "response:msg_id.topic_name",
            "message_subscription": "response:subscription_name",
        },
    ),
    "/danube.ConsumerService/Ack": (
        Role.ACKNOWLEDGE,
        {
            "topic": "msg_id.topic_name",
            "subscription": "subscription_name",
            "position": "msg_id.topic_offset",
        },
    ),
    "/danube.ConsumerService/Nack": (
        Role.ACKNOWLEDGE,
        {
            "topic": "msg_id.topic_name",
            "subscription": "subscription_name",
            "position": "msg_id.topic_offset",
        },
    ),
    "/danube.HealthCheck/HealthCheck": (Role.KEEP_ALIVE, {"attachment": "id"}),
}
PATHS = [field.name for field in fields(Method) if field.type == "Path" or field.type is Path]
EDGE = {
    "/danube.edge.EdgeReplicatorService/RegisterEdge": Role.PASS,
    "/danube.edge.EdgeReplicatorService/EdgeHeartbeat": Role.PASS,
    "/danube.edge.EdgeReplicatorService/ReplicateData": Role.PUBLISH,
}
"""What edge brokers call; danube-client has no stubs of it."""
OF_OTHERS = {
    "/danube.AuthService/Authenticate",
    "/grpc.health.v1.Health/Check",
    "/grpc.health.v1.Health/List",
    "/grpc.health.v1.Health/Watch",
    "/grpc.reflection.v1.ServerReflection/ServerReflectionInfo",
    "/grpc.reflection.v1alpha.ServerReflection/ServerReflectionInfo",
}
"""Older brokers, and proxies before a broker."""
OF_0_15 = {"/danube.StorageService/ListSegmentDescriptors", "/danube_schema.SchemaRegistry/ListSubjects"}
"""Methods of 0.15.1 that danube-client does not call."""


def methods() -> dict[str, Any]:
    """All methods that danube-client knows, by full name."""
    return {
        f"/{service.full_name}/{method.name}": method
        for module in (API, REGISTRY)
        for service in module.DESCRIPTOR.services_by_name.values()
        for method in service.methods
    }


def named(message: Any, path: Path) -> str:
    """A path's name, field by field."""
    names = []
    for number in path:
        field = message.fields_by_number[number]
        names.append(field.name)
        message = field.message_type
    return ".".join(names)


def in_response(method: Method, which: str) -> bool:
    """Whether a path points into the response."""
    if method.role is Role.DISPATCH:
        return which in ("payload", "position", "published") or which.startswith("message_")
    return method.role in (Role.ATTACH_PRODUCER, Role.SUBSCRIBE) and which == "attachment"


@pytest.mark.parametrize("path", EXPECTED)
def test_field_numbers_match_the_descriptors(path: str) -> None:
    method, found = METHOD_MAP.methods[path], methods()[path]
    role, expected = EXPECTED[path]
    assert method.role is role
    told = {}
    for which in PATHS:
        numbers = getattr(method, which)
        if numbers and in_response(method, which):
            told[which] = "response:" + named(found.output_type, numbers)
        elif numbers:
            told[which] = named(found.input_type, numbers)
    assert told == expected


@pytest.mark.parametrize("size_of", ["payload", "message"])
def test_the_map_fits_the_descriptors_of_danube_client(size_of: SizeOf) -> None:
    check(METHOD_MAP.sized_by(size_of))


def test_the_map_covers_every_method() -> None:
    passing = {
        path
        for path in methods()
        if path.startswith(("/danube.Discovery/", "/danube_schema.SchemaRegistry/"))
    }
    assert set(methods()) == set(EXPECTED) | (passing - OF_0_15)
    assert set(METHOD_MAP.methods) == set(EXPECTED) | passing | set(EDGE) | OF_OTHERS | OF_0_15
    passing.remove(TOPIC_LOOKUP)
    for path in passing | OF_OTHERS | OF_0_15:
        assert METHOD_MAP.methods[path].role is Role.PASS
    for path, role in EDGE.items():
        assert METHOD_MAP.methods[path].role is role


def test_only_message_streams_are_streams() -> None:
    streams = {path for path, method in methods().items() if method.server_streaming}
    assert streams == {path for path, method in METHOD_MAP.methods.items() if method.role is Role.DISPATCH}
    assert not any(method.client_streaming for method in methods().values())


def test_the_gateways_own_messages_are_danubes() -> None:
    edge = {"EdgeResponse", "ReplicateBatch", "ReplicateAck"}  # no client ships their stubs
    messages = own.DESCRIPTOR.message_types_by_name
    for name in set(messages) - edge:
        theirs = getattr(API, name).DESCRIPTOR.fields_by_number
        for field in messages[name].fields:
            same = theirs[field.number]
            assert (field.name, field.type) == (same.name, same.type)
            if field.enum_type is not None:
                named = {value.number: value.name for value in field.enum_type.values}
                assert named == {value.number: value.name for value in same.enum_type.values}
