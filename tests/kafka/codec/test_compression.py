"""Bounded decompression of what other libraries compressed, of bombs and of garbage."""

import contextlib
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.kafka.codec.packing import FORMS, packed

from sluicegate_kafka.codec.compression import unpacked
from sluicegate_kafka.codec.errors import ProtocolError
from sluicegate_kafka.codec.unpacked_walk import PIECE

forms = pytest.mark.parametrize("form", FORMS)
MIB = 1 << 20


def whole(codec: int, data: bytes, limit: int) -> bytes:
    """All pieces of what was compressed."""
    return b"".join(unpacked(codec, data, limit))


@forms
@given(st.binary(max_size=2_000), st.integers(1, 200))
def test_compressed_data_is_restored(form: str, piece: bytes, times: int) -> None:
    raw = piece * times
    codec, data = packed(form, raw)
    assert whole(codec, data, len(raw)) == raw


@forms
@pytest.mark.parametrize("size", [32_768, 3 * MIB])
def test_the_bound_is_exact(form: str, size: int) -> None:
    codec, data = packed(form, bytes(size))
    assert len(whole(codec, data, size)) == size
    with pytest.raises(ProtocolError, match=f"more than the {size - 1} bytes"):
        whole(codec, data, size - 1)


@pytest.mark.parametrize("form", ["gzip", "lz4", "zstd"])
def test_a_bomb_is_unpacked_no_further_than_the_bound(form: str) -> None:
    codec, data = packed(form, bytes(64 * MIB))
    tracemalloc.start()
    try:
        with pytest.raises(ProtocolError, match="more than the 1000 bytes"):
            whole(codec, data, 1_000)
        assert tracemalloc.get_traced_memory()[1] < 4 * MIB
    finally:
        tracemalloc.stop()


@forms
def test_truncated_data_is_refused_or_shorter(form: str) -> None:
    """Where less comes out, records do not fill it, which is found next."""
    raw = bytes(range(256)) * 1_000
    codec, data = packed(form, raw)
    for end in range(1, len(data) - 8, max(1, len(data) // 50)):
        with contextlib.suppress(ProtocolError):
            assert len(whole(codec, data[:end], len(raw))) < len(raw)


@pytest.mark.parametrize(("codec", "name"), [(1, "gzip"), (2, "snappy"), (3, "lz4"), (4, "zstd")])
def test_damaged_data_is_named_by_its_codec(codec: int, name: str) -> None:
    with pytest.raises(ProtocolError, match=f"^damaged {name} data$"):
        whole(codec, b"\x05" + b"\xff" * 40, 10_000)


@forms
def test_pieces_are_bytes(form: str) -> None:
    codec, data = packed(form, b"records")
    assert [type(piece) for piece in unpacked(codec, data, 7)] == [bytes]


@pytest.mark.parametrize("length", [0, -1, 9])
def test_a_block_has_at_least_a_byte_and_at_most_the_rest(length: int) -> None:
    head = b"\x82SNAPPY\0" + bytes(8)
    with pytest.raises(ProtocolError, match=f"a snappy block of {length} bytes where 8 remain"):
        whole(2, head + length.to_bytes(4, "big", signed=True) + bytes(8), 10_000)


def test_a_block_without_its_length_is_refused() -> None:
    with pytest.raises(ProtocolError, match="truncated or garbled"):
        whole(2, b"\x82SNAPPY\0" + bytes(8) + b"\0\0", 10_000)


@given(st.sampled_from([1, 2, 3, 4]), st.binary(max_size=200))
def test_garbage_is_a_protocol_error(codec: int, data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        whole(codec, data, 10_000)


@given(st.binary(max_size=100))
def test_garbage_in_the_java_client_s_framing(data: bytes) -> None:
    with contextlib.suppress(ProtocolError):
        whole(2, b"\x82SNAPPY\0\0\0\0\1\0\0\0\1" + data, 10_000)


@pytest.mark.parametrize("codec", [5, 6, 7])
def test_unknown_codecs_are_refused(codec: int) -> None:
    with pytest.raises(ProtocolError, match=f"compression {codec}"):
        whole(codec, b"x", 10)


@forms
def test_all_pieces_but_the_last_are_large(form: str) -> None:
    codec, data = packed(form, bytes(3 * PIECE + 1))
    sizes = [len(piece) for piece in unpacked(codec, data, MIB)]
    assert all(size >= PIECE for size in sizes[:-1])
    if form != "snappy":  # one block, which cannot be cut
        assert len(sizes) == 4
