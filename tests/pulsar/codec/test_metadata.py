"""Metadata of entries, against protobuf and frames of a real client."""

import google_crc32c
import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from hypothesis import example, given, settings
from hypothesis import strategies as st
from tests.pulsar.codec.captured import FRAMES
from tests.pulsar.codec.strategies import (
    a_metadata,
    a_send,
    messages,
    scrambled,
    sized,
    unknown_fields,
    with_broker_entry,
    without_checksum,
)

from sluicegate_pulsar.codec import metadata
from sluicegate_pulsar.codec.errors import ChecksumMismatchError, ProtocolError
from sluicegate_pulsar.codec.frames import has_valid_checksum, split
from sluicegate_pulsar.codec.metadata import at_once, largest_message, read_metadata, with_deliver_at
from sluicegate_pulsar.codec.pulsar_pb2 import MessageMetadata, SingleMessageMetadata

_TIMES = st.sampled_from([0, 1, -1, 2**35 - 1, 2**35, 2**41, 2**42 - 1, 2**42, 2**63 - 1, -(2**63)]) | (
    st.integers(-(2**63), 2**63 - 1)
)


@settings(deadline=None)
@given(st.data())
def test_the_fields_that_the_gateway_reads(data: st.DataObject) -> None:
    raw = data.draw(scrambled(data.draw(messages(MessageMetadata))))
    expected = MessageMetadata.FromString(raw)
    head = read_metadata(b"##" + raw + b"##", 2, 2 + len(raw))
    assert head.publish_time == expected.publish_time
    assert head.deliver_at == (expected.deliver_at_time if expected.HasField("deliver_at_time") else None)
    assert head.is_batch == expected.HasField("num_messages_in_batch")
    assert head.num_messages_in_batch == max(expected.num_messages_in_batch, 1)
    assert head.compression == expected.compression
    assert head.is_encrypted == (len(expected.encryption_keys) > 0)
    assert head.is_chunk == (expected.num_chunks_from_msg > 1)
    assert head.chunk_id == (expected.chunk_id if expected.HasField("chunk_id") else None)
    assert head.total_chunk_size == expected.total_chunk_msg_size
    assert head.uuid == expected.uuid


def test_a_chunk_id_that_is_not_utf_8() -> None:
    raw = a_metadata().SerializeToString() + b"\xd2\x01\x02a\xff"
    assert read_metadata(raw, 0, len(raw)).uuid == "a\\xff"


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"", "metadata of 0 bytes without a publish time"),
        (b"\x0a\x01p\x10\x02", "metadata of 5 bytes without a publish time"),
        (a_metadata().SerializeToString() + b"\x2a\x05", "cannot be read"),
        (a_metadata().SerializeToString() + b"\x98", "cannot be read"),
        (b"\x18" + b"\xff" * 11, "cannot be read"),
    ],
)
def test_malformed_metadata(raw: bytes, reason: str) -> None:
    frame = payload_frame(a_send(), raw, b"payload")
    parts = split(frame, 0, len(frame))
    with pytest.raises(ProtocolError, match=reason):
        read_metadata(frame, parts.metadata, parts.payload)
    with pytest.raises(ProtocolError, match=reason):
        with_deliver_at(frame, 0, len(frame), parts, 7)


def _delayed(frame: bytes, deliver_at: int) -> bytes:
    buffer = b"##" + frame + b"##"
    stop = 2 + len(frame)
    return b"".join(with_deliver_at(buffer, 2, stop, split(buffer, 2, stop), deliver_at))


@settings(deadline=None)
@given(st.data(), _TIMES, st.binary(max_size=300))
def test_another_delivery_time(data: st.DataObject, deliver_at: int, payload: bytes) -> None:
    """Everything else is as it was, byte by byte; the checksum is that of the whole."""
    metadata = data.draw(messages(MessageMetadata))
    metadata.ClearField("deliver_at_time")
    raw = data.draw(scrambled(metadata))
    command = a_send(sequence_id=data.draw(st.integers(0, 2**64 - 1)))
    frame = payload_frame(command, raw, payload)
    rewritten = _delayed(frame, deliver_at)
    parts = split(rewritten, 0, len(rewritten))
    old = split(frame, 0, len(frame))
    assert rewritten[parts.command : parts.command_end] == frame[old.command : old.command_end]
    assert rewritten[parts.metadata : parts.payload].startswith(raw)
    assert rewritten[parts.payload :] == payload
    assert read_metadata(rewritten, parts.metadata, parts.payload).deliver_at == deliver_at
    assert has_valid_checksum(rewritten, parts)
    assert _delayed(rewritten, deliver_at) == rewritten
    assert _delayed(_delayed(rewritten, 1), deliver_at) == rewritten


