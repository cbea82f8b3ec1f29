"""SEND frames, against protobuf."""

import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.pulsar.codec.captured import FRAMES
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

from sluicegate_pulsar.codec import sends
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import split
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, Send
from sluicegate_pulsar.codec.sends import SendHead, parts_of, read_send

_REST = payload_frame(BaseCommand(), a_metadata().SerializeToString(), b"payload")[8:]


def _expected(frame: bytes, send: Send) -> SendHead:
    """What protobuf reads."""
    parts = split(frame, 0, len(frame))
    both = send.HasField("txnid_most_bits") and send.HasField("txnid_least_bits")
    return SendHead(
        producer_id=send.producer_id,
        sequence_id=send.sequence_id,
        highest_sequence_id=send.highest_sequence_id,
        is_chunk=send.is_chunk,
        txn=(send.txnid_most_bits, send.txnid_least_bits) if both else None,
        payload_size=len(frame) - parts.payload,
        metadata=parts.metadata,
        payload=parts.payload,
    )


def _check(raw: bytes, rest: bytes = _REST) -> None:
    frame = frame_of(raw, rest)
    command = BaseCommand.FromString(raw)
    if command.send.num_messages < 0:
        with pytest.raises(ProtocolError, match=f"a SEND of {command.send.num_messages} messages"):
            read_send(frame, 0, len(frame))
        return
    expected = _expected(frame, command.send)
    assert read_send(frame, 0, len(frame)) == expected
    assert parts_of(frame, 0, len(frame), expected) == split(frame, 0, len(frame))
    shifted = read_send(b"#####" + frame + frame, 5, 5 + len(frame))
    assert shifted == expected._replace(metadata=expected.metadata + 5, payload=expected.payload + 5)


@given(st.data())
def test_encodes_as_protobuf_does(data: st.DataObject) -> None:
    send = data.draw(messages(Send))
    _check(BaseCommand(type=BaseCommand.SEND, send=send).SerializeToString())


@settings(deadline=None)
@given(st.data())
def test_any_order_of_fields(data: st.DataObject) -> None:
    send = data.draw(messages(Send))
    inner = BaseCommand()
    inner.send.MergeFromString(data.draw(scrambled(send)))
    raw = inner.send.SerializeToString()
    command = BaseCommand(type=BaseCommand.SEND, send=Send.FromString(raw))
    _check(data.draw(scrambled(command)))


@given(st.data())
def test_unusual_orders_inside_the_usual_command(data: st.DataObject) -> None:
    """The short cut must not take a field for another one."""
    raw = data.draw(scrambled(data.draw(messages(Send))))
    if len(raw) < 128:
        _check(b"\x08\x06\x32" + bytes((len(raw),)) + raw)


_IDS = st.sampled_from([0, 1, 127, 128, 300, 16383, 16384, 2**21, 2**32, 2**56, 2**63 - 1, 2**63, 2**64 - 1])


@given(_IDS, _IDS, st.none() | _IDS, st.sampled_from([None, 0, 1, 127, 128, 16384, 2**31 - 1]))
@example(0, 0, None, None)
def test_the_sizes_of_numbers(
    producer_id: int, sequence_id: int, highest: int | None, count: int | None
) -> None:
    send = a_send(
        producer_id=producer_id, sequence_id=sequence_id, highest_sequence_id=highest, num_messages=count
    )
    _check(send.SerializeToString())


@pytest.mark.parametrize("producer_id", [0, 127, 128, 16383, 16384, 2**64 - 1])
@pytest.mark.parametrize("sequence_id", [0, 127, 128, 16384, 2**56 - 1, 2**56, 2**63 - 1, 2**63, 2**64 - 1])
def test_numbers_of_any_length(producer_id: int, sequence_id: int) -> None:
    _check(a_send(producer_id=producer_id, sequence_id=sequence_id).SerializeToString())
    _check(
        a_send(producer_id=producer_id, sequence_id=1, highest_sequence_id=sequence_id).SerializeToString()
    )


@pytest.mark.parametrize(
    "more",
    [
        b"\x18\xff\xff\xff\xff\x07", b"\x18\x80\x80\x80\x80\x08", b"\x38\x00", b"\x38\x02", b"\x20\x05",
        b"\x28\x05", b"\x20\x05\x28\x06", b"\x30\x07\x30\x08", b"\x48\x01", b"\x42\x00",
        b"\x42\x01\x08", b"\x18",
    ],
)  # fmt: skip
def test_fields_behind_the_sequence_id(more: bytes) -> None:
    inner = b"\x08\x01\x10\x02" + more
    raw = b"\x08\x06\x32" + bytes((len(inner),)) + inner
    if len(more) == 1:
        with pytest.raises(ProtocolError, match="cannot be read"):
            read_send(frame_of(raw, _REST), 0, len(frame_of(raw, _REST)))
    else:
        _check(raw)


@pytest.mark.parametrize("count", [2**32 + 5, 2**31, 2**63 + 7, 2**64 - 1])
def test_a_message_count_of_more_than_31_bits(count: int) -> None:
    """protobuf keeps the lower 32 bits, as a signed number."""
    varint = Send(producer_id=count, sequence_id=0).SerializeToString()[1:-2]
    inner = b"\x08\x01\x10\x02\x18" + varint
    _check(b"\x08\x06\x32" + bytes((len(inner),)) + inner)


