"""MESSAGE frames, against protobuf."""

import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.codec.strategies import (
    PING,
    a_metadata,
    a_send,
    frame_of,
    messages,
    scrambled,
    with_broker_entry,
    without_checksum,
)

from sluicegate_pulsar.codec import message_frames
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import ABSENT, split
from sluicegate_pulsar.codec.message_frames import consumer_of, read_message
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, Message, MessageIdData

_METADATA = a_metadata(num_messages_in_batch=12, deliver_at_time=77)
_REST = payload_frame(BaseCommand(), _METADATA.SerializeToString(), b"payload")[8:]


def _message(**fields: object) -> BaseCommand:
    command = BaseCommand(type=BaseCommand.MESSAGE)
    command.message.CopyFrom(Message(consumer_id=3, message_id=MessageIdData(ledger_id=4, entry_id=5)))
    command.message.MergeFrom(Message(**fields))  # type: ignore[arg-type]  # any of its fields
    return command


_FRAME = frame_of(_message().SerializeToString(), _REST)


def _check(frame: bytes, expected: Message) -> None:
    buffer = b"##" + frame + b"##"
    stop = 2 + len(frame)
    assert consumer_of(buffer, 2, stop) == expected.consumer_id
    head = read_message(buffer, 2, stop)
    message_id = expected.message_id
    assert head[:2] == (message_id.ledger_id, message_id.entry_id)
    left = sum(bin(word % 2**64).count("1") for word in expected.ack_set)
    assert head.messages == (min(left, 12) if expected.ack_set else 12)
    assert head.metadata.deliver_at == 77
    assert head.parts == split(buffer, 2, stop)


@settings(deadline=None)
@given(st.data())
def test_any_message(data: st.DataObject) -> None:
    command = BaseCommand(type=BaseCommand.MESSAGE, message=data.draw(messages(Message)))
    _check(frame_of(command.SerializeToString(), _REST), command.message)


@settings(deadline=None)
@given(st.data())
def test_any_order_of_fields(data: st.DataObject) -> None:
    raw = data.draw(scrambled(data.draw(messages(Message))))
    message = Message.FromString(raw)
    if len(raw) < 128:
        _check(frame_of(b"\x08\x09\x4a" + bytes((len(raw),)) + raw, _REST), message)
    command = BaseCommand(type=BaseCommand.MESSAGE, message=message)
    raw = data.draw(scrambled(command))
    _check(frame_of(raw, _REST), BaseCommand.FromString(raw).message)


@pytest.mark.parametrize("consumer_id", [0, 127, 128, 300, 2**64 - 1])
@pytest.mark.parametrize("acknowledged", [0, 11, 12, 13, 40])
def test_numbers_and_commands_of_any_length(consumer_id: int, acknowledged: int) -> None:
    """The words of acknowledgements make the command longer than one byte tells."""
    command = _message(consumer_id=consumer_id, ack_set=[-1] * acknowledged)
    _check(frame_of(command.SerializeToString(), _REST), command.message)


def test_the_consumer_is_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_frames, "_read", None)
    for consumer_id in (0, 127):
        frame = frame_of(_message(consumer_id=consumer_id).SerializeToString(), _REST)
        assert consumer_of(b"##" + frame, 2, 2 + len(frame)) == consumer_id


