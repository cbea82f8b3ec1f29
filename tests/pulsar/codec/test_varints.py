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


def test_unterminated_varints() -> None:
    with pytest.raises(ProtocolError, match="a varint of more than 10 bytes"):
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
