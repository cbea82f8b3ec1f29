"""Every address field is covered; `session/test_lookup` tests their rewriting."""

import re

from google.protobuf.descriptor import FieldDescriptor
from tests.pulsar.codec.addressed import ADDRESS_FIELDS, COMMANDS, NO_BROKER_FIELDS

from sluicegate_pulsar.codec import pulsar_pb2
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


def test_every_command_in_the_table_is_tested() -> None:
    assert set(COMMANDS) == set(ADDRESS_FIELDS)
