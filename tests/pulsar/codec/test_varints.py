"""Varints and fields, against what protobuf reads."""

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.pulsar.codec.strategies import messages, scrambled, unknown_fields

from sluicegate_pulsar.codec.errors import ProtocolError
from sluicegate_pulsar.codec.pulsar_pb2 import MessageMetadata
from sluicegate_pulsar.codec.varints import BYTES, VARINT, fields, read_uvarint, write_uvarint


@given(st.integers(0, 2**64 - 1), st.binary(max_size=3))
def test_varints(value: int, after: bytes) -> None:
    raw = write_uvarint(value)
    assert read_uvarint(b"." + raw + after, 1) == (value, 1 + len(raw))


@given(st.binary(min_size=10, max_size=10))
def test_any_ten_bytes_are_read_as_protobuf_reads_them(raw: bytes) -> None:
    raw = bytes(byte | 0x80 for byte in raw[:9]) + bytes((raw[9] & 0x7F,))
    message = MessageMetadata.FromString(b"\x18" + raw)
    assert read_uvarint(raw, 0) == (message.publish_time, 10)


@pytest.mark.parametrize("length", range(1, 10))
def test_a_varint_has_a_byte_for_each_seven_bits(length: int) -> None:
    above = 1 << 7 * length
    for value, size in ((above - 1, length), (above, length + 1)):
        raw = write_uvarint(value)
        assert len(raw) == size
        assert read_uvarint(raw, 0) == (value, size)


def test_unterminated_varints() -> None:
    assert read_uvarint(b"\xff" * 9 + b"\x7f", 0) == (2**64 - 1, 10)
    with pytest.raises(ProtocolError, match=r"^a varint of more than 10 bytes$"):
        read_uvarint(b"\xff" * 20, 0)
    with pytest.raises(IndexError):
        read_uvarint(b"\xff" * 3, 0)


@given(st.data())
def test_fields_are_contiguous(data: st.DataObject) -> None:
    raw = data.draw(scrambled(data.draw(messages(MessageMetadata))))
    found = list(fields(b"##" + raw + b"##", 2, 2 + len(raw)))
    assert [field.start for field in found] == [2, *(field.stop for field in found)][:-1]
    assert not found or found[-1].stop == 2 + len(raw)
    last = {field.number: field for field in found}
    message = MessageMetadata.FromString(raw)
    if message.HasField("publish_time"):
        assert last[3].value == message.publish_time
    if message.HasField("ordering_key"):
        field = last[18]
        assert (b"##" + raw)[field.value : field.stop] == message.ordering_key


@given(unknown_fields())
def test_a_truncated_field(raw: bytes) -> None:
    (field,) = fields(raw, 0, len(raw))
    assert field.number >= 1000
    assert field.wire_type in (VARINT, BYTES, 1, 5)
    for size in range(1, len(raw)):
        with pytest.raises(ProtocolError):
            list(fields(raw[:size], 0, size))
        with pytest.raises(ProtocolError):  # what stands after the end must not complete it
            list(fields(raw, 0, size))


@pytest.mark.parametrize("tag", [0, 2, 2**32, 2**32 + 8])
def test_field_numbers_that_protobuf_refuses(tag: int) -> None:
    with pytest.raises(ProtocolError, match=f"field number {tag >> 3}, expected 1 to 536870911"):
        list(fields(write_uvarint(tag) + b"\0\0", 0, len(write_uvarint(tag)) + 1))


@pytest.mark.parametrize("wire_type", [3, 4, 6, 7])
def test_groups_and_invalid_wire_types(wire_type: int) -> None:
    with pytest.raises(ProtocolError, match=f"wire type {wire_type} in field 1"):
        list(fields(bytes((1 << 3 | wire_type, 0)), 0, 2))


def test_fields_of_each_wire_type_are_found() -> None:
    number = 16  # the first whose tag takes two bytes
    long = b"v" * 128
    raw = b"\x08\x07" + b"\x11" + bytes(8) + b"\x1a\x02ab" + b"\x25" + bytes(4)
    raw += b"\x82\x01\x80\x01" + long
    assert list(fields(b"#" + raw + b"#", 1, 1 + len(raw))) == [
        (1, 0, 1, 7, 3),
        (2, 1, 3, 0, 12),
        (3, 2, 12, 14, 16),
        (4, 5, 16, 0, 21),
        (number, 2, 21, 25, 25 + 128),
    ]
    assert list(fields(raw, 0, 0)) == []


@pytest.mark.parametrize("number", [1, 15, 16, 2**29 - 1])
def test_field_numbers_of_29_bits_are_read(number: int) -> None:
    raw = write_uvarint(number << 3) + b"\x05"
    assert [(field.number, field.value) for field in fields(raw, 0, len(raw))] == [(number, 5)]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\x80", "a field that starts at byte 0 of 1 has no end"),
        (b"\x08\x01\x10", "a field that starts at byte 2 of 3 has no end"),
        (b"\x1a", "a field that starts at byte 0 of 1 has no end"),
        (b"\x1a\x03ab", "field 3 ends at byte 5 of 4"),
        (b"\x11" + bytes(7), "field 2 ends at byte 9 of 8"),
        (b"\x25" + bytes(3), "field 4 ends at byte 5 of 4"),
    ],
)
def test_a_field_stays_within_its_message(raw: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        list(fields(b"##" + raw, 2, 2 + len(raw)))
