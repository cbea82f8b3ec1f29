"""The .proto keeps its own rules, and the committed stub knows all of it."""

from pathlib import Path

from sluicegate_pulsar.codec import pulsar_pb2
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

FOLDER = Path(pulsar_pb2.__file__).parent


def test_the_stub_knows_every_message_and_field() -> None:
    stub = (FOLDER / "pulsar_pb2.pyi").read_text()
    for name, message in pulsar_pb2.DESCRIPTOR.message_types_by_name.items():
        (_, _, body) = stub.partition(f"\nclass {name}(_message.Message):\n")
        body = body.partition("\nclass ")[0]
        for field in message.fields:
            assert f"\n    {field.name}: " in body, f"{name}.{field.name}: run .ci/generate_protobuf.py"


def test_each_command_has_the_number_and_the_name_of_its_type() -> None:
    fields = {field.name: field.number for field in BaseCommand.DESCRIPTOR.fields if field.name != "type"}
    assert fields == {name.lower(): number for name, number in BaseCommand.Type.items()}


def test_no_enum_is_required() -> None:
    """A value of a later version would make the whole command unreadable."""
    messages = pulsar_pb2.DESCRIPTOR.message_types_by_name.values()
    enums = [field for message in messages for field in message.fields if field.enum_type]
    assert len(enums) > 20
    assert [field.full_name for field in enums if field.is_required] == []


def test_fields_of_later_versions_survive() -> None:
    """An unknown command, an unknown field and an unknown enum value."""
    raw = b"\x08\x63\x1a\x0a\x0a\x03srv\xa0\x06\x05\x10\x15\x9a\x06\x02hi"
    command = BaseCommand.FromString(raw)
    assert command.connected.server_version == "srv"
    command.connected.max_message_size = 7
    again = BaseCommand.FromString(command.SerializeToString())
    assert again.connected.max_message_size == 7
    command.connected.ClearField("max_message_size")
    assert sorted(command.SerializeToString()) == sorted(raw)
