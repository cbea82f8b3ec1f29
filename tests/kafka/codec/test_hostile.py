"""Malformed bytes give ProtocolError or a valid result; never another error, never unbounded memory."""

import contextlib
import struct
import tracemalloc

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.kafka.codec.entities import (
    entities,
    request_frame,
    request_schema,
    response_frame,
    response_schema,
)
from tests.kafka.codec.targets import TARGETS, Target

from sluicegate_kafka.codec.errors import ProtocolError

every_target = pytest.mark.parametrize(
    "target",
    TARGETS,
    ids=[f"{each.api_key.name}-{'request' if each.request else 'response'}" for each in TARGETS],
)
_LIES = [
    b"\x7f\xff\xff\xff",
    b"\xff\xff\xff\xff\x07",
    b"\x80\0\0\0",
    b"\xff\xff",
    b"\x7f\xff",
    b"\0\0\0\0",
    b"\x80" * 5,
]


def _frame(data: st.DataObject, target: Target) -> tuple[bytes, int]:
    version = data.draw(st.sampled_from(target.versions))
    if target.request:
        schema = request_schema(target.api_key, version)
        return request_frame(data.draw(entities(schema, batches=True))), version
    return response_frame(
        data.draw(entities(response_schema(target.api_key, version), batches=True))
    ), version


@every_target
@settings(max_examples=12, deadline=None)
@given(st.data())
def test_truncated_at_every_byte(target: Target, data: st.DataObject) -> None:
    frame, version = _frame(data, target)
    with contextlib.suppress(ProtocolError):
        target.feed(frame, version)
    for size in range(min(len(frame), 400)):
        with contextlib.suppress(ProtocolError):
            target.feed(frame[:size], version)


@every_target
@settings(max_examples=60, deadline=None)
@given(st.data())
def test_corrupted(target: Target, data: st.DataObject) -> None:
    frame, version = _frame(data, target)
    changed = bytearray(frame)
    for _ in range(data.draw(st.integers(1, 3))):
        at = data.draw(st.integers(0, len(changed) - 1))
        lie = data.draw(st.sampled_from(_LIES) | st.binary(min_size=1, max_size=2))
        changed[at : at + len(lie)] = lie
    with contextlib.suppress(ProtocolError):
        target.feed(bytes(changed), version)


@every_target
@settings(max_examples=40, deadline=None)
@given(st.data())
def test_read_as_another_version(target: Target, data: st.DataObject) -> None:
    frame, _ = _frame(data, target)
    with contextlib.suppress(ProtocolError):
        target.feed(frame, data.draw(st.sampled_from(target.versions)))


@every_target
def test_false_lengths_cost_no_memory(target: Target) -> None:
    """Wherever a count stands, a huge one is refused before anything is set aside for it."""
    for version in (target.versions[0], target.versions[-1]):
        head = struct.pack(">hhih", target.api_key, version, 1, -1) if target.request else b"\0\0\0\1"
        tracemalloc.start()
        for at in range(40):
            for lie in _LIES:
                with contextlib.suppress(ProtocolError):
                    target.feed(head + bytes(at) + lie + b"\1" * 30, version)
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
        assert peak < 1_000_000
