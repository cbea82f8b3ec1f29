"""Varints, strings and tagged fields."""

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st
from kio.serial.writers import (
    write_nullable_compact_string,
    write_nullable_legacy_string,
    write_unsigned_varint,
)
from kio.static.primitive import uvarint

from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.primitives import (
    MAX_TAGS,
    Cursor,
    guarded,
    read_uvarint,
    skip_tags,
    with_length,
    write_array_length,
    write_nullable_string,
    write_uvarint,
)


@given(st.integers(0, 2**31 - 1), st.binary(max_size=3))
def test_varints_are_those_of_kafka(value: int, before: bytes) -> None:
    out = io.BytesIO()
    write_unsigned_varint(out, uvarint(value))
    assert write_uvarint(value) == out.getvalue()
    assert read_uvarint(before + out.getvalue(), len(before)) == (value, len(before) + len(out.getvalue()))


@pytest.mark.parametrize("length", range(1, 5))
def test_a_varint_has_a_byte_for_each_seven_bits(length: int) -> None:
    above = 1 << 7 * length
    assert [len(write_uvarint(value)) for value in (above - 1, above)] == [length, length + 1]
    assert [read_uvarint(write_uvarint(value), 0)[0] for value in (above - 1, above)] == [above - 1, above]


@pytest.mark.parametrize(
    ("raw", "reason"),
    [
        (b"\xff\xff\xff\xff\x08", "^a varint of 2415919103, more than 31 bits$"),
        (b"\x80\x80\x80\x80\x08", "^a varint of 2147483648, more than 31 bits$"),
        (b"\x80\x80\x80\x80\x80\x01", "^a varint of more than 5 bytes$"),
        (b"\xff" * 9, "^a varint of more than 5 bytes$"),
    ],
)
def test_varints_that_overflow_in_java_are_refused(raw: bytes, reason: str) -> None:
    with pytest.raises(ProtocolError, match=reason):
        read_uvarint(raw, 0)


def test_the_largest_varint_has_31_bits() -> None:
    assert read_uvarint(b"\xff\xff\xff\xff\x07", 0) == (2**31 - 1, 5)


def test_padded_varints_are_read_as_java_reads_them() -> None:
    assert read_uvarint(b"\x85\x00", 0) == (5, 2)


@given(st.none() | st.text(max_size=300))
def test_strings_are_those_of_kafka(text: str | None) -> None:
    for flexible, write in ((True, write_nullable_compact_string), (False, write_nullable_legacy_string)):
        out = io.BytesIO()
        write(out, text)
        assert write_nullable_string(text, flexible) == out.getvalue()
        cursor = Cursor(out.getvalue(), 0, flexible)
        assert cursor.nullable_string() == text
        assert cursor.at == len(out.getvalue())


@given(st.dictionaries(st.integers(0, 200), st.binary(max_size=150), max_size=4))
def test_tagged_fields_are_skipped(tags: dict[int, bytes]) -> None:
    raw = write_uvarint(len(tags))
    for tag, value in tags.items():
        raw += write_uvarint(tag) + write_uvarint(len(value)) + value
    assert skip_tags(b"x" + raw + b"rest", 1) == 1 + len(raw)


def test_a_tagged_field_may_end_its_buffer() -> None:
    assert skip_tags(b"\x01\x05\x03abc", 0) == 6


def test_a_tagged_field_never_reaches_past_the_end() -> None:
    with pytest.raises(ProtocolError, match="a tagged field of 9 bytes reaches past the end"):
        skip_tags(b"\x01\x05\x09abc", 0)


def test_the_number_of_tagged_fields_is_bounded() -> None:
    assert skip_tags(write_uvarint(MAX_TAGS) + b"\x01\x00" * MAX_TAGS, 0) == 1 + 2 * MAX_TAGS
    with pytest.raises(ProtocolError, match=f"{MAX_TAGS + 1} tagged fields"):
        skip_tags(write_uvarint(MAX_TAGS + 1) + b"\x01\x00" * (MAX_TAGS + 1), 0)


@pytest.mark.parametrize("flexible", [True, False])
def test_array_lengths_are_bounded_by_the_bytes_that_remain(flexible: bool) -> None:
    raw = write_array_length(2_000_000_000, flexible) + b"abc"
    with pytest.raises(ProtocolError, match="an array of 2000000000 elements where 3 bytes remain"):
        Cursor(raw, 0, flexible).array_length()
    assert Cursor(write_array_length(3, flexible) + b"abc", 0, flexible).array_length() == 3


