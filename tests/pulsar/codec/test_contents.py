"""Messages read and changed, against protobuf and other libraries for compression."""

import zlib
from base64 import b64encode
from collections.abc import Sequence

import lz4.block
import pyarrow
import pytest
from benchmarks.harness.pulsar_bytes import payload_frame
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.pulsar.codec.strategies import (
    a_metadata,
    a_send,
    messages,
    scrambled,
    sized,
    unknown_fields,
    without_checksum,
)

from sluicegate_pulsar.codec.contents import (
    CONTENTS_PER_SLICE,
    Content,
    PropertyChange,
    changed_batch,
    read_batch,
    read_message,
    with_batch,
    with_change,
)
from sluicegate_pulsar.codec.errors import ChecksumMismatchError, ProtocolError
from sluicegate_pulsar.codec.frames import has_valid_checksum, split
from sluicegate_pulsar.codec.metadata import MetadataHead, at_once, read_metadata
from sluicegate_pulsar.codec.payloads import packed, unpacked
from sluicegate_pulsar.codec.pulsar_pb2 import KeyValue, MessageMetadata, SingleMessageMetadata

ALL = frozenset({"headers", "key", "schema", "value"})
CODECS = [MessageMetadata.LZ4, MessageMetadata.ZLIB, MessageMetadata.ZSTD, MessageMetadata.SNAPPY]
TEXTS = st.text(st.characters(codec="utf-8"), max_size=20)
KEYS = st.sampled_from(["a", "b", "c", "é"])
PROPERTIES = st.lists(st.tuples(KEYS, TEXTS), max_size=4)
BATCHES = st.lists(st.tuples(PROPERTIES, st.none() | TEXTS, st.binary(max_size=50)), min_size=1, max_size=9)
CHANGES = st.builds(PropertyChange, st.dictionaries(KEYS, TEXTS.map(str.encode)), st.frozensets(KEYS))
Batch = Sequence[tuple[list[tuple[str, str]], str | None, bytes]]


def key_values(properties: list[tuple[str, str]]) -> list[KeyValue]:
    return [KeyValue(key=key, value=value) for key, value in properties]


def batch_of(batch: Batch) -> bytes:
    pieces = []
    for properties, key, value in batch:
        single = SingleMessageMetadata(
            properties=key_values(properties), partition_key=key, payload_size=len(value)
        )
        pieces.append(sized(single.SerializeToString()) + value)
    return b"".join(pieces)


def head_of(**fields: object) -> MetadataHead:
    return MetadataHead(a_metadata(**fields))


def read(payload: bytes, parts: frozenset[str] = ALL, **fields: object) -> list[Content]:
    head = head_of(**fields)
    return at_once(read_batch(head, payload, parts))


def changed(properties: list[tuple[str, str]], change: PropertyChange) -> list[tuple[str, bytes]]:
    """What a change comes to, in the simplest way."""
    kept = [(key, value.encode()) for key, value in properties if key not in {*change.remove, *change.set}]
    return [*kept, *change.set.items()]


# -- reading --------------------------------------------------------------------------------------------


@given(BATCHES)
def test_each_message_of_a_batch_is_read_as_it_was_written(batch: Batch) -> None:
    found = read(batch_of(batch), num_messages_in_batch=len(batch), schema_version=bytes(7) + b"\x05")

    for (properties, key, value), content in zip(batch, found, strict=True):
        expected = tuple((name, text.encode()) for name, text in properties)
        assert content == (expected, None if key is None else key.encode(), "5", value)


@settings(deadline=None)
@given(st.data(), PROPERTIES, TEXTS, st.binary(max_size=50))
def test_a_message_is_read_as_it_was_written(
    data: st.DataObject, properties: list[tuple[str, str]], key: str, value: bytes
) -> None:
    metadata = a_metadata(properties=key_values(properties), partition_key=key)
    raw = data.draw(scrambled(metadata, often=False))
    found = read_message(read_metadata(raw, 0, len(raw)).parsed, value, ALL)

    assert sorted(found[0]) == sorted((name, text.encode()) for name, text in properties)
    assert found[1:] == (key.encode(), "", value)


@pytest.mark.parametrize("part", sorted(ALL))
def test_only_what_is_asked_for_is_kept(part: str) -> None:
    batch: Batch = [([("a", "1")], "k", b"v")]
    (content,) = read(
        batch_of(batch), frozenset({part}), num_messages_in_batch=1, schema_version=bytes(7) + b"\x05"
    )
    whole: Content = ((("a", b"1"),), b"k", "5", b"v")
    nothing: Content = ((), None, "", b"")
    order = ["headers", "key", "schema", "value"]
    assert content == tuple(
        whole[index] if each == part else nothing[index] for index, each in enumerate(order)
    )