@settings(deadline=None)
@given(st.data(), _TIMES, st.integers(0, 3))
def test_delivery_times_of_the_client_are_removed(data: st.DataObject, deliver_at: int, times: int) -> None:
    """As many as there are, wherever they stand, in tags of any length; what only looks like one stays."""
    others = [b"\x18\x05", b"\x5a\x04\x98\x01\x98\x01", *data.draw(st.lists(unknown_fields(), max_size=3))]
    own = [data.draw(st.sampled_from([b"\x98\x01\x07", b"\x98\x81\x00\x07"])) for _ in range(times)]
    order = data.draw(
        st.permutations([(piece, True) for piece in others] + [(piece, False) for piece in own])
    )
    frame = payload_frame(a_send(), b"".join(piece for piece, _ in order), b"x")
    rewritten = _delayed(frame, deliver_at)
    parts = split(rewritten, 0, len(rewritten))
    kept = b"".join(piece for piece, stays in order if stays)
    field = MessageMetadata(deliver_at_time=deliver_at).SerializePartialToString()
    assert rewritten[parts.metadata : parts.payload] == kept + field


def test_an_unterminated_field_does_not_swallow_the_time() -> None:
    """A last field that claims more than there is would hide the gateway's own field inside it."""
    for last in (b"\x7a\x09", b"\x7a\x02", b"\xa1\x06", b"\xa5\x06\0\0", b"\x80"):
        raw = a_metadata().SerializeToString() + last
        with pytest.raises(ProtocolError):
            _delayed(payload_frame(a_send(), raw, b"payload"), 1_800_000_000_000)


@pytest.mark.parametrize("kind", ["single", "delayed", "batch", "compressed", "chunked", "encrypted"])
def test_frames_of_a_real_client(kind: str) -> None:
    for frame in FRAMES[kind]:
        parts = split(frame, 0, len(frame))
        assert has_valid_checksum(frame, parts)
        before = MessageMetadata.FromString(frame[parts.metadata : parts.payload])
        rewritten = _delayed(frame, 1_900_000_000_000)
        new = split(rewritten, 0, len(rewritten))
        before.deliver_at_time = 1_900_000_000_000
        assert MessageMetadata.FromString(rewritten[new.metadata : new.payload]) == before
        assert rewritten[new.payload :] == frame[parts.payload :]
        assert google_crc32c.value(rewritten[new.checksum + 4 :]) == int.from_bytes(
            rewritten[new.checksum : new.checksum + 4]
        )


def test_the_metadata_of_real_frames() -> None:
    def head(kind: str, place: int = 0) -> tuple[object, ...]:
        frame = FRAMES[kind][place]
        parts = split(frame, 0, len(frame))
        read = read_metadata(frame, parts.metadata, parts.payload)
        largest = at_once(largest_message(frame, parts, read)).largest
        return read.is_batch, read.num_messages_in_batch, read.compression, read.is_encrypted, largest

    assert head("single") == (False, 1, 0, False, 3)
    assert head("batch") == (True, 3, 0, False, 30)
    assert head("compressed")[:4] == (True, 3, MessageMetadata.LZ4, False)
    assert head("encrypted")[:4] == (False, 1, 0, True)
    chunks = []
    for frame in FRAMES["chunked"]:
        parts = split(frame, 0, len(frame))
        chunks.append(read_metadata(frame, parts.metadata, parts.payload))
    assert [(chunk.is_chunk, chunk.chunk_id, chunk.is_last_chunk) for chunk in chunks] == [
        (True, 0, False),
        (True, 1, True),
    ]
    assert {chunk.total_chunk_size for chunk in chunks} == {700}
    assert chunks[0].uuid == chunks[1].uuid != ""


def test_a_rewrite_keeps_damage_detectable() -> None:
    """A new checksum over damaged bytes would make them look whole."""
    frame = bytearray(payload_frame(a_send(), a_metadata().SerializeToString(), b"payload"))
    frame[-1] ^= 1
    with pytest.raises(ChecksumMismatchError, match=r"a checksum of 0x[0-9a-f]{8} that does not hold"):
        _delayed(bytes(frame), 7)


def test_frames_without_a_checksum_and_with_broker_entry_metadata() -> None:
    whole = payload_frame(a_send(), a_metadata().SerializeToString(), b"payload")
    plain = _delayed(without_checksum(whole), 7)
    assert plain == without_checksum(_delayed(whole, 7))
    assert _delayed(with_broker_entry(whole, b"\x08\x05"), 7) == with_broker_entry(
        _delayed(whole, 7), b"\x08\x05"
    )


