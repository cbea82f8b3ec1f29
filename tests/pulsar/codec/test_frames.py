"""Frames: every command, every part, and false sizes."""

import google_crc32c
import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.codec.strategies import (
    PING,
    a_metadata,
    a_send,
    commands,
    frame_of,
    messages,
    scrambled,
    sized,
    with_broker_entry,
    without_checksum,
)

from sluicegate_pulsar.codec import frames
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import (
    ABSENT,
    any_command_type,
    command_frame,
    command_size,
    command_type,
    has_valid_checksum,
    parse_command,
    short_head,
    split,
)
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, BrokerEntryMetadata

_A_SEND = a_send().SerializeToString()
_SEND = payload_frame(a_send(), a_metadata().SerializeToString(), b"payload")


@settings(deadline=None)
@given(commands())
def test_every_command(command: BaseCommand) -> None:
    frame = command_frame(command)
    assert frame == frame_of(command.SerializeToString())
    buffer = b"before" + frame + b"after"
    assert command_type(buffer, 6) == command.type
    assert parse_command(buffer, 6, 6 + len(frame)) == command


@settings(deadline=None)
@given(st.data())
def test_any_order_of_fields(data: st.DataObject) -> None:
    """The type is what protobuf takes it for: no frame is one thing here and another at the broker."""
    raw = data.draw(scrambled(data.draw(commands()), often=False))
    frame = frame_of(raw, data.draw(st.binary(max_size=20)))
    command = BaseCommand.FromString(raw)
    assert command_type(frame, 0) == command.type
    assert parse_command(frame, 0, len(frame)) == command


def test_a_type_may_have_other_encodings() -> None:
    send = a_send().SerializeToString()
    # protobuf keeps the lower 32 bits
    assert command_type(frame_of(b"\x08\x86\x80\x80\x80\x10" + send[2:]), 0) == BaseCommand.SEND
    assert command_type(frame_of(b"\x88\x00\x06" + send[2:]), 0) == BaseCommand.SEND


@pytest.mark.parametrize(
    "raw",
    [
        b"\x08\x12" + _A_SEND,
        _A_SEND + b"\x08\x12",
        # A broker that does not know the second type takes the first: the message would bypass the gateway.
        _A_SEND + b"\x08\xe7\x07",
        _A_SEND + b"\x88\x00\xe7\x07",
        # As long as one field that fills the command, but another.
        b"\x08\x0b\x5a\x04\x08\x01\x10\x01\x08\x06",
        # Protobuf puts two commands together, brokers read the last one.
        _A_SEND + _A_SEND[2:],
    ],
)
def test_a_repeated_command_field_is_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="twice"):
        command_type(frame_of(raw), 0)


@pytest.mark.parametrize(
    ("raw", "kind"),
    [
        pytest.param(b"\x08\x01\x0a\x00", 1, id="first type"),
        pytest.param(b"\x08\x0f\x7a\x00", 15, id="last type whose tag takes one byte"),
        pytest.param(b"\x08\x06\x32\x7f" + bytes(127), 6, id="longest field whose size takes one byte"),
        pytest.param(b"\x08\x00\x02\x00", 0, id="no type"),
        pytest.param(b"\x08\x10\x82\x00", 0, id="tag of two bytes"),
        pytest.param(b"\x08\x06\x3a\x00", 0, id="field of another type"),
        pytest.param(b"\x08\x06\x32\x01", 0, id="field beyond the command"),
        pytest.param(b"\x08\x06\x32\x00\x08\x06", 0, id="bytes behind the field"),
        pytest.param(b"\x08\x06\x32\x80" + bytes(128), 0, id="size of two bytes"),
        pytest.param(b"\x10\x06\x32\x00", 0, id="other field first"),
    ],
)
def test_a_short_command_tells_its_type_by_its_first_bytes(raw: bytes, kind: int) -> None:
    for rest in (b"", b"payload"):
        frame = frame_of(raw, rest)
        assert short_head(b"##" + frame + b"##", 2) == (len(frame) - 4, kind)


def test_a_command_as_long_as_its_frame_says_is_read() -> None:
    frame = frame_of(b"\x08\x06\x32\x00")
    assert short_head(frame, 0) == (8, 6)
    for wrong in (-1, 1):  # the frame's size, in which the command no longer fits or leaves room
        other = (len(frame) - 4 + wrong).to_bytes(4) + frame[4:]
        assert short_head(other, 0) == (8 + wrong, 6 if wrong > 0 else 0)


