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


@pytest.mark.parametrize(
    "raw", [b"\xff\xff\xff\xff\x08", b"\xff\xff\xff\xff\x10", b"\x80\x80\x80\x80\x80\x01", b"\xff" * 9]
)
def test_varints_that_overflow_in_java_are_refused(raw: bytes) -> None:
    with pytest.raises(ProtocolError, match="varint"):
        read_uvarint(raw, 0)


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


def test_a_tagged_field_never_reaches_past_the_end() -> None:
    with pytest.raises(ProtocolError, match="a tagged field of 9 bytes reaches past the end"):
        skip_tags(b"\x01\x05\x09abc", 0)


@pytest.mark.parametrize("flexible", [True, False])
def test_array_lengths_are_bounded_by_the_bytes_that_remain(flexible: bool) -> None:
    raw = write_array_length(2_000_000_000, flexible) + b"abc"
    with pytest.raises(ProtocolError, match="an array of 2000000000 elements where 3 bytes remain"):
        Cursor(raw, 0, flexible).array_length()
    assert Cursor(write_array_length(3, flexible) + b"abc", 0, flexible).array_length() == 3


@pytest.mark.parametrize(("flexible", "null"), [(True, b"\0"), (False, b"\xff\xff\xff\xff")])
def test_null_is_refused_where_a_value_is_required(flexible: bool, null: bytes) -> None:
    with pytest.raises(ProtocolError, match="null where an array is required"):
        Cursor(null, 0, flexible).array_length()
    assert Cursor(null, 0, flexible).nullable_array_length() == -1
    assert Cursor(null, 0, flexible).byte_string() is None
    with pytest.raises(ProtocolError, match="null where a string is required"):
        Cursor(null, 0, flexible).string()


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
