"""How many messages an entry has, against protobuf."""

from typing import Any

import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.codec.captured import FRAMES
from tests.pulsar.codec.strategies import a_metadata, a_send, messages, scrambled

from sluicegate_pulsar.codec import entries
from sluicegate_pulsar.codec.entries import MANY, messages_in
from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.frames import split
from sluicegate_pulsar.codec.message_frames import read_message
from sluicegate_pulsar.codec.metadata import MetadataHead, read_composed
from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, Message, MessageIdData, MessageMetadata
from sluicegate_pulsar.codec.sends import read_send

_MESSAGE = BaseCommand(
    type=BaseCommand.MESSAGE,
    message=Message(consumer_id=0, message_id=MessageIdData(ledger_id=4, entry_id=5)),
)


def _expected(raw: bytes) -> int:
    """What protobuf reads."""
    found = MessageMetadata.FromString(raw)
    messages = found.num_messages_in_batch
    return 0 if found.num_chunks_from_msg > 1 or messages > MANY else max(1, messages)


@settings(deadline=None)
@given(st.data())
def test_any_order_of_fields(data: st.DataObject) -> None:
    raw = data.draw(scrambled(data.draw(messages(MessageMetadata, depth=1)), often=False))
    assert messages_in(raw) == _expected(raw)


@given(st.integers(-(2**31), 2**31 - 1), st.text(max_size=30), st.integers(0, 2**64 - 1))
def test_any_count_beside_any_text(count: int, name: str, sequence_id: int) -> None:
    raw = a_metadata(
        producer_name=name, sequence_id=sequence_id, num_messages_in_batch=count
    ).SerializeToString()
    assert messages_in(raw) == (0 if count > MANY else max(1, count))


@pytest.mark.parametrize("extra", range(10))
def test_overlong_tags_are_read(extra: int) -> None:
    """Readers of varints take them all, so a count must not hide behind one."""
    tag = b"\x58" if extra == 0 else b"\xd8" + b"\x80" * (extra - 1) + b"\x00"
    raw = a_metadata().SerializeToString() + tag + b"\x64"
    # protobuf takes no tag of more than five bytes; the gateway looks closer at what it does not take.
    assert messages_in(raw) == (100 if extra < 5 else 0)


