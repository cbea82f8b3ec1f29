"""SEND frames, read in place: this is the hot path."""

import struct
from functools import partial
from typing import NamedTuple, TypeAlias

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import ABSENT, MAGIC_CHECKSUM, Parts, parse_command, split
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

_COMMAND = struct.Struct(">IIIBB").unpack_from
"""Both sizes; the command's first four bytes; tag and first byte of what it holds first."""
_CHECKED = struct.Struct(">HII").unpack_from
"""Magic, CRC32C, size of the metadata."""

# Tags, as the clients write them.
_IS_SEND = 0x080632
_PRODUCER_ID = 0x08
_SEQUENCE_ID = 0x10
_NUM_MESSAGES = 0x18
_TXN_LEAST = 0x20
_TXN_MOST = 0x28
_HIGHEST = 0x30
_IS_CHUNK = 0x38
_REST = frozenset((_NUM_MESSAGES, _TXN_LEAST, _TXN_MOST, _HIGHEST, _IS_CHUNK))
_FLAG = 0x80
_LAST_SHIFT = 56
"""Varints of ten bytes, which may have bits to drop, are left to protobuf."""
_MAX_I32 = 2**31 - 1


class SendHead(NamedTuple):
    """What the gateway reads of a SEND."""

    producer_id: int
    sequence_id: int
    highest_sequence_id: int
    """Of the last message in a batch; 0 when the client does not say."""
    is_chunk: bool
    """As the command claims."""
    txn: tuple[int, int] | None
    """Most and least significant bits of the transaction's id."""
    payload_size: int
    """Bytes after the metadata."""
    metadata: int
    """Offset of the metadata."""
    payload: int
    """Offset of the payload, where the metadata ends."""


SendFields: TypeAlias = tuple[int, int, int, bool, tuple[int, int] | None, int, int, int]
"""What a `SendHead` is made of, which the hot path reads by position."""
_Rest: TypeAlias = tuple[int, bool, tuple[int, int] | None]
head_of = partial(tuple.__new__, SendHead)  # half the time of a call with so many arguments
_parts = partial(tuple.__new__, Parts)


def read_send(data: bytes, start: int, stop: int) -> SendHead:
    """As `send_fields`, with names."""
    return head_of(send_fields(data, start, stop))


def send_fields(data: bytes, start: int, stop: int) -> SendFields:
    """Read a SEND frame's command, and find its metadata and payload: the fields of `SendHead`.

    :param data: a buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :raises ProtocolError: when it is malformed or no SEND.
    """
    try:
        total, size, head, tag, producer_id = _COMMAND(data, start)
        end = start + 8 + size
        at = start + 14
        if producer_id >= _FLAG:
            producer_id = producer_id & 0x7F | data[at] << 7
            at += 1
        # Unusual frames: other fields first, a producer id of three bytes, a command of over 128 bytes.
        if (
            head >> 8 != _IS_SEND
            or head & 0xFF != size - 4
            or size > _FLAG
            or tag != _PRODUCER_ID
            or producer_id >> 14
            or data[at] != _SEQUENCE_ID
        ):
            return _any_send(data, start, stop)
        sequence_id = data[at + 1]
        at += 2
        if sequence_id >= _FLAG:
            sequence_id, at = _long_varint(data, at, sequence_id)
        magic, _, metadata_size = _CHECKED(data, end)
        metadata = end + 10
        payload = metadata + metadata_size
        if at > end or magic != MAGIC_CHECKSUM or not payload <= stop == start + 4 + total <= len(data):
            return _any_send(data, start, stop)
        if at == end:  # one message, which needs no more fields
            return producer_id, sequence_id, 0, False, None, stop - payload, metadata, payload
        rest = _rest(data, at, end)
        if rest is None:
            return _any_send(data, start, stop)
    except (IndexError, struct.error):
        return _any_send(data, start, stop)
    return producer_id, sequence_id, *rest, stop - payload, metadata, payload