def test_the_consumer_of_the_shortest_message_is_read_in_place(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(message_frames, "_read", None)
    frame = frame_of(_message().SerializeToString())
    assert len(frame) == 20
    assert consumer_of(frame, 0, 20) == 3


@pytest.mark.parametrize("size", range(12, 20))
def test_what_follows_a_short_frame_does_not_complete_it(size: int) -> None:
    short = frame_of(_message().SerializeToString()[: size - 8])
    for buffer, start in ((short + _FRAME[size:], 0), (b"##" + short + _FRAME[size:], 2)):
        with pytest.raises(ProtocolError):
            consumer_of(buffer, start, start + size)


@pytest.mark.parametrize(
    ("consumer_id", "acknowledged", "at", "looks_like"),
    [
        pytest.param(0x12 << 7, 0, 14, 0x12, id="a consumer id that ends as the tag of a message id"),
        pytest.param(0x12, 508, 12, 0x08, id="a length that ends as the tag of a consumer id"),
    ],
)
def test_a_long_number_is_not_taken_for_a_short_one(
    consumer_id: int, acknowledged: int, at: int, looks_like: int
) -> None:
    command = _message(consumer_id=consumer_id, ack_set=[1] * acknowledged)
    frame = frame_of(command.SerializeToString(), _REST)
    assert frame[at - 1 : at + 1] == bytes((0x80, looks_like))
    assert consumer_of(bytes(16) + frame, 16, 16 + len(frame)) == consumer_id


def test_a_length_with_a_byte_more_than_it_needs_is_read() -> None:
    """Its first byte is 128, and as many bytes follow it."""
    raw = _message(consumer_id=300, ack_set=[1] * 58).message.SerializeToString()
    raw = b"\x08\x09" + b"\x4a\x80\x00" + b"\x4a" + bytes((len(raw),)) + raw
    assert len(raw) == 4 + 128
    _check(frame_of(raw, _REST), BaseCommand.FromString(raw).message)


def test_acknowledged_messages_of_a_batch_take_no_permit() -> None:
    """Bits that are set are messages still to be delivered, never more than the batch holds."""
    for words, left in (([0b101], 2), ([0], 0), ([-1], 12), ([1, 1], 2)):
        frame = frame_of(_message(ack_set=words).SerializeToString(), _REST)
        assert read_message(frame, 0, len(frame)).messages == left


def test_with_and_without_broker_entry_metadata_and_checksum() -> None:
    message = _message(redelivery_count=2).message
    frame = frame_of(_message(redelivery_count=2).SerializeToString(), _REST)
    _check(frame, message)
    assert read_message(frame, 0, len(frame)).parts.broker_entry == ABSENT
    _check(without_checksum(frame), message)
    entry = with_broker_entry(frame, b"\x08\x05\x10\x09")
    _check(entry, message)
    parts = read_message(entry, 0, len(entry)).parts
    assert entry[parts.broker_entry : parts.broker_entry_end] == b"\x08\x05\x10\x09"


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (PING, r"a command of type 18, expected MESSAGE \(9\)"),
        (payload_frame(a_send(), b"", b""), "a command of type 6, expected MESSAGE"),
        (frame_of(b"\x08\x09", _REST), "a command of type 9 without message"),
        (frame_of(b"\x08\x09\x4a\x02\x08\x01", _REST), "without message.message_id"),
        (frame_of(b"\x08\x09\x4a\x05\x08\x01\x12\x05\x08", _REST), "a MESSAGE that cannot be read"),
        (frame_of(b"\x08\x09\x4a\x06\x08\x01\x12\x02\x08\x05", _REST), r"message_id\.entry_id"),
    ],
)
def test_frames_other_than_message(frame: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        read_message(frame, 0, len(frame))


def test_the_consumer_of_a_frame_other_than_message() -> None:
    for frame in (PING, payload_frame(a_send(), b"", b""), b"\0\0\0\x04\0\0\0\0"):
        with pytest.raises(ProtocolError):
            consumer_of(frame, 0, len(frame))


def test_truncated_at_every_byte() -> None:
    payload = split(_FRAME, 0, len(_FRAME)).payload
    for size in range(len(_FRAME)):
        with pytest.raises(ProtocolError):
            read_message(_FRAME, 0, size)
        with pytest.raises(ProtocolError):
            read_message(_FRAME[:size], 0, size)
    for size in range(8, payload):
        short = (size - 4).to_bytes(4) + _FRAME[4:size]
        with pytest.raises(ProtocolError):
            read_message(short + _FRAME, 0, size)