@pytest.mark.parametrize("name", ["", "X", "n" * 126 + "X", "n" * 127 + "X"])
@pytest.mark.parametrize("sequence_id", [0, 0x58, 0xD8, 300, 2**64 - 1])
def test_tags_within_names_and_numbers_are_no_tags(
    name: str, sequence_id: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A name of over 127 bytes is left to protobuf."""
    one = a_metadata(producer_name=name, sequence_id=sequence_id, publish_time=0x58)
    batch = a_metadata(
        producer_name=name, sequence_id=sequence_id, publish_time=0x58, num_messages_in_batch=5
    )
    assert messages_in(batch.SerializeToString()) == 5
    if len(name) < 128:
        monkeypatch.setattr(entries, "_parse", None)
    assert messages_in(one.SerializeToString()) == 1


@pytest.mark.parametrize("raw", [b"\x58", b"\xd8", b"\x0a", b"\x0a\x58", b"\x0a\x00\x58"])
def test_metadata_that_ends_early_has_no_number_of_messages(raw: bytes) -> None:
    assert messages_in(raw) == (1 if raw == b"\x0a" else 0)


def test_a_chunk_takes_the_slow_path() -> None:
    assert messages_in(a_metadata(num_chunks_from_msg=2).SerializeToString()) == 0
    assert messages_in(a_metadata(num_chunks_from_msg=1).SerializeToString()) == 1


@pytest.mark.parametrize(("count", "believed"), [(-1, 1), (0, 1), (MANY, MANY), (MANY + 1, 0)])
def test_a_larger_count_takes_the_slow_path(count: int, believed: int) -> None:
    assert messages_in(a_metadata(num_messages_in_batch=count).SerializeToString()) == believed


@pytest.mark.parametrize(("form", "expected"), [("single", 1), ("batch", 3), ("compressed", 3)])
def test_frames_of_real_clients(form: str, expected: int) -> None:
    frame = next(frame for frame in FRAMES[form] if frame[9] == BaseCommand.SEND)
    parts = split(frame, 0, len(frame))
    assert messages_in(frame[parts.metadata : parts.payload]) == expected


@given(st.binary(max_size=40))
def test_any_bytes(raw: bytes) -> None:
    assert messages_in(raw) >= 0


class TestComposed:
    """Metadata that is read in full."""

    @staticmethod
    def read(frame: bytes) -> MetadataHead | None:
        return read_composed(frame, 0, len(frame), read_send(frame, 0, len(frame)))

    def test_metadata_equals_what_protobuf_reads(self) -> None:
        raw = a_metadata(num_messages_in_batch=7).SerializeToString()
        found = self.read(payload_frame(a_send(), raw, b"payload"))
        assert found is not None
        assert found.num_messages_in_batch == 7

    @pytest.mark.parametrize(
        ("claimed", "payload_size", "fields", "is_believed"),
        [
            (MANY, 1, {}, True),
            (MANY + 1, 1, {}, False),
            (MANY + 1, 6 * MANY + 6, {}, True),
            (MANY + 1, 6 * MANY + 5, {}, False),
            (20_000, 500, {"compression": 1, "uncompressed_size": 120_000}, True),
            (20_001, 500, {"compression": 1, "uncompressed_size": 120_000}, False),
            (2**31 - 1, 50, {"compression": 3, "uncompressed_size": 2**32 - 1}, False),
            (873_813, 200, {"compression": 3, "uncompressed_size": 2**32 - 1}, True),
            (MANY + 1, 200, {"uncompressed_size": 2**32 - 1}, False),
            (42_500, 1_000, {"compression": 1, "uncompressed_size": 2**32 - 1}, True),
            (42_501, 1_000, {"compression": 1, "uncompressed_size": 2**32 - 1}, False),
            (172_000, 1_000, {"compression": 2, "uncompressed_size": 2**32 - 1}, True),
            (172_001, 1_000, {"compression": 2, "uncompressed_size": 2**32 - 1}, False),
            (11_000, 3_000, {"compression": 4, "uncompressed_size": 2**32 - 1}, True),
            (11_001, 3_000, {"compression": 4, "uncompressed_size": 2**32 - 1}, False),
            (20_000, 120_000, {"encryption_keys": [{"key": "k", "value": b"v"}]}, True),
        ],
    )
    def test_a_count_is_believed_as_far_as_the_payload_can_hold_it(
        self, claimed: int, payload_size: int, fields: dict[str, Any], is_believed: bool
    ) -> None:
        raw = a_metadata(num_messages_in_batch=claimed, **fields).SerializeToString()
        sent = payload_frame(a_send(), raw, bytes(payload_size))
        received = payload_frame(_MESSAGE, raw, bytes(payload_size))
        if is_believed:
            assert self.read(sent) is not None
            assert read_message(received, 0, len(received)).messages == claimed
            return
        with pytest.raises(ProtocolError, match=f"a batch of {claimed} messages"):
            self.read(sent)
        with pytest.raises(ProtocolError, match=f"in a payload of {payload_size} bytes"):
            read_message(received, 0, len(received))

    def test_frames_with_a_wrong_checksum_are_left_to_the_broker(self) -> None:
        frame = bytearray(payload_frame(a_send(), a_metadata().SerializeToString(), b"payload"))
        parts = split(bytes(frame), 0, len(frame))
        frame[parts.metadata : parts.payload] = b"\xff" * (parts.payload - parts.metadata)
        assert self.read(bytes(frame)) is None

    def test_malformed_metadata_with_a_valid_checksum_is_an_error(self) -> None:
        with pytest.raises(ProtocolError, match="cannot be read"):
            self.read(payload_frame(a_send(), b"\xff\xff\xff", b"payload"))
