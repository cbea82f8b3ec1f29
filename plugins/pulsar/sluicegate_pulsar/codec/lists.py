"""Limits on the lists in a client's command: each entry costs far more to read than to send."""

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf.descriptor import FieldDescriptor

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_size, command_type
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand
from sluicegate_pulsar.codec.varints import BYTES, fields

MAX_IDS: Final = 50_000
"""Message ids in one command, 0.1 us each; by default brokers let a consumer have as many unacknowledged."""
MAX_FIELDS: Final = 2_000
"""Fields of any other command, those of messages in it included; 2 us each."""

_TYPES = BaseCommand.Type
_IDS: Final[Mapping[int, tuple[bytes, ...]]] = {
    _TYPES.ACK: (b"\x1a", b"\x2a"),
    _TYPES.REDELIVER_UNACKNOWLEDGED_MESSAGES: (b"\x12",),
}
"""What entries of the lists begin with in commands that list message ids."""


def check_lists(data: bytes, start: int, stop: int) -> None:
    """Refuse a command with a list that takes long to read.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :raises ProtocolError: if a list is too long, or the command is malformed.
    """
    kind = command_type(data, start)
    if kind == _TYPES.SEND:  # a message, not a list
        return
    begin = start + 8
    end = begin + command_size(data, start, stop)
    if kind not in _IDS:
        _count(data, begin, end, BaseCommand.DESCRIPTOR, MAX_FIELDS)
        return
    # Each entry has one such byte; a few more have other meanings.
    most = sum(data.count(tag, begin, end) for tag in _IDS[kind])
    if most > MAX_IDS:
        raise ProtocolError(f"about {most} message ids in one command, expected up to {MAX_IDS}")


def _count(data: bytes, start: int, stop: int, message: Any, left: int) -> int:
    """Subtract the fields of a message; returns how many more are allowed."""
    for each in fields(data, start, stop):
        left -= 1
        if left < 0:
            raise ProtocolError(f"over {MAX_FIELDS} fields in one command")
        field = message.fields_by_number.get(each.number)
        if field is not None and field.type == FieldDescriptor.TYPE_MESSAGE and each.wire_type == BYTES:
            left = _count(data, each.value, each.stop, field.message_type, left)
    return left
