"""Frames: where command, checksum, metadata and payload are, and frames of the gateway's own.

A frame is four bytes of size, four of the command's size, the command, and for SEND and MESSAGE more:
optionally broker entry metadata, optionally a CRC32C, four bytes of the metadata's size, the metadata,
the payload. See https://pulsar.apache.org/docs/developing-binary-protocol/, and PIP-70 for what brokers add.
"""

import struct
from functools import partial
from typing import Any, Final, NamedTuple, cast

import google_crc32c
from google.protobuf.descriptor import FieldDescriptor
from google.protobuf.message import DecodeError, Message

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand
from sluicegate_pulsar.codec.varints import VARINT, fields

MAGIC_CHECKSUM: Final = 0x0E01
MAGIC_BROKER_ENTRY: Final = 0x0E02

ABSENT: Final = -1
"""Offset of what a frame does not have."""

_TYPE = 1
"""Field number of a command's type."""
_FIRST_LONG_TAG = 16
"""The first field number whose tag takes two bytes."""

_MAX_FIELDS = 32
"""Fields of a command: clients write two, its type and what is of that type."""
_MASK32 = 2**32 - 1

_PEEK = struct.Struct(">IIHBB").unpack_from
_SIZES = struct.Struct(">II").unpack_from
_u16 = struct.Struct(">H").unpack_from
_u32 = struct.Struct(">I").unpack_from
_pack_sizes = struct.Struct(">II").pack
_crc = google_crc32c.value


class Parts(NamedTuple):
    """Offsets in a frame with a payload."""

    command: int
    command_end: int
    broker_entry: int
    """Of the broker entry metadata; ABSENT without."""
    broker_entry_end: int
    """ABSENT without."""
    checksum: int
    """Of the CRC32C, after its magic; ABSENT without."""
    metadata: int
    """Of the metadata, after its size."""
    payload: int
    """Of the payload, where the metadata ends."""
    stop: int
    """Where the payload and the frame end."""


_parts_of = partial(tuple.__new__, Parts)  # half the time of a call with so many arguments


def command_size(data: bytes, start: int, stop: int) -> int:
    """The size of a frame's command in bytes.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :raises ProtocolError: when the sizes do not agree with each other or with the frame.
    """
    if stop - start < 8 or stop > len(data):
        raise ProtocolError(f"a frame of {stop - start} bytes, expected 8 or more")
    total, size = _SIZES(data, start)
    if total != stop - start - 4:
        raise ProtocolError(f"a frame of {stop - start - 4} bytes says that it has {total}")
    if size > total - 4:
        raise ProtocolError(f"a command of {size} bytes in a frame of {total}")
    return int(size)


def command_type(data: bytes, at: int) -> int:
    """The type of a frame's command, without reading the rest; it may be an unknown one.

    :param data: a buffer that holds the whole frame.
    :param at: offset of the frame's size.
    :raises ProtocolError: when there is none, or when the sizes are wrong.
    """
    return short_head(data, at)[1] or any_command_type(data, at)


def short_head(data: bytes, at: int) -> tuple[int, int]:
    """A frame's size, and its type if one short field follows the type, as in a SEND and its receipt.

    :param data: a buffer that holds the frame, or at least the size.
    :param at: offset of the frame's size.
    :return: both; the type is 0 if the fields have to be read for it (`any_command_type`).
    """
    # <hot> Runs for every frame.
    try:
        total, size, type_, tag, length = _PEEK(data, at)
    except struct.error:  # a tiny frame at the end of the buffer
        return int.from_bytes(data[at : at + 4]), 0
    kind: int = type_ - 0x0800
    # One byte each for tag and value of the type, then one field that is this type's and fills the command.
    if kind < _FIRST_LONG_TAG and tag == kind * 8 + 2 and length + 4 == size < total - 3 and length < 128:
        return total, kind
    return total, 0


def any_command_type(data: bytes, at: int) -> int:
    """The type at any position; only its lower 32 bits count, as in protobuf.

    The gateway and the broker must read a frame alike, so no field may be repeated: of two types brokers
    ignore one that they do not know, and of two commands they read the last, while protobuf merges both. No
    client writes such frames.

    :param data: a buffer that holds the whole frame.
    :param at: offset of the frame's size.
    :raises ProtocolError: when there is no type, or when the sizes lie.
    """
    if len(data) - at < 8:
        raise ProtocolError(f"a frame of {len(data) - at} bytes, expected 8 or more")
    stop = at + 4 + int(_u32(data, at)[0])
    kind = -1
    seen: set[int] = set()
    for field in fields(data, at + 8, at + 8 + command_size(data, at, stop)):
        if field.number in seen:
            raise ProtocolError(f"a command with field {field.number} twice")
        if len(seen) >= _MAX_FIELDS:
            raise ProtocolError(f"a command with over {_MAX_FIELDS} fields")
        seen.add(field.number)
        if field.number == _TYPE and field.wire_type == VARINT:
            kind = field.value & _MASK32
    if kind < 0:
        raise ProtocolError("a command without a type")
    return kind


