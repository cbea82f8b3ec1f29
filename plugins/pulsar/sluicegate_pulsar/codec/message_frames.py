"""MESSAGE frames, from brokers to consumers."""

import struct
from functools import partial
from typing import NamedTuple

from google.protobuf.message import DecodeError

from sluicegate_pulsar.codec.entries import MANY
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import MAGIC_CHECKSUM, Parts, command_size, parse_command, split
from sluicegate_pulsar.codec.metadata import MetadataHead, read_metadata
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, Message, MessageMetadata

_MESSAGE_HEAD = b"\x08\x09\x4a"
"""Type and tag of the command, as brokers write them."""
_MESSAGE_AT = 12
"""Where what it holds starts, when its length is one byte."""
_LEAST_BYTES = 20
"""The shortest frame: its sizes, and a command in which each number takes one byte."""
_CONSUMER_ID = 0x08
_MESSAGE_ID = 0x12
_FLAG = 0x80
_MASK64 = 2**64 - 1
_command_size = struct.Struct(">I").unpack_from
_CHECKED = struct.Struct(">HII").unpack_from
"""Magic, CRC32C, size of the metadata."""
_parse = MessageMetadata.FromString


class MessageHead(NamedTuple):
    """What the gateway asks about a MESSAGE."""

    ledger_id: int
    entry_id: int
    messages: int
    """How many permits it takes: the messages in the entry that are not acknowledged yet."""
    metadata: MetadataHead
    parts: Parts


_head_of = partial(tuple.__new__, MessageHead)  # half the time of a call with so many arguments


def consumer_of(data: bytes, start: int, stop: int) -> int:
    """The consumer id of a MESSAGE, without reading the rest.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :raises ProtocolError: when it is malformed or no MESSAGE.
    """
    if (
        stop - start >= _LEAST_BYTES
        and data[start + 8 : start + 11] == _MESSAGE_HEAD
        and data[start + 11] < _FLAG
        and data[start + 12] == _CONSUMER_ID
        and data[start + 13] < _FLAG
        and data[start + 14] == _MESSAGE_ID
    ):
        return data[start + 13]
    return _read(data, start, stop).consumer_id


def _read(data: bytes, start: int, stop: int) -> Message:
    """The command, on a fast path when it is as brokers write it."""
    size = command_size(data, start, stop)
    at = start + _MESSAGE_AT
    if data[start + 8 : start + 11] == _MESSAGE_HEAD and data[start + 11] == size - 4 < _FLAG:
        try:
            message = Message.FromString(data[at : at + size - 4])
        except DecodeError as error:
            raise ProtocolError(f"a MESSAGE that cannot be read: {error}") from error
        if message.IsInitialized():
            return message
    command = parse_command(data, start, stop)
    if command.type != BaseCommand.MESSAGE:
        raise ProtocolError(f"a command of type {command.type}, expected MESSAGE ({BaseCommand.MESSAGE})")
    return command.message


def times_of(data: bytes, start: int, stop: int) -> tuple[int, int] | None:
    """An entry's publish time and delivery time, ms since the epoch, without reading the rest.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :return: the delivery time is 0 where there is none; None where `read_message` has to be used, as the
        frame is unusual or malformed, or a piece of a message.
    """
    try:
        at = start + 8 + _command_size(data, start + 4)[0]
        magic, _, size = _CHECKED(data, at)
        if magic != MAGIC_CHECKSUM or at + 10 + size > stop:
            return None
        metadata = _parse(data[at + 10 : at + 10 + size])
    except (DecodeError, struct.error):
        return None
    if not metadata.publish_time or metadata.num_chunks_from_msg > 1:
        return None
    return metadata.publish_time, metadata.deliver_at_time


def read_message(data: bytes, start: int, stop: int) -> MessageHead:
    """Read a MESSAGE frame's command and metadata, with or without broker entry metadata before it.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :raises ProtocolError: when it is malformed or no MESSAGE.
    """
    message = _read(data, start, stop)
    parts = split(data, start, stop)
    metadata = read_metadata(data, parts.metadata, parts.payload)
    message_id = message.message_id
    messages = metadata.num_messages_in_batch
    if messages > MANY:
        metadata.check_count(parts.stop - parts.payload)
    if message.ack_set:  # a bit in 64-bit words for each message of a batch that is left
        messages = min(messages, sum((word & _MASK64).bit_count() for word in message.ack_set))
    return _head_of((message_id.ledger_id, message_id.entry_id, messages, metadata, parts))