def test_a_tiny_frame_has_a_size_and_no_type_yet() -> None:
    assert short_head(b"#\0\0\1\5\0", 1) == (261, 0)


def test_the_number_of_fields_of_a_command_is_bounded() -> None:
    raw = b"\x08\x06" + b"".join(
        bytes((0x80 | number << 3 & 0x78, number >> 4, 0)) for number in range(16, 48)
    )
    with pytest.raises(ProtocolError, match="a command with over 32 fields"):
        any_command_type(frame_of(raw), 0)
    assert any_command_type(frame_of(raw[:-3]), 0) == 6


def test_each_frame_has_room_for_a_command_with_a_type() -> None:
    assert any_command_type(b"##" + frame_of(b"\x08\x00"), 2) == 0
    for raw in (b"", b"\x18\x01", b"\x0a\x01\x05"):
        with pytest.raises(ProtocolError, match=r"^a command without a type$"):
            any_command_type(b"##" + frame_of(raw), 2)
    with pytest.raises(ProtocolError, match="a frame of 7 bytes, expected 8 or more"):
        any_command_type(b"##" + frame_of(b"")[:7], 2)


def test_the_size_of_a_command_may_fill_its_frame() -> None:
    assert command_size(b"##" + frame_of(b"abc"), 2, 13) == 3
    assert command_size(frame_of(b""), 0, 8) == 0
    with pytest.raises(ProtocolError, match="a frame of 11 bytes, expected 8 or more"):
        command_size(b"#" + frame_of(b"abc")[:-1], 1, 12)


def test_commands_of_later_versions() -> None:
    frame = frame_of(b"\x08\xe8\x07\xa2\x06\x01x")
    assert command_type(frame, 0) == 1000
    assert parse_command(frame, 0, len(frame)).type == 1000
    assert command_type(frame_of(b"\x08\x0f\x99"[:2]), 0) == 15


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", r"^a command without a type$"),
        (b"\x18\x01", r"^a command without a type$"),
        (b"\x0a\x01\x05", r"^a command without a type$"),
        (b"\x08\x05", "a command of type 5 without producer"),
        (b"\x08\x05\x2a\x02\x10\x07", r"a command without producer\.topic, producer\.request_id"),
        (b"\x08\x05\x2a\x20\x10", "a command of 5 bytes that cannot be read"),
        (b"\x08", "a command of 1 bytes that cannot be read"),
        (b"\x08\x05\x2a\x09\x0a\x03a\xffb\x10\x01\x18\x01", "topic is b'a\\\\xffb', which is not UTF-8"),
        (b"\x08\x21\x8a\x02\x06\x08\x01\x12\x00\x12\x00"[:-2] + b"\x12\x01\xfe", "not UTF-8|cannot be read"),
        (b"\x08\x21\x8a\x02\x05\x08\x01\x12\x01\xfe", "topics is b'\\\\xfe', which is not UTF-8"),
        (
            b"\x08\x04\x22\x10\x0a\x00\x12\x00\x20\x00\x28\x00\x52\x06\x0a\x01\xf0\x12\x01k",
            "key is b'\\\\xf0'",
        ),
        # A command of a later version, with a field of this one.
        (b"\x08\xe8\x07\x2a\x09\x0a\x03a\xffb\x10\x01\x18\x01", "topic is b'a\\\\xffb', which is not UTF-8"),
    ],
)
def test_malformed_commands(raw: bytes, reason: str) -> None:
    frame = frame_of(raw)
    with pytest.raises(ProtocolError, match=reason):
        parse_command(frame, 0, len(frame))


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (b"", "a frame of 0 bytes"),
        (b"\0\0\0\0", "a frame of 4 bytes"),
        (sized(b"\0\0\0"), "a frame of 7 bytes"),
        (
            b"\0\0\0\x05" + PING[4:],
            "a frame of 9 bytes says that it has 5|a command of 5 bytes in a frame of 5",
        ),
        (b"\0\0\x01\0" + PING[4:], "a frame of 9 bytes says that it has 256|a frame of 260 bytes"),
        (
            b"\xff\xff\xff\xff" + PING[4:],
            "a frame of 9 bytes says that it has 4294967295|a frame of 4294967299",
        ),
        (PING[:4] + b"\0\0\0\x06" + PING[8:], "a command of 6 bytes in a frame of 9"),
        (PING[:4] + b"\xff\xff\xff\xff" + PING[8:], "a command of 4294967295 bytes in a frame of 9"),
        (b"GET / HTTP/1.1\r\n\r\n", "a frame of 14 bytes says that it has 1195725856|a frame of 1195725860"),
    ],
)
def test_false_sizes(frame: bytes, reason: str) -> None:
    for buffer, start in ((frame, 0), (b"##" + frame + b"##", 2)):
        for reader in (parse_command, split):
            with pytest.raises(ProtocolError, match=reason):
                reader(buffer, start, start + len(frame))
    with pytest.raises(ProtocolError):
        command_type(frame, 0)