def send_start(data: bytes, start: int, stop: int) -> SendFields | None:
    """The fields of a SEND of which only the start has arrived; None if its head is not whole, or unusual.

    :param data: a buffer that holds the start.
    :param start: offset of the frame's size.
    :param stop: where the frame will end; the payload is that long.
    """
    try:
        end = start + 8 + _COMMAND(data, start)[1]
        magic, _, metadata_size = _CHECKED(data, end)
    except struct.error:
        return None
    payload = end + 10 + metadata_size
    if magic != MAGIC_CHECKSUM or payload > min(len(data), stop):
        return None
    head = (payload - start - 4).to_bytes(4) + data[start + 4 : payload]  # a SEND of nothing
    try:
        producer_id, sequence_id, highest, is_chunk, txn, _, _, _ = send_fields(head, 0, len(head))
    except ProtocolError:
        return None
    return producer_id, sequence_id, highest, is_chunk, txn, stop - payload, end + 10, payload


def parts_of(data: bytes, start: int, stop: int, head: SendHead) -> Parts:
    """The result of `split` for a SEND whose head was read already, with less work.

    :param data: the buffer that holds the frame.
    :param start: offset of the frame's size.
    :param stop: offset after the frame.
    :param head: what `read_send` found in it.
    """
    end = start + 8 + _COMMAND(data, start)[1]
    if end + 10 == head.metadata and _CHECKED(data, end)[0] == MAGIC_CHECKSUM:
        return _parts((start + 8, end, ABSENT, ABSENT, end + 2, head.metadata, head.payload, stop))
    return split(data, start, stop)


def _long_varint(data: bytes, at: int, first: int) -> tuple[int, int]:
    """A varint of two to nine bytes whose first byte is read already.

    :raises IndexError: when it has more, or the buffer ends.
    """
    value = first & 0x7F
    shift = 7
    while (byte := data[at]) >= _FLAG:
        value |= (byte & 0x7F) << shift
        at += 1
        shift += 7
    if shift > _LAST_SHIFT:
        raise IndexError
    return value | byte << shift, at + 1


def _rest(data: bytes, at: int, end: int) -> _Rest | None:
    """The fields after the sequence id, in any order; None if there are unknown ones."""
    varints: dict[int, int] = {}
    while at < end:
        tag, value = data[at], data[at + 1]
        at += 2
        if value >= _FLAG:
            value, at = _long_varint(data, at, value)
        varints[tag] = value
    # The command only claims the number of messages; the metadata decides.
    if at != end or varints.get(_NUM_MESSAGES, 0) > _MAX_I32 or not varints.keys() <= _REST:
        return None
    txn = None
    if _TXN_MOST in varints and _TXN_LEAST in varints:
        txn = (varints[_TXN_MOST], varints[_TXN_LEAST])
    return varints.get(_HIGHEST, 0), bool(varints.get(_IS_CHUNK)), txn


def _any_send(data: bytes, start: int, stop: int) -> SendHead:
    """Any SEND that protobuf can read, and the reasons why others are none."""
    command = parse_command(data, start, stop)
    if command.type != BaseCommand.SEND:
        raise ProtocolError(f"a command of type {command.type}, expected SEND ({BaseCommand.SEND})")
    send = command.send
    if send.num_messages < 0:
        raise ProtocolError(f"a SEND of {send.num_messages} messages")
    parts = split(data, start, stop)
    txn = None
    if send.HasField("txnid_most_bits") and send.HasField("txnid_least_bits"):
        txn = (send.txnid_most_bits, send.txnid_least_bits)
    return SendHead(
        producer_id=send.producer_id,
        sequence_id=send.sequence_id,
        highest_sequence_id=send.highest_sequence_id,
        is_chunk=send.is_chunk,
        txn=txn,
        payload_size=stop - parts.payload,
        metadata=parts.metadata,
        payload=parts.payload,
    )