@pytest.mark.parametrize(
    ("version", "shown"),
    [(b"", ""), (bytes(8), "0"), (b"\1" + bytes(7), str(2**56)), (b"\xca\xfe", "cafe")],
)
def test_a_schema_version_is_a_number_or_written_in_hexadecimal_digits(version: bytes, shown: str) -> None:
    metadata = a_metadata(schema_version=version) if version else a_metadata()
    assert read_message(metadata, b"", ALL)[2] == shown


@pytest.mark.parametrize(
    ("fields", "key"),
    [
        ({}, None),
        ({"partition_key": ""}, b""),
        ({"partition_key": "", "null_partition_key": True}, None),
        ({"partition_key": b64encode(b"\xff\0").decode(), "partition_key_b64_encoded": True}, b"\xff\0"),
    ],
)
def test_a_key_is_decoded(fields: dict[str, object], key: bytes | None) -> None:
    assert read_message(a_metadata(**fields), b"", ALL)[1] == key


def test_a_key_that_is_not_encoded_as_it_says_is_refused() -> None:
    with pytest.raises(ProtocolError, match="base 64"):
        read_message(a_metadata(partition_key="%", partition_key_b64_encoded=True), b"", ALL)


def test_texts_that_are_not_utf_8_are_read_and_can_be_removed() -> None:
    raw = a_metadata().SerializeToString() + b"\x22\x08\x0a\x02k\xff\x12\x02v\xff"
    head = read_metadata(raw, 0, len(raw))
    assert read_message(head.parsed, b"", ALL)[0] == (("k\udcff", b"v\xff"),)

    for remove, left in (("k", (("k\udcff", b"v\xff"), ("n", b"1"))), ("k\udcff", (("n", b"1"),))):
        frame = payload_frame(a_send(), raw, b"")
        change = PropertyChange({"n": b"1"}, {remove})
        found = with_change(frame, 0, len(frame), split(frame, 0, len(frame)), head, change)
        parts = split(found, 0, len(found))
        again = read_metadata(found, parts.metadata, parts.payload)
        assert read_message(again.parsed, b"", ALL)[0] == left


@pytest.mark.parametrize(
    ("payload", "problem"),
    [
        (batch_of([([], None, b"v")]), "ends 0 bytes into the size"),
        (batch_of([([], None, b"v")] * 2) + b"x", "1 bytes left over"),
        (batch_of([([], None, b"v")] * 3), "bytes left over"),
        (batch_of([([], None, b"v")] * 2)[:-1], "a message of 1 bytes where 0 remain"),
        (sized(b"\xff") * 2, "cannot be read"),
    ],
)
def test_messages_that_do_not_fill_their_batch_are_refused(payload: bytes, problem: str) -> None:
    with pytest.raises(ProtocolError, match=problem):
        read(payload, num_messages_in_batch=2)


@given(BATCHES, st.data())
def test_damaged_batches_are_refused_or_read(batch: Batch, data: st.DataObject) -> None:
    payload = bytearray(batch_of(batch))
    payload[data.draw(st.integers(0, len(payload) - 1))] = data.draw(st.integers(0, 255))
    try:
        found = read(bytes(payload), num_messages_in_batch=len(batch))
    except ProtocolError:
        return
    assert len(found) == len(batch)


def test_many_messages_are_read_and_changed_in_slices() -> None:
    count = 3 * CONTENTS_PER_SLICE
    payload, head = batch_of([([], None, b"")] * count), head_of(num_messages_in_batch=count)

    assert sum(1 for _ in read_batch(head, payload, ALL)) == 3
    assert sum(1 for _ in changed_batch(head, payload, PropertyChange({"a": b"1"}, ()))) == 3


# -- changing -------------------------------------------------------------------------------------------


@given(BATCHES, CHANGES)
def test_each_message_of_a_batch_is_changed(batch: Batch, change: PropertyChange) -> None:
    head = head_of(num_messages_in_batch=len(batch))
    payload = at_once(changed_batch(head, batch_of(batch), change))

    found = at_once(read_batch(head, payload, ALL))
    for (properties, key, value), content in zip(batch, found, strict=True):
        assert content[0] == tuple(changed(properties, change))
        assert content[1:] == (None if key is None else key.encode(), "", value)


@given(BATCHES)
def test_what_a_change_does_not_concern_stays_byte_by_byte(batch: Batch) -> None:
    payload = batch_of(batch)
    head = head_of(num_messages_in_batch=len(batch))

    assert at_once(changed_batch(head, payload, PropertyChange({}, {"another"}))) == payload


