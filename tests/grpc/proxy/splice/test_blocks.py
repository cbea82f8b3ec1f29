"""Header blocks: read as hpack reads them, written so that any decoder understands them."""

import base64
from urllib.parse import unquote

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st
from tests.grpc.proxy.splice.talk import front

from sluicegate_grpc.proxy.splice.blocks import RequestBlocks, Volatile, encode, trailers
from sluicegate_grpc.proxy.splice.frames import WireError
from sluicegate_grpc.proxy.splice.requests import RequestReader

_NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20) | st.just("grpc-timeout")
_VALUES = st.text(st.characters(min_codepoint=0x20, max_codepoint=0x7E), max_size=300)
_HEADERS = st.lists(st.tuples(_NAMES, _VALUES) | st.just((":method", "POST")), max_size=12)


def decoded(block: bytes, decoder: Decoder | None = None) -> list[tuple[str, str]]:
    return [(str(name), str(value)) for name, value in (decoder or Decoder()).decode(block)]


def stateless() -> Encoder:
    """A client that keeps no table, and has said so."""
    encoder = Encoder()
    encoder.header_table_size = 0
    encoder.encode([])
    return encoder


@given(_HEADERS)
def test_encoded_blocks_decode_with_any_table_state(
    headers: list[tuple[str, str]],
) -> None:
    decoder = Decoder()
    decoder.decode(Encoder().encode([("x-in-the-table", "value")]))
    assert decoded(encode(headers), decoder) == headers


@given(_HEADERS, st.booleans())
def test_only_volatile_headers_are_left_out(headers: list[tuple[str, str]], huffman: bool) -> None:
    kept = Volatile("grpc-timeout").without(stateless().encode(headers, huffman=huffman))
    assert kept is not None or any(len(value) > 20 for _, value in headers)
    if kept is not None:
        assert decoded(kept) == [each for each in headers if each[0] != "grpc-timeout"]


def test_static_names_with_a_two_byte_index_are_known() -> None:
    """As grpc-go writes them, which does not index what has no room in the table."""
    content_type, deadline = b"\x0f\x10\x02te", b"\x00\x0cgrpc-timeout\x021S"
    assert Volatile("grpc-timeout").without(content_type + deadline + content_type) == content_type * 2
    assert Volatile("grpc-timeout").without(b"\x0f\x2f\x01x") is None  # 62: the first of a dynamic table


@given(st.binary(max_size=100))
def test_any_bytes_are_split_or_left_to_the_decoder(block: bytes) -> None:
    kept = Volatile("grpc-timeout").without(block)
    assert kept is None or len(kept) <= len(block)


def test_requests_that_differ_in_their_deadline_share_a_key() -> None:
    reader, encoder = RequestReader(front()), Encoder()
    encoder.header_table_size = 0
    reader.read(encoder.encode([(":path", "/a/B")]))
    first, *others = [
        reader.read(encoder.encode([(":path", "/a/B"), ("grpc-timeout", f"{each}m"), ("te", "trailers")]))
        for each in range(900, 1_100)
    ]
    assert all(other is first for other in others)
    assert first.path == "/a/B"
    assert reader.read(encoder.encode([(":path", "/a/C"), ("grpc-timeout", "1S")])).path == "/a/C"


def test_blocks_that_use_the_dynamic_table_are_recognised() -> None:
    blocks, encoder = RequestBlocks(65_536), Encoder()
    headers = [("x-a", "b")]
    assert blocks.read(encoder.encode(headers)) == (headers, False)
    assert blocks.is_plain is False
    assert blocks.read(encoder.encode(headers)) == (headers, False)
    encoder.header_table_size = 0
    assert blocks.read(encoder.encode(headers)) == (headers, False)
    assert len(blocks._decoder.header_table.dynamic_entries) == 0
    assert blocks.read(encoder.encode(headers)) == (headers, True)


@pytest.mark.parametrize(
    "block", [b"\x80", b"\xff\xff\x7f", b"\x00\x05ab", b"\x3f\xff\xff\xff\xff\x0f", b"\x00\x01\xff\x00"]
)
def test_a_malformed_block_raises(block: bytes) -> None:
    with pytest.raises(WireError):
        RequestBlocks(65_536).read(block)


@given(st.text(max_size=200), st.binary(max_size=200), st.booleans())
def test_trailers_carry_status_text_and_details(text: str, details: bytes, alone: bool) -> None:
    found = dict(decoded(trailers(8, text, details, alone=alone)))
    assert found["grpc-status"] == "8"
    assert unquote(found["grpc-message"]) == text
    coded = found.get("grpc-status-details-bin", "")
    assert base64.b64decode(coded + "=" * (-len(coded) % 4)) == details
    assert (found.get(":status") == "200") == alone