@given(st.data())
def test_partial_frames(data: st.DataObject) -> None:
    metadata, payload = data.draw(st.binary(max_size=200)), data.draw(st.binary(max_size=200))
    command = a_send(sequence_id=data.draw(st.integers(0, 2**64 - 1)))
    frame = payload_frame(command, metadata, payload)
    entry = data.draw(st.none() | messages(BrokerEntryMetadata))
    if entry is not None:
        frame = with_broker_entry(frame, entry.SerializeToString())
    buffer = b"##" + frame + b"##"
    parts = split(buffer, 2, 2 + len(frame))
    assert parts.command == 10
    assert BaseCommand.FromString(buffer[parts.command : parts.command_end]) == command
    if entry is None:
        assert (parts.broker_entry, parts.broker_entry_end) == (ABSENT, ABSENT)
    else:
        raw = buffer[parts.broker_entry : parts.broker_entry_end]
        assert BrokerEntryMetadata.FromString(raw) == entry
    assert buffer[parts.metadata : parts.payload] == metadata
    assert buffer[parts.payload : parts.stop] == payload
    checked = buffer[parts.checksum + 4 : parts.stop]
    assert int.from_bytes(buffer[parts.checksum : parts.checksum + 4]) == google_crc32c.value(checked)
    assert checked == sized(metadata) + payload


def test_a_frame_without_a_checksum() -> None:
    frame = without_checksum(_SEND)
    parts = split(frame, 0, len(frame))
    assert parts.checksum == ABSENT
    assert frame[parts.payload :] == b"payload"
    assert has_valid_checksum(frame, parts)


def test_damage_is_detected_at_every_position() -> None:
    parts = split(_SEND, 0, len(_SEND))
    assert has_valid_checksum(_SEND, parts)
    for at in [*range(parts.checksum, parts.checksum + 4), *range(parts.metadata, parts.stop)]:
        damaged = bytearray(_SEND)
        damaged[at] ^= 0x10
        assert not has_valid_checksum(bytes(damaged), parts), at


@pytest.mark.parametrize("whole", [_SEND, with_broker_entry(_SEND, b"\x08\x01"), without_checksum(_SEND)])
def test_frames_that_end_early(whole: bytes) -> None:
    """Cut anywhere before the payload, with sizes that agree: no part may reach past the end."""
    end = split(whole, 0, len(whole)).payload
    for size in range(8, end):
        short = sized(whole[4:size])
        assert command_type(whole, 0) == BaseCommand.SEND
        with pytest.raises(ProtocolError):
            split(short + whole, 0, size)


def test_metadata_beyond_the_end_of_the_frame() -> None:
    frame = bytearray(_SEND)
    at = split(_SEND, 0, len(_SEND)).metadata
    frame[at - 4 : at] = b"\xff\xff\xff\xff"
    reason = rf"^metadata up to byte {at + 2**32 - 1} of a frame of {len(frame)}$"
    with pytest.raises(ProtocolError, match=reason):
        split(b"##" + frame, 2, 2 + len(frame))


def test_a_frame_without_metadata() -> None:
    frame = frame_of(_A_SEND)
    with pytest.raises(ProtocolError, match=rf"^a frame of {len(frame)} bytes ends before its metadata$"):
        split(b"##" + frame, 2, 2 + len(frame))


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        pytest.param("ping", False, id="no fields"),
        pytest.param("flow", False, id="numbers"),
        pytest.param("message", False, id="numbers in a message that can hold one like itself"),
        pytest.param("error", True, id="a text beside numbers"),
        pytest.param("success", True, id="a text in a message within"),
    ],
)
def test_commands_that_can_hold_texts_are_known(command: str, expected: bool) -> None:
    """The others are not searched for any."""
    field = BaseCommand.DESCRIPTOR.fields_by_name[command]
    assert frames._has_text(field.message_type) == expected
    assert frames._COMMANDS[field.number] == (command, expected)