def _batch(sizes: list[int], **fields: object) -> bytes:
    payload = b"".join(
        sized(SingleMessageMetadata(payload_size=size, partition_key="k").SerializeToString()) + bytes(size)
        for size in sizes
    )
    metadata = a_metadata(num_messages_in_batch=len(sizes), **fields)
    return payload_frame(a_send(), metadata.SerializeToString(), payload)


def _largest(frame: bytes) -> int:
    parts = split(frame, 0, len(frame))
    return at_once(largest_message(frame, parts, read_metadata(frame, parts.metadata, parts.payload))).largest


@given(st.lists(st.integers(0, 300), min_size=1, max_size=20))
@example([0])
def test_the_largest_message_of_a_batch(sizes: list[int]) -> None:
    assert _largest(_batch(sizes)) == max(sizes)


@pytest.mark.parametrize("sizes", [[0], [0, 0], [7], [3, 9, 2]])
def test_the_largest_of_a_few_messages(sizes: list[int]) -> None:
    assert _largest(_batch(sizes)) == max(sizes)


def _walk(frame: bytes, limit: int) -> tuple[int, int]:
    """What a walk finds, and how often it lets others have their turn."""
    parts = split(frame, 0, len(frame))
    slices = largest_message(frame, parts, read_metadata(frame, parts.metadata, parts.payload), limit)
    turns = 0
    while True:
        try:
            next(slices)
        except StopIteration as ended:
            return ended.value.largest, turns
        turns += 1


@pytest.mark.parametrize(("count", "turns"), [(1_999, 0), (2_000, 1), (3_999, 1), (4_000, 2)])
def test_a_batch_of_many_messages_is_walked_in_slices(count: int, turns: int) -> None:
    assert _walk(_batch([1] * count), 0) == (1, turns)


def test_the_walk_ends_at_the_first_message_over_the_limit() -> None:
    assert _walk(_batch([5, 11, 30] + [1] * 2_000), 10) == (11, 0)
    assert _walk(_batch([5, 10, 30]), 10)[0] == 30


def test_the_walk_ends_where_no_message_over_the_limit_has_room() -> None:
    metadata = a_metadata(num_messages_in_batch=2).SerializeToString()
    frame = payload_frame(a_send(), metadata, b"\0\0\0\x02\x18\x03abc" + b"garbage")
    assert _walk(frame, 7) == (3, 0)
    with pytest.raises(ProtocolError):
        _walk(frame, 6)


@pytest.mark.parametrize(("size", "pieces"), [(16 * 1024, 1), (16 * 1024 + 1, 2)])
def test_a_large_payload_is_not_copied(size: int, pieces: int) -> None:
    frame = payload_frame(a_send(), a_metadata().SerializeToString(), bytes(size))
    found = with_deliver_at(frame, 0, len(frame), split(frame, 0, len(frame)), 7)
    assert len(found) == pieces
    assert b"".join(found) == _delayed(frame, 7)
    rewritten = b"".join(found)
    assert has_valid_checksum(rewritten, split(rewritten, 0, len(rewritten)))
    damaged = frame[:-1] + b"\1"
    with pytest.raises(ChecksumMismatchError):
        _delayed(damaged, 7)


def test_the_number_of_fields_of_metadata_is_bounded() -> None:
    least = a_metadata(deliver_at_time=5).SerializeToString()  # with four fields
    for more, fits in ((4_996, True), (4_997, False)):
        frame = payload_frame(a_send(), least + b"\xc2\x3e\x00" * more, b"x")
        if fits:
            assert read_metadata(_delayed(frame, 7), *_metadata_of(_delayed(frame, 7))).deliver_at == 7
        else:
            with pytest.raises(ProtocolError, match="metadata with over 5000 fields"):
                _delayed(frame, 7)


def test_metadata_without_a_time_is_not_walked() -> None:
    raw = a_metadata().SerializeToString() + b"\xc2\x3e\x00" * 5_001
    expected = raw + MessageMetadata(deliver_at_time=7).SerializePartialToString()
    assert _delayed(payload_frame(a_send(), raw, b"x"), 7) == payload_frame(a_send(), expected, b"x")


def _metadata_of(frame: bytes) -> tuple[int, int]:
    parts = split(frame, 0, len(frame))
    return parts.metadata, parts.payload


