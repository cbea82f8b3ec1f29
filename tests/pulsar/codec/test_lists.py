"""Lists in a client's command are bounded before they are read."""

from collections.abc import Callable

import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from tests.pulsar.codec.strategies import PING, a_metadata, a_send, frame_of

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_frame
from sluicegate_pulsar.codec.lists import MAX_FIELDS, MAX_IDS, check_lists
from sluicegate_pulsar.codec.pulsar_pb2 import (
    Ack,
    BaseCommand,
    KeyValue,
    MessageIdData,
    Producer,
    RedeliverUnacknowledgedMessages,
)
from sluicegate_pulsar.codec.varints import write_uvarint

PLACE = MessageIdData(ledger_id=1, entry_id=1)


def check(frame: bytes) -> None:
    """Check a frame that stands among others."""
    check_lists(b"##" + frame + frame, 2, 2 + len(frame))


def ack(ids: int) -> bytes:
    one = Ack(consumer_id=1, ack_type=Ack.AckType.INDIVIDUAL, message_id=[PLACE] * ids)
    return command_frame(BaseCommand(type=BaseCommand.ACK, ack=one))


def redeliver(ids: int) -> bytes:
    one = RedeliverUnacknowledgedMessages(consumer_id=1, message_ids=[PLACE] * ids)
    kind = BaseCommand.REDELIVER_UNACKNOWLEDGED_MESSAGES
    return command_frame(BaseCommand(type=kind, redeliver_unacknowledged_messages=one))


def producer(properties: int, empty: int = 0, topic: str = "t") -> bytes:
    """A command with five fields, three for each property (itself, key, value), one for each empty one."""
    pairs = [*[KeyValue(key="k", value="v")] * properties, *[KeyValue()] * empty]
    one = Producer(topic=topic, producer_id=1, request_id=2)
    inner = one.SerializeToString() + b"".join(sized(pair.SerializePartialToString()) for pair in pairs)
    return frame_of(b"\x08\x05\x2a" + write_uvarint(len(inner)) + inner)


def sized(pair: bytes) -> bytes:
    """A property of a producer."""
    return b"\x32" + write_uvarint(len(pair)) + pair


@pytest.mark.parametrize(("command", "others"), [(ack, 0), (redeliver, 1)])
def test_the_number_of_message_ids_is_bounded(command: Callable[[int], bytes], others: int) -> None:
    """:param others: bytes that look like the beginning of an id: here in the length of the list."""
    most = MAX_IDS - others
    check(command(most))
    reason = f"about {MAX_IDS + 1} message ids in one command, expected up to {MAX_IDS}"
    with pytest.raises(ProtocolError, match=reason):
        check(command(most + 1))


@pytest.mark.parametrize("properties", [0, 1, (MAX_FIELDS - 5) // 3])
def test_fields_are_bounded_over_all_messages_of_a_command(properties: int) -> None:
    left = MAX_FIELDS - 5 - 3 * properties
    check(producer(properties, left))
    with pytest.raises(ProtocolError, match=f"over {MAX_FIELDS} fields in one command"):
        check(producer(properties, left + 1))


def test_a_message_is_no_list() -> None:
    check(payload_frame(a_send(), a_metadata().SerializeToString(), b"\x1a" * (MAX_IDS + 1)))
    check(PING)


def test_ids_of_other_frames_do_not_count() -> None:
    frame, others = ack(1), b"\x1a" * (MAX_IDS + 1)
    check_lists(others + frame + others, len(others), len(others) + len(frame))


def test_texts_are_not_read_as_messages() -> None:
    check(producer(1, topic="\x08" * 5_000))
