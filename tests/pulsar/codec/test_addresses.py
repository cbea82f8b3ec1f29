"""No field that carries an address is forgotten."""

import re

import pytest
from google.protobuf.descriptor import FieldDescriptor
from hypothesis import given, settings
from tests.pulsar.codec.strategies import commands

from sluicegate_pulsar.codec import pulsar_pb2
from sluicegate_pulsar.codec.addresses import ADDRESS_FIELDS, NO_BROKER_FIELDS, rewrite_addresses
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

_LOOKS_LIKE_ONE = re.compile("url|addr|host|broker|uri|endpoint|server")
_NAMES_SOFTWARE = {"Connected.server_version", "AuthChallenge.server_version"}


def _fields_in_the_table() -> set[str]:
    found = set()
    for kind, paths in ADDRESS_FIELDS.items():
        for path in paths:
            message = BaseCommand.DESCRIPTOR.fields_by_number[kind].message_type
            for name in path[:-1]:
                assert message is not None
                message = message.fields_by_name[name].message_type
            assert message is not None
            assert path[-1] in message.fields_by_name
            found.add(f"{message.name}.{path[-1]}")
    return found


def test_every_field_that_looks_like_an_address_is_in_the_table() -> None:
    looking = {
        f"{message.name}.{field.name}"
        for message in pulsar_pb2.DESCRIPTOR.message_types_by_name.values()
        for field in message.fields
        if field.type in (FieldDescriptor.TYPE_STRING, FieldDescriptor.TYPE_BYTES)
        and _LOOKS_LIKE_ONE.search(field.name)
    }
    assert looking - _NAMES_SOFTWARE - NO_BROKER_FIELDS == _fields_in_the_table()
    assert looking > NO_BROKER_FIELDS


def _texts(message: object) -> list[str]:
    return re.findall(r'"([\w+]+://[^"]*)"', str(message))


_COMMANDS: dict[int, object] = {
    BaseCommand.CONNECT: {"client_version": "c", "proxy_to_broker_url": "pulsar://b1"},
    BaseCommand.LOOKUP_RESPONSE: {
        "request_id": 1,
        "broker_service_url": "pulsar://b1",
        "broker_service_url_tls": "pulsar+ssl://b1",
    },
    BaseCommand.CLOSE_PRODUCER: {
        "producer_id": 1,
        "request_id": 1,
        "assigned_broker_service_url": "pulsar://b1",
        "assigned_broker_service_url_tls": "pulsar+ssl://b1",
    },
    BaseCommand.CLOSE_CONSUMER: {
        "consumer_id": 1,
        "request_id": 1,
        "assigned_broker_service_url": "pulsar://b1",
        "assigned_broker_service_url_tls": "pulsar+ssl://b1",
    },
    BaseCommand.TOPIC_MIGRATED: {
        "resource_id": 1,
        "broker_service_url": "pulsar://b1",
        "broker_service_url_tls": "pulsar+ssl://b1",
    },
    BaseCommand.SCALABLE_TOPIC_UPDATE: {
        "session_id": 1,
        "dag": {
            "epoch": 1,
            "segment_brokers": [
                {"segment_id": 1, "broker_url": "pulsar://b1", "broker_url_tls": "pulsar+ssl://b1"},
                {"segment_id": 2, "broker_url": "pulsar://b2"},
            ],
            "controller_broker_url": "pulsar://b1",
            "controller_broker_url_tls": "pulsar+ssl://b1",
        },
    },
    BaseCommand.WATCH_TC_ASSIGNMENTS_UPDATE: {
        "watch_id": 1,
        "snapshot": {
            "parallelism": 1,
            "assignments": [
                {
                    "tc_id": 1,
                    "broker_service_url": "pulsar://b1",
                    "broker_service_url_tls": "pulsar+ssl://b1",
                }
            ],
        },
    },
}


def _command(kind: int) -> BaseCommand:
    fields = {BaseCommand.DESCRIPTOR.fields_by_number[kind].name: _COMMANDS[kind]}
    return BaseCommand(type=kind, **fields)  # type: ignore[arg-type]  # one of its fields


def test_every_command_of_the_table_is_tried_here() -> None:
    assert set(_COMMANDS) == set(ADDRESS_FIELDS)


@pytest.mark.parametrize("kind", sorted(ADDRESS_FIELDS))
def test_every_address_is_replaced(kind: int) -> None:
    command = _command(kind)
    seen = _texts(command)
    assert len(seen) >= len(ADDRESS_FIELDS[kind])
    asked: list[str] = []

    def translate(url: str) -> str:
        asked.append(url)
        return url.replace("://b", "://gate-")

    assert rewrite_addresses(command, translate)
    assert sorted(asked) == sorted(seen)
    assert sorted(_texts(command)) == sorted(url.replace("://b", "://gate-") for url in seen)
    assert not rewrite_addresses(command, lambda url: url)


@pytest.mark.parametrize("kind", sorted(ADDRESS_FIELDS))
def test_addresses_that_nobody_may_see_are_taken_out(kind: int) -> None:
    command = _command(kind)
    assert rewrite_addresses(command, lambda url: None)
    assert _texts(command) == []
    assert command.IsInitialized()
    assert not rewrite_addresses(command, lambda url: pytest.fail(f"asked for {url!r}"))


@settings(deadline=None)
@given(commands())
def test_whatever_else_there_is_stays(command: BaseCommand) -> None:
    before = BaseCommand.FromString(command.SerializeToString())
    if rewrite_addresses(command, lambda url: f"gate {url}"):
        assert command.type in ADDRESS_FIELDS
        assert command != before
        rewrite_addresses(command, lambda url: url.removeprefix("gate "))
    assert command == before


def test_commands_of_later_versions_are_left_alone() -> None:
    command = BaseCommand(type=200)
    assert not rewrite_addresses(command, lambda url: "pulsar://gate")