@pytest.mark.parametrize(
    "fields",
    [
        {"num_messages": 0},
        {"txnid_most_bits": 3},
        {"txnid_least_bits": 4},
        {"txnid_most_bits": 3, "txnid_least_bits": 4},
    ],
)
def test_fields_behind_a_long_producer_id(fields: dict[str, int]) -> None:
    _check(a_send(producer_id=16384, **fields).SerializeToString())


def test_fields_behind_the_message_are_none_of_it() -> None:
    _check(a_send().SerializeToString() + b"\x30\x07")


def test_a_missing_message_count_means_one() -> None:
    _check(a_send(num_messages=0).SerializeToString())


def test_the_usual_frame_takes_the_fast_path(monkeypatch: pytest.MonkeyPatch) -> None:
    usual = [
        a_send(),
        a_send(producer_id=128),
        a_send(producer_id=16383, sequence_id=2**63 - 1),
        a_send(num_messages=1000, highest_sequence_id=2**40),
        a_send(num_messages=2**31 - 1),
        a_send(txnid_most_bits=3, txnid_least_bits=2**50, num_messages=3),
        a_send(is_chunk=True),
        a_send(num_messages=3, txnid_most_bits=1, txnid_least_bits=2, highest_sequence_id=4, is_chunk=True),
    ]
    frames = [frame_of(command.SerializeToString(), _REST) for command in usual]
    frames.append(payload_frame(a_send(), a_metadata().SerializeToString(), b""))
    recorded = [frame for name in FRAMES for frame in FRAMES[name] if frame[9] == BaseCommand.SEND]
    assert len(recorded) == 7
    expected = [
        _expected(frame, BaseCommand.FromString(frame[8 : 8 + frame[7]]).send)
        for frame in (*frames, *recorded)
    ]
    monkeypatch.setattr(sends, "_any_send", None)
    assert [read_send(frame, 0, len(frame)) for frame in (*frames, *recorded)] == expected
    parts = [split(b"##" + frame, 2, 2 + len(frame)) for frame in frames]
    heads = [read_send(b"##" + frame, 2, 2 + len(frame)) for frame in frames]
    monkeypatch.setattr(sends, "split", None)
    for frame, head, expected_parts in zip(frames, heads, parts, strict=True):
        assert parts_of(b"##" + frame, 2, 2 + len(frame), head) == expected_parts


def test_frames_without_a_checksum_and_with_broker_entry_metadata() -> None:
    raw = a_send(num_messages=3).SerializeToString()
    frame = frame_of(raw, _REST)
    _check(raw, without_checksum(frame)[8 + len(raw) :])
    _check(raw, with_broker_entry(frame, b"\x08\x05")[8 + len(raw) :])
    # Its metadata stands where it would stand behind a checksum.
    _check(raw, with_broker_entry(without_checksum(frame), b"")[8 + len(raw) :])


@pytest.mark.parametrize(
    ("frame", "reason"),
    [
        (PING, r"a command of type 18, expected SEND \(6\)"),
        (frame_of(b"\x08\x06"), "a command of type 6 without send"),
        (frame_of(b"\x08\x06\x32\x02\x08\x01", _REST), r"a command without send\.sequence_id"),
        (frame_of(b"\x08\x06\x32\x04\x08\x01\x10\x02"), "ends before its metadata"),
        (frame_of(b"\x08\x06\x32\x05\x08\x01\x10\x80\x80", _REST), "cannot be read"),
        (frame_of(b"\x08\x06\x32\x0f\x08\x01\x10" + b"\xff" * 12, _REST), "cannot be read"),
        (frame_of(b"\x08\x63", _REST), "a command of type 99, expected SEND"),
        # Each as a usual frame, but for one thing.
        (frame_of(b"\x08\x07\x3a\x04\x08\x01\x10\x02", _REST), "a command of type 7, expected SEND"),
        (frame_of(b"\x08\x06\x32\x04\x30\x01\x10\x02", _REST), r"a command without send\.producer_id"),
        (frame_of(b"\x08\x06\x32\x04\x08\x01\x30\x02", _REST), r"a command without send\.sequence_id"),
        (frame_of(b"\x08\x06\x32\x05\x08\x80\x80\x10\x10", _REST), "cannot be read"),
        (frame_of(b"\x08\x06\x32\x80\x08\x01\x10\x02" + b"\x30\x07" * 62, _REST), "cannot be read"),
    ],
)
def test_frames_other_than_send(frame: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        read_send(frame, 0, len(frame))


@pytest.mark.parametrize("raw", [a_send(), a_send(sequence_id=2**40, num_messages=300)])
def test_truncated_at_every_byte(raw: BaseCommand) -> None:
    """What follows the frame in the buffer must not complete it."""
    frame = frame_of(raw.SerializeToString(), _REST)
    for size in range(len(frame)):
        for buffer in (frame[:size], frame):
            with pytest.raises(ProtocolError):
                read_send(buffer, 0, size)
    for size in range(8, read_send(frame, 0, len(frame)).payload):
        short = (size - 4).to_bytes(4) + frame[4:size]
        with pytest.raises(ProtocolError):
            read_send(short + frame, 0, size)
