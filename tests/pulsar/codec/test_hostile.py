"""Malformed bytes give ProtocolError or a valid result; never another error, never unbounded memory."""

import contextlib
import tracemalloc
from collections.abc import Callable

import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.codec.captured import FRAMES
from tests.pulsar.codec.strategies import (
    a_metadata,
    a_send,
    commands,
    messages,
    scrambled,
    sized,
    with_broker_entry,
    without_checksum,
)
from tests.pulsar.codec.targets import TARGETS

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import command_frame
from sluicegate_pulsar.codec.pulsar_pb2 import (
    BaseCommand,
    Message,
    MessageMetadata,
    Send,
    SingleMessageMetadata,
)

every_target = pytest.mark.parametrize("target", TARGETS, ids=[each.__name__ for each in TARGETS])
_Target = Callable[[bytes, int, int], None]
_LIES = [
    b"\xff\xff\xff\xff",
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\xff\xff\xff\xff\xff\x01",
    b"\x80" * 11,
    b"\0\0\0\0",
    b"\x0e\x01",
    b"\x0e\x02",
    b"\x08\x12",
]


@st.composite
def frames(draw: st.DrawFn) -> bytes:
    """Frames of every kind."""
    kind = draw(st.sampled_from(("recorded", "command", "send", "message")))
    if kind == "recorded":
        return draw(st.sampled_from([frame for recorded in FRAMES.values() for frame in recorded]))
    if kind == "command":
        return command_frame(draw(commands()))
    payload = draw(st.binary(max_size=40))
    metadata = draw(messages(MessageMetadata))
    if draw(st.booleans()):
        single = draw(messages(SingleMessageMetadata))
        single.payload_size = len(payload)
        payload = sized(single.SerializeToString()) + payload
        metadata.num_messages_in_batch = 1
    if kind == "send":
        command = BaseCommand(type=BaseCommand.SEND, send=draw(messages(Send)))
    else:
        command = BaseCommand(type=BaseCommand.MESSAGE, message=draw(messages(Message)))
    frame = payload_frame(command, draw(scrambled(metadata)), payload)
    return draw(
        st.sampled_from([frame, frame, without_checksum(frame), with_broker_entry(frame, b"\x08\x05")])
    )


def _feed(target: _Target, frame: bytes) -> None:
    """As it is, and with others around it."""
    with contextlib.suppress(ProtocolError):
        target(frame, 0, len(frame))
    buffer = frame[::-1] + frame + frame
    with contextlib.suppress(ProtocolError):
        target(buffer, len(frame), 2 * len(frame))


@every_target
@settings(max_examples=25, deadline=None)
@given(frames())
def test_truncated_at_every_byte(target: _Target, frame: bytes) -> None:
    target_ok = False
    with contextlib.suppress(ProtocolError):
        target(frame, 0, len(frame))
        target_ok = True
    for size in range(min(len(frame), 400)):
        if target_ok:
            with pytest.raises(ProtocolError):
                target(frame[:size], 0, size)
        _feed(target, frame[:size])
        if size >= 8:
            _feed(target, (size - 4).to_bytes(4) + frame[4:size])


@every_target
@settings(max_examples=150, deadline=None)
@given(st.data())
def test_corrupted(target: _Target, data: st.DataObject) -> None:
    changed = bytearray(data.draw(frames()))
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        lie = data.draw(st.sampled_from(_LIES) | st.binary(min_size=1, max_size=2))
        changed[at : at + len(lie)] = lie
    if data.draw(st.booleans()):  # half of them with a size that holds, so that they are read on
        changed[:4] = (len(changed) - 4).to_bytes(4)
    _feed(target, bytes(changed))


@every_target
@settings(max_examples=150, deadline=None)
@given(st.binary(max_size=120))
def test_noise(target: _Target, raw: bytes) -> None:
    _feed(target, raw)
    _feed(target, sized(raw))


@every_target
def test_false_sizes_cost_no_memory(target: _Target) -> None:
    """Wherever a size or a count stands, a huge one is refused before anything is set aside for it."""
    batch = a_metadata(num_messages_in_batch=2**31 - 1).SerializeToString()
    whole = payload_frame(a_send(), batch, sized(b"\x18\x01") + b"x" + sized(b"\x18\x01") + b"x")
    tracemalloc.start()
    for at in range(len(whole)):
        for lie in _LIES:
            frame = whole[:at] + lie + whole[at + len(lie) :]
            _feed(target, frame)
            _feed(target, (len(frame) - 4).to_bytes(4) + frame[4:])
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 1_000_000
