"""Header blocks: read as hpack reads them, written so that any decoder understands them."""

import base64
import re
from urllib.parse import unquote

import pytest
from hpack import Decoder, Encoder
from hypothesis import given
from hypothesis import strategies as st
from tests.grpc.proxy.splice.talk import front

from sluicegate_grpc.proxy.splice.blocks import Deadlines, RequestBlocks, encode, trailers
from sluicegate_grpc.proxy.splice.connection_state import Connection
from sluicegate_grpc.proxy.splice.frames import WireError
from sluicegate_grpc.proxy.splice.requests import RequestReader
from sluicegate_grpc.semantics.status import Refusal

_NAMES = st.text("abcdefghijklmnopqrstuvwxyz-", min_size=1, max_size=20) | st.just("grpc-timeout")
_TIME = re.compile("[0-9]{1,8}[HMSmun]")
_TIMES = st.from_regex(_TIME, fullmatch=True) | st.text("0159HMSmun,;~\r\n\0", max_size=11)
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


@given(_HEADERS, _TIMES, _HEADERS, st.booleans())
def test_only_the_time_of_a_deadline_is_left_out(
    before: list[tuple[str, str]], time: str, after: list[tuple[str, str]], huffman: bool
) -> None:
    headers = [*before, ("grpc-timeout", time), *after]
    place = [name for name, _ in headers].index("grpc-timeout")
    kept = Deadlines().without(stateless().encode(headers, huffman=huffman))
    if _TIME.fullmatch(headers[place][1]):
        headers[place] = ("grpc-timeout", "")
        assert kept is not None
        assert decoded(kept) == headers
    else:
        assert kept is None


@pytest.mark.parametrize("unit", "HMSmun")
@pytest.mark.parametrize("digits", ["0", "123456789"[:8], "98765432", "9" * 8, "0" * 8])
def test_times_are_known_in_huffmans_code(digits: str, unit: str) -> None:
    blocks = [stateless().encode([("grpc-timeout", time)]) for time in (digits + unit, "1S")]
    assert len({Deadlines().without(block) for block in blocks} - {None}) == 1


def test_static_names_with_a_two_byte_index_are_known() -> None:
    """As grpc-go writes them, which does not index what has no room in the table."""
    content_type, deadline = b"\x0f\x10\x02te", b"\x00\x0cgrpc-timeout\x021S"
    kept = content_type + b"\x00\x0cgrpc-timeout\x00" + content_type
    assert Deadlines().without(content_type + deadline + content_type) == kept
    assert Deadlines().without(b"\x0f\x2f\x01x" + deadline) is None  # 62: the first of a dynamic table


def test_a_deadline_within_a_value_is_none() -> None:
    deadline = b"\x00\x0cgrpc-timeout\x021S"
    assert Deadlines().without(b"\x00\x01x" + bytes((len(deadline),)) + deadline) is None


@pytest.mark.parametrize("rest", [b"", b"\x021", b"\x821", b"\x7f1S", b"\x7f", b"\x82\x08\x00"])
def test_a_deadline_that_is_cut_off_is_left_to_the_decoder(rest: bytes) -> None:
    assert Deadlines().without(b"\x00\x0cgrpc-timeout" + rest) is None


@given(st.binary(max_size=100), st.binary(max_size=20))
def test_any_bytes_are_split_or_left_to_the_decoder(before: bytes, after: bytes) -> None:
    for block in (before, before + b"\x00\x0cgrpc-timeout\x021S" + after):
        kept = Deadlines().without(block)
        assert kept is None or len(kept) <= len(block)


def test_requests_that_differ_in_their_deadline_share_a_key() -> None:
    connection, encoder = Connection(front(), "10.0.0.1:5000"), Encoder()
    reader = RequestReader(connection.shared.rules, 65_536, connection.client_settings, lambda work: None)
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


@pytest.mark.parametrize("block", [b"\x80", b"\xff\xff\x7f", b"\x00\x05ab", b"\x3f\xff\xff\xff\xff\x0f"])
def test_a_malformed_block_raises(block: bytes) -> None:
    with pytest.raises(WireError):
        RequestBlocks(65_536).read(block)


@given(st.text(max_size=200), st.binary(max_size=200), st.booleans())
def test_trailers_carry_status_text_and_details(text: str, details: bytes, alone: bool) -> None:
    found = dict(decoded(trailers(Refusal(8, text, details, 5_000_000), alone=alone)))
    assert found["grpc-retry-pushback-ms"] == "5"
    assert found["grpc-status"] == "8"
    assert unquote(found["grpc-message"]) == text
    coded = found.get("grpc-status-details-bin", "")
    assert base64.b64decode(coded + "=" * (-len(coded) % 4)) == details
    assert (found.get(":status") == "200") == alone
