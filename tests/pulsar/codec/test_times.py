"""The times of a MESSAGE, read without the rest."""

from typing import Any

import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar.codec.strategies import a_metadata, with_broker_entry, without_checksum

from sluicegate_pulsar.codec.message_frames import times_of
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, Message, MessageIdData


def _frame(metadata: bytes, payload: bytes = b"payload") -> bytes:
    place = MessageIdData(ledger_id=1, entry_id=2)
    command = BaseCommand(type=BaseCommand.MESSAGE, message=Message(consumer_id=1, message_id=place))
    return payload_frame(command, metadata, payload)


@given(st.integers(1, 2**64 - 1), st.none() | st.integers(-(2**63), 2**63 - 1), st.binary(max_size=50))
def test_times_equal_what_protobuf_reads(published: int, deliver_at: int | None, payload: bytes) -> None:
    fields: dict[str, Any] = {} if deliver_at is None else {"deliver_at_time": deliver_at}
    frame = _frame(a_metadata(publish_time=published, **fields).SerializeToString(), payload)
    expected = (published, deliver_at or 0)
    assert times_of(frame, 0, len(frame)) == expected
    assert times_of(b"###" + frame + frame, 3, 3 + len(frame)) == expected


@pytest.mark.parametrize("payload", [b"", b"payload"])
@pytest.mark.parametrize("chunks", [None, 1])
def test_times_are_read_wherever_the_frame_stands(payload: bytes, chunks: int | None) -> None:
    frame = _frame(
        a_metadata(publish_time=7, deliver_at_time=9, num_chunks_from_msg=chunks).SerializeToString(), payload
    )
    other = _frame(a_metadata(publish_time=1, producer_name="longer").SerializeToString())
    assert times_of(other + frame + other, len(other), len(other) + len(frame)) == (7, 9)
    assert times_of(frame, 0, len(frame)) == (7, 9)


def test_unusual_metadata_takes_the_slow_path() -> None:
    usual = _frame(a_metadata().SerializeToString())
    chunk = _frame(a_metadata(num_chunks_from_msg=2, chunk_id=1).SerializeToString())
    for frame in (with_broker_entry(usual, b"\x08\x05"), without_checksum(usual), _frame(b"\xff\xff"), chunk):
        assert times_of(frame, 0, len(frame)) is None


def test_metadata_beyond_the_end_of_its_frame_takes_the_slow_path() -> None:
    frame = _frame(a_metadata(publish_time=7).SerializeToString(), b"")
    assert times_of(frame, 0, len(frame)) == (7, 0)
    assert times_of(frame, 0, len(frame) - 1) is None


@pytest.mark.parametrize("size", range(40))
def test_a_frame_that_ends_too_early(size: int) -> None:
    frame = _frame(a_metadata().SerializeToString())[:size]
    assert times_of(frame, 0, len(frame)) is None