@pytest.mark.parametrize(("flexible", "null"), [(True, b"\0"), (False, b"\xff\xff\xff\xff")])
def test_null_is_refused_where_a_value_is_required(flexible: bool, null: bytes) -> None:
    with pytest.raises(ProtocolError, match=r"^null where an array is required$"):
        Cursor(null, 0, flexible).array_length()
    assert Cursor(null, 0, flexible).nullable_array_length() == -1
    assert Cursor(null, 0, flexible).byte_string() is None
    with pytest.raises(ProtocolError, match=r"^null where a string is required$"):
        Cursor(null, 0, flexible).string()


@pytest.mark.parametrize("count", [-1, -2, -(2**31)])
def test_each_negative_array_length_is_null(count: int) -> None:
    raw = count.to_bytes(4, "big", signed=True)
    assert Cursor(raw, 0, flexible=False).nullable_array_length() == -1


def test_array_lengths_count_from_where_the_array_begins() -> None:
    with pytest.raises(ProtocolError, match="an array of 4 elements where 3 bytes remain"):
        Cursor(b"before\x05abc", 6, flexible=True).array_length()


def test_an_empty_array_may_end_its_buffer() -> None:
    assert Cursor(b"\x01", 0, flexible=True).array_length() == 0
    assert Cursor(bytes(4), 0, flexible=False).array_length() == 0


def test_numbers_are_signed_and_read_one_behind_the_other() -> None:
    raw = b"\xff\xfe" + b"\xff\xff\xff\xfd"
    cursor = Cursor(b"x" + raw, 1, flexible=False)
    assert (cursor.i16(), cursor.i32()) == (-2, -3)
    assert cursor.at == len(raw) + 1


def test_several_numbers_are_read_at_once() -> None:
    cursor = Cursor(b"x\0\0\0\1\xff\xff\xff\xffy", 1, flexible=False)
    assert (cursor.i32s(2), cursor.i32s(0), cursor.at) == ((1, -1), (), 9)
    with pytest.raises(ProtocolError, match="4 bytes announced where 1 remain"):
        cursor.i32s(1)


@pytest.mark.parametrize(("flexible", "raw"), [(True, b"\x03ab"), (False, b"\0\0\0\2ab")])
def test_bytes_are_copied_out_of_their_buffer(flexible: bool, raw: bytes) -> None:
    cursor = Cursor(raw, 0, flexible)
    assert (cursor.byte_string(), cursor.at) == (b"ab", len(raw))
    empty = Cursor(b"\x01" if flexible else bytes(4), 0, flexible)
    assert empty.byte_string() == b""


def test_null_has_a_form_in_each_kind_of_version() -> None:
    assert [write_nullable_string(None, flexible) for flexible in (True, False)] == [b"\0", b"\xff\xff"]


def test_only_flexible_versions_have_tagged_fields() -> None:
    for flexible, after in ((True, 1), (False, 0)):
        cursor = Cursor(b"\0", 0, flexible)
        cursor.tags()
        assert cursor.at == after


def test_sizes_are_bounded_by_the_bytes_that_remain() -> None:
    with pytest.raises(ProtocolError, match="5 bytes announced where 3 remain"):
        Cursor(b"\x00\x05abc", 0, flexible=False).string()
    with pytest.raises(ProtocolError, match="-1 bytes announced"):
        Cursor(b"abc", 0, flexible=False).skip(-1)


def test_a_guarded_reader_raises_only_protocol_errors() -> None:
    @guarded
    def read(raw: bytes) -> tuple[str, int]:
        cursor = Cursor(raw, 0, flexible=True)
        return cursor.string(), cursor.i32()

    assert read(b"\x03ab\0\0\0\x05") == ("ab", 5)
    for raw in (b"", b"\x03ab\0\0", b"\x03\xff\xfe\0\0\0\0"):
        with pytest.raises(ProtocolError, match="truncated or garbled"):
            read(raw)


def test_frames_are_prefixed_with_their_length() -> None:
    assert with_length([b"ab", memoryview(b"cde")]) == b"\0\0\0\x05abcde"
