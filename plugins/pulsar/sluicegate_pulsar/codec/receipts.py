"""SEND_RECEIPT and SEND_ERROR: whose they are. One comes back for every SEND, so they are read in place."""

from typing import Final

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import parse_command
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

_HEADS: Final = (b"\x08\x07\x3a", b"\x08\x08\x42")
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
    if (
        stop - start > 14
        and data[start + 8 : start + 11] in _HEADS
        and data[start + 11] < _FLAG
        and data[start + 12] == _PRODUCER_ID
        and data[start + 13] < _FLAG
        and data[start + 14] == _SEQUENCE_ID
    ):
        return data[start + 13]
    command = parse_command(data, start, stop)
    if command.type == BaseCommand.SEND_RECEIPT:
        return command.send_receipt.producer_id
    if command.type == BaseCommand.SEND_ERROR:
        return command.send_error.producer_id
    raise ProtocolError(f"a command of type {command.type}, expected SEND_RECEIPT or SEND_ERROR")