def parse_command(data: bytes, start: int, stop: int) -> BaseCommand:
    """A frame's command as an object; unknown fields and unknown commands are kept.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :raises ProtocolError: when it is malformed, when a field that its type requires is missing, or when a
        text is not UTF-8.
    """
    size = command_size(data, start, stop)
    try:
        command = BaseCommand.FromString(bytes(data[start + 8 : start + 8 + size]))
    except DecodeError as error:
        raise ProtocolError(f"a command of {size} bytes that cannot be read: {error}") from error
    if not command.HasField("type"):
        raise ProtocolError("a command without a type")
    name, has_text = _COMMANDS.get(command.type, ("", True))
    if name and not command.HasField(name):
        raise ProtocolError(f"a command of type {command.type} without {name}")
    if not command.IsInitialized():
        missing = cast("Any", command).FindInitializationErrors()  # the stubs lack it
        raise ProtocolError(f"a command without {', '.join(missing)}")
    if has_text:
        _check_text(command)
    return command


def _has_text(message: Any, above: tuple[Any, ...] = ()) -> bool:
    """True if a message (its descriptor), or one inside it, can hold texts."""
    return message not in above and any(
        field.type == FieldDescriptor.TYPE_STRING
        or (field.message_type is not None and _has_text(field.message_type, (*above, message)))
        for field in message.fields
    )


_COMMANDS: Final = {
    field.number: (field.name, _has_text(field.message_type))
    for field in BaseCommand.DESCRIPTOR.fields
    if field.message_type is not None
}
"""By type: the command's field, and whether it can hold texts."""
_HOLDERS: Final = {
    field.message_type.full_name: field
    for field in BaseCommand.DESCRIPTOR.fields
    if field.message_type is not None
}
"""The field of a command that holds a message, by the message's name; no two hold the same."""


def _check_text(message: Message) -> None:
    """Refuse texts that are not UTF-8, which protobuf would hand out as bytes."""
    for field, value in message.ListFields():
        if field.type == FieldDescriptor.TYPE_STRING:
            texts = (value,) if isinstance(value, str | bytes) else value
            for text in texts:
                if isinstance(text, bytes):
                    raise ProtocolError(f"{field.name} is {text!r:.100}, which is not UTF-8")
        elif field.type == FieldDescriptor.TYPE_MESSAGE:
            for each in (value,) if isinstance(value, Message) else value:
                _check_text(each)


def split(data: bytes, start: int, stop: int) -> Parts:
    """Where the parts of a frame with a payload are.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :raises ProtocolError: when a size is wrong, or the frame ends before its metadata.
    """
    at = command_end = start + 8 + command_size(data, start, stop)
    broker_entry = broker_entry_end = checksum = ABSENT
    try:
        (magic,) = _u16(data, at)
        if magic == MAGIC_BROKER_ENTRY:
            broker_entry = at + 6
            at = broker_entry_end = broker_entry + _u32(data, at + 2)[0]
            (magic,) = _u16(data, at)
        if magic == MAGIC_CHECKSUM:
            checksum = at + 2
            at += 6
        metadata = at + 4
        payload = metadata + _u32(data, at)[0]
    except struct.error as error:
        raise ProtocolError(f"a frame of {stop - start} bytes ends before its metadata") from error
    if payload > stop:
        raise ProtocolError(f"metadata up to byte {payload - start} of a frame of {stop - start}")
    return _parts_of(
        (start + 8, command_end, broker_entry, broker_entry_end, checksum, metadata, payload, stop)
    )


def has_valid_checksum(data: bytes, parts: Parts) -> bool:
    """True if the frame's CRC32C is right; True too when it has none, as at the broker."""
    if parts.checksum == ABSENT:
        return True
    return bool(_crc(bytes(data[parts.checksum + 4 : parts.stop])) == _u32(data, parts.checksum)[0])


def command_of(message: Message) -> BaseCommand:
    """The command that holds a message, whose type follows from it."""
    field = _HOLDERS[message.DESCRIPTOR.full_name]
    made: BaseCommand = cast("Any", BaseCommand)(type=field.number, **{field.name: message})
    return made


def frame_of(message: Message) -> bytes:
    """A frame of the command that holds a message, without a payload."""
    return command_frame(command_of(message))


def command_frame(command: BaseCommand) -> bytes:
    """A frame of a command without a payload."""
    raw = command.SerializeToString()
    return _pack_sizes(len(raw) + 4, len(raw)) + raw
