"""MESSAGE frames, from brokers to consumers."""

from functools import partial
from typing import NamedTuple

from google.protobuf.message import DecodeError

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import Parts, command_size, parse_command, split
from sluicegate_pulsar.codec.metadata import MetadataHead, read_metadata
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, Message

_MESSAGE_HEAD = b"\x08\x09\x4a"
"""Type and tag of the command, as brokers write them."""
_MESSAGE_AT = 12
"""Where what it holds starts, when its length is one byte."""
_CONSUMER_ID = 0x08
_MESSAGE_ID = 0x12
_FLAG = 0x80
_MASK64 = 2**64 - 1


class MessageHead(NamedTuple):
    """What the gate asks about a MESSAGE."""

    consumer_id: int
    ledger_id: int
    entry_id: int
    partition: int
    """-1 for none."""
    batch_index: int
    """-1 for the whole entry."""
    redelivery_count: int
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
        stop - start > _MESSAGE_AT + 3
        and data[start + 8 : start + 11] == _MESSAGE_HEAD
        and data[start + 11] < _FLAG
        and data[start + 12] == _CONSUMER_ID
        and data[start + 13] < _FLAG
        and data[start + 14] == _MESSAGE_ID
    ):
        return data[start + 13]
    return _read(data, start, stop).consumer_id


def _read(data: bytes, start: int, stop: int) -> Message:
    """The command, by a short cut when it is as brokers write it."""
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
    if message.ack_set:  # a bit in 64-bit words for each message of a batch that is left
        messages = min(messages, sum((word & _MASK64).bit_count() for word in message.ack_set))
    return _head_of(
        (
            message.consumer_id,
            message_id.ledger_id,
            message_id.entry_id,
            message_id.partition,
            message_id.batch_index,
            message.redelivery_count,
            messages,
            metadata,
            parts,
        )
    )