@settings(deadline=None)
@given(st.data(), PROPERTIES, CHANGES, st.booleans())
def test_all_else_of_a_message_stays(
    data: st.DataObject, properties: list[tuple[str, str]], change: PropertyChange, is_checked: bool
) -> None:
    metadata = data.draw(messages(MessageMetadata))
    del metadata.properties[:]
    metadata.properties.extend(key_values(properties))
    raw = metadata.SerializeToString() + data.draw(unknown_fields())
    frame = payload_frame(a_send(sequence_id=7, num_messages=3), raw, b"payload")
    if not is_checked:
        frame = without_checksum(frame)
    buffer, stop = b"##" + frame + b"##", 2 + len(frame)
    old, head = split(buffer, 2, stop), MetadataHead(MessageMetadata.FromString(raw))
    found = with_change(buffer, 2, stop, old, head, change)
    parts = split(found, 0, len(found))

    assert found[parts.command : parts.command_end] == buffer[old.command : old.command_end]
    assert found[parts.payload :] == b"payload"
    assert has_valid_checksum(found, parts)
    expected = MessageMetadata.FromString(raw)
    del expected.properties[:]
    expected.properties.extend(
        key_values([(key, value.decode()) for key, value in changed(properties, change)])
    )
    assert MessageMetadata.FromString(found[parts.metadata : parts.payload]) == expected
    assert head.parsed == MessageMetadata.FromString(raw)


@pytest.mark.parametrize("compression", [MessageMetadata.NONE, *CODECS])
def test_a_batch_with_another_payload_says_its_size(compression: int) -> None:
    batch: Batch = [([("a", "1"), ("b", "2")], "k", b"v" * 100)] * 3
    content = batch_of(batch)
    metadata = a_metadata(
        num_messages_in_batch=3, uncompressed_size=len(content), compression=compression, sequence_id=9
    )
    frame = payload_frame(a_send(), metadata.SerializeToString(), packed(compression, content))
    parts, head = split(frame, 0, len(frame)), MetadataHead(metadata)
    new = at_once(changed_batch(head, content, PropertyChange({}, {"a"})))
    found = with_batch(frame, 0, parts, head, len(new), packed(compression, new))

    parts = split(found, 0, len(found))
    assert has_valid_checksum(found, parts)
    again = read_metadata(found, parts.metadata, parts.payload)
    assert (again.num_messages_in_batch, again.parsed.sequence_id) == (3, 9)
    payload = unpacked(compression, found[parts.payload :], again.parsed.uncompressed_size)
    assert [each[0] for each in at_once(read_batch(again, payload, ALL))] == [(("b", b"2"),)] * 3


def test_damage_stays_detectable() -> None:
    frame = bytearray(payload_frame(a_send(), a_metadata().SerializeToString(), b"payload"))
    frame[-1] ^= 1
    data, change = bytes(frame), PropertyChange({"a": b"1"}, ())
    parts = split(data, 0, len(data))
    with pytest.raises(ChecksumMismatchError):
        with_change(data, 0, len(data), parts, MetadataHead(a_metadata()), change)


def test_a_value_that_is_no_text_is_written_in_escapes() -> None:
    payload = batch_of([([], None, b"")])
    head = head_of(num_messages_in_batch=1)
    new = at_once(changed_batch(head, payload, PropertyChange({"a": b"\xff"}, ())))
    ((properties, *_),) = at_once(read_batch(head, new, ALL))
    assert properties == (("a", b"\\xff"),)


# -- compression ----------------------------------------------------------------------------------------


def by_others(compression: int, content: bytes) -> bytes:
    """A payload packed by another library than the product's, where there is one here."""
    if compression == MessageMetadata.LZ4:
        return bytes(lz4.block.compress(content, store_size=False))
    if compression == MessageMetadata.ZLIB:
        return zlib.compress(content, 1)
    codec = "zstd" if compression == MessageMetadata.ZSTD else "snappy"
    found: bytes = pyarrow.Codec(codec).compress(content, asbytes=True)
    return found


@pytest.mark.parametrize("compression", CODECS)
@given(st.binary(max_size=500).map(lambda each: each * 3))
def test_payloads_are_unpacked_and_packed(compression: int, content: bytes) -> None:
    assert unpacked(compression, by_others(compression, content), len(content)) == content
    assert unpacked(compression, packed(compression, content), len(content)) == content


def test_a_packed_payload_is_one_to_another_library() -> None:
    content = b"content " * 1_000
    assert lz4.block.decompress(packed(MessageMetadata.LZ4, content), len(content)) == content
    assert zlib.decompress(packed(MessageMetadata.ZLIB, content)) == content


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("wrong", [-1, 1, 1_000])
def test_a_payload_of_another_size_than_it_says_is_refused(compression: int, wrong: int) -> None:
    """Of a shorter one pyarrow gives what lies in memory behind it, too."""
    content = b"content " * 100
    with pytest.raises(ProtocolError, match=f"not of {len(content) + wrong} bytes"):
        unpacked(compression, packed(compression, content), len(content) + wrong)


@pytest.mark.parametrize("compression", CODECS)
@pytest.mark.parametrize("size", [0, 1, 100])
def test_what_is_no_compressed_payload_is_refused(compression: int, size: int) -> None:
    with pytest.raises(ProtocolError, match=r"a compressed payload|a varint"):
        unpacked(compression, b"\xff" * 20, size)


def test_an_unknown_compression_is_refused() -> None:
    with pytest.raises(ProtocolError, match="compression 9, which is unknown"):
        unpacked(9, b"", 0)
