"""SEND_RECEIPT and SEND_ERROR: their producer. There is one for every SEND, so they are read in place."""

from struct import Struct
from typing import Final

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

_HEAD: Final = Struct(">8xIBBB").unpack_from
"""Type, tag and length of the command; tag and first byte of the producer id; the next tag."""
_LEAST_BYTES = 16
"""The shortest frame: its sizes, and a command in which each number takes one byte."""
_HEADS: Final = frozenset((0x08073A, 0x080842))
"""Type and tag of either command, as brokers write them."""
_PRODUCER_ID = 0x08
_SEQUENCE_ID = 0x10
_FLAG = 0x80


def producer_of(data: bytes, start: int, stop: int) -> int:
    """The producer id of a SEND_RECEIPT or a SEND_ERROR.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :raises ProtocolError: when it is malformed or another command.
    """
    # <hot> Runs for every message.
    if stop - start >= _LEAST_BYTES:
        producer_id: int
        head, first, producer_id, second = _HEAD(data, start)
        is_usual = head >> 8 in _HEADS and first == _PRODUCER_ID and second == _SEQUENCE_ID
        if is_usual and not (head | producer_id) & _FLAG:
            return producer_id
    command = parse_command(data, start, stop)
    if command.type == BaseCommand.SEND_RECEIPT:
        return command.send_receipt.producer_id
    if command.type == BaseCommand.SEND_ERROR:
        return command.send_error.producer_id
    raise ProtocolError(f"a command of type {command.type}, expected SEND_RECEIPT or SEND_ERROR")