@pytest.mark.parametrize("deliver_at", [0, 1, -1, 2**35 - 1, 2**35, 2**42 - 1, 2**42, 2**63 - 1, -(2**63)])
def test_delivery_times_of_any_length(deliver_at: int) -> None:
    frame = payload_frame(a_send(), a_metadata().SerializeToString(), b"payload")
    rewritten = _delayed(frame, deliver_at)
    expected = a_metadata(deliver_at_time=deliver_at).SerializeToString()
    start, stop = _metadata_of(rewritten)
    assert rewritten[start:stop] == expected
    assert rewritten == payload_frame(a_send(), expected, b"payload")


@pytest.mark.parametrize("deliver_at", [2**35, 2**42 - 1])
def test_a_time_of_our_days_takes_the_fast_path(deliver_at: int, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(metadata, "write_uvarint", None)
    frame = payload_frame(a_send(), a_metadata().SerializeToString(), b"payload")
    expected = a_metadata(deliver_at_time=deliver_at).SerializeToString()
    assert _delayed(frame, deliver_at) == payload_frame(a_send(), expected, b"payload")


def test_a_time_that_is_known_is_not_read_again() -> None:
    frame = payload_frame(a_send(), a_metadata(deliver_at_time=5).SerializeToString(), b"payload")
    parts = split(frame, 0, len(frame))
    head = read_metadata(frame, parts.metadata, parts.payload)
    expected = payload_frame(a_send(), a_metadata(deliver_at_time=7).SerializeToString(), b"payload")
    assert b"".join(with_deliver_at(frame, 0, len(frame), parts, 7, head)) == _delayed(frame, 7) == expected


def test_chunks_are_told_apart_from_whole_messages() -> None:
    def told(**fields: object) -> tuple[object, ...]:
        raw = a_metadata(**fields).SerializeToString()
        head = read_metadata(raw, 0, len(raw))
        return head.is_chunk, head.chunk_id, head.chunks, head.is_last_chunk, head.num_messages_in_batch

    assert told() == (False, None, 0, True, 1)
    assert told(num_chunks_from_msg=1, chunk_id=0) == (False, 0, 1, True, 1)
    assert told(num_chunks_from_msg=3, chunk_id=1) == (True, 1, 3, False, 1)
    assert told(num_chunks_from_msg=3, chunk_id=2) == (True, 2, 3, True, 1)
    assert told(num_messages_in_batch=-5) == (False, None, 0, True, 1)


def test_an_unreadable_batch_counts_as_one_message() -> None:
    keys = [{"key": "k", "value": b"v"}]
    plain = payload_frame(a_send(), a_metadata().SerializeToString(), bytes(77))
    assert _largest(plain) == 77
    for fields in ({"compression": MessageMetadata.ZSTD}, {"encryption_keys": keys}):
        frame = _batch([5, 6], **fields)
        parts = split(frame, 0, len(frame))
        assert _largest(frame) == parts.stop - parts.payload > 11


@pytest.mark.parametrize(
    ("payload", "count", "reason"),
    [
        (b"", 1, "ends 0 bytes into the size"),
        (b"\0\0", 1, "ends 2 bytes into the size"),
        (b"\0\0\0\x09", 1, "a message's metadata of 9 bytes where 0 remain"),
        (b"\0\0\0\x09\x18\x01", 1, "a message's metadata of 9 bytes where 2 remain"),
        (b"\xff\xff\xff\xff\x18\x01", 1, "a message's metadata of 4294967295 bytes where 2 remain"),
        (b"\0\0\0\x02\x18\x05abc", 1, "a message of 5 bytes where 3 remain"),
        (b"\0\0\0\x0b\x18" + b"\xff" * 9 + b"\x01abc", 1, "a message of -1 bytes"),
        (b"\0\0\0\x02\x18\x80", 1, "a message's metadata that cannot be read"),
        (b"\0\0\0\x02\x18\x03abc", 2, "ends 0 bytes into the size"),
        (b"\0\0\0\x02\x18\x03abc", 2**31 - 1, "ends 0 bytes into the size"),
    ],
)
def test_batches_with_false_sizes(payload: bytes, count: int, reason: str) -> None:
    metadata = a_metadata(num_messages_in_batch=count).SerializeToString()
    with pytest.raises(ProtocolError, match=reason):
        _largest(payload_frame(a_send(), metadata, payload))


def test_a_message_cannot_hide_behind_a_false_batch_count() -> None:
    metadata = a_metadata(num_messages_in_batch=1).SerializeToString()
    assert _largest(payload_frame(a_send(), metadata, b"\0\0\0\x02\x18\x03abc" + bytes(50))) == 50
