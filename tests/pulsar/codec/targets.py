"""Every reader of the codec, for tests that feed malformed bytes."""

from collections.abc import Callable

from sluicegate_pulsar.codec.errors import ChecksumMismatchError
from sluicegate_pulsar.codec.frames import (
    ABSENT,
    Parts,
    command_type,
    has_valid_checksum,
    parse_command,
    split,
)
from sluicegate_pulsar.codec.message_frames import consumer_of, read_message
from sluicegate_pulsar.codec.metadata import at_once, largest_message, read_metadata, with_deliver_at
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand
from sluicegate_pulsar.codec.receipts import producer_of
from sluicegate_pulsar.codec.sends import read_send


def _in_order(parts: Parts, start: int, stop: int) -> None:
    offsets = [offset for offset in parts if offset != ABSENT]
    assert offsets == sorted(offsets)
    assert parts.command == start + 8
    assert parts.stop == stop


def command(frame: bytes, start: int, stop: int) -> None:
    """The type and the command: the two readers of a type must agree."""
    kind = command_type(frame, start)
    read = parse_command(frame, start, stop)
    assert read.type & 0xFFFFFFFF == kind
    read.SerializeToString()


def send(frame: bytes, start: int, stop: int) -> None:
    """A SEND, however it is read."""
    head = read_send(frame, start, stop)
    parts = split(frame, start, stop)
    assert (head.metadata, head.payload, head.payload_size) == (
        parts.metadata,
        parts.payload,
        stop - parts.payload,
    )
    read = parse_command(frame, start, stop).send
    assert (head.producer_id, head.sequence_id) == (read.producer_id, read.sequence_id)


def metadata(frame: bytes, start: int, stop: int) -> None:
    """The metadata, and another delivery time in it."""
    parts = split(frame, start, stop)
    _in_order(parts, start, stop)
    head = read_metadata(frame, parts.metadata, parts.payload)
    assert 0 <= head.publish_time < 2**64
    try:
        rewritten = b"".join(with_deliver_at(frame, start, stop, parts, 1_800_000_000_000))
    except ChecksumMismatchError:
        assert not has_valid_checksum(frame, parts)
    else:
        new = split(rewritten, 0, len(rewritten))
        assert has_valid_checksum(rewritten, new)
        assert read_metadata(rewritten, new.metadata, new.payload).deliver_at == 1_800_000_000_000
    assert 0 <= at_once(largest_message(frame, parts, head)).largest <= stop - parts.payload


def message(frame: bytes, start: int, stop: int) -> None:
    """A MESSAGE, however it is read."""
    consumer_id = consumer_of(frame, start, stop)
    head = read_message(frame, start, stop)
    assert parse_command(frame, start, stop).message.consumer_id == consumer_id
    assert 0 <= head.messages <= head.metadata.num_messages_in_batch
    _in_order(head.parts, start, stop)


def receipt(frame: bytes, start: int, stop: int) -> None:
    """The producer of a receipt or an error."""
    read = parse_command(frame, start, stop)
    holder = read.send_receipt if read.type == BaseCommand.SEND_RECEIPT else read.send_error
    assert producer_of(frame, start, stop) == holder.producer_id


TARGETS: list[Callable[[bytes, int, int], None]] = [command, send, metadata, message, receipt]
