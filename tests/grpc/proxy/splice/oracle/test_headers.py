"""Headers are bytes, and bounded: a call with too large ones is refused, and its connection goes on."""

import pytest
from hpack import Decoder
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import HELLO, Raw, assert_serves, block, opened
from tests.grpc.proxy.splice.oracle.reshape import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    SETTINGS,
    frame,
)

from sluicegate_grpc.proxy.edits import Edits
from sluicegate_grpc.proxy.splice import Limits
from sluicegate_grpc.proxy.splice.blocks import NO_TABLE, encode, literal

NOT_UTF_8 = b"\xff\xfe\x80Jos\xe9"
LARGE = (("x-large", "h" * 100_000),)


def in_frames(stream: int, content: bytes) -> bytes:
    """A request's headers, cut to the smallest frames that a peer must take."""
    pieces = [content[at : at + 16_384] for at in range(0, len(content), 16_384)]
    first, *between, last = pieces
    middle = b"".join(frame(CONTINUATION, 0, stream, piece) for piece in between)
    return frame(HEADERS, END_STREAM, stream, first) + middle + frame(CONTINUATION, END_HEADERS, stream, last)


@pytest.mark.parametrize("are_encoded_again", [False, True])
def test_values_that_are_no_text_reach_the_server_as_they_are(are_encoded_again: bool) -> None:
    front = gate.shared()
    if are_encoded_again:
        front.rules.edits = Edits({"x-more": "1"})
    client = opened(front)
    content = block(service.PUBLISH) + literal(b"x-name", NOT_UTF_8)
    message = service.publish(gate.FREE, 1, b"payload")
    client.send(frame(HEADERS, END_HEADERS, 3, content) + frame(DATA, END_STREAM, 3, message))
    assert client.server.seen[3].headers["x-name"].encode("latin-1") == NOT_UTF_8
    assert client.server.seen[3].is_ended
    assert_serves(client, 5)


@pytest.mark.parametrize("has_table", [True, False])
def test_a_call_with_too_large_headers_is_refused_and_the_next_one_served(has_table: bool) -> None:
    client = Raw().send(HELLO + (b"" if has_table else frame(SETTINGS, ACK)))
    content = encode(service.request(service.PUBLISH, *LARGE))
    if has_table:  # the next block needs what this one puts there
        content = content[len(NO_TABLE) :] + b"\x40\x06x-kept\x01v"
    client.send(in_frames(1, content))
    assert client.wire.closed is None
    assert client.status(1) == "8"
    assert client.front.counts["header_list_too_large"] == 1
    assert 1 not in client.server.seen
    if has_table:
        message = service.publish(gate.FREE, 1, b"payload")
        later = encode(service.request(service.PUBLISH))[len(NO_TABLE) :] + b"\xbe"
        client.send(frame(HEADERS, END_HEADERS, 3, later) + frame(DATA, END_STREAM, 3, message))
        assert client.server.seen[3].headers["x-kept"] == "v"
    assert_serves(client, 5)


def test_the_limit_on_headers_is_announced_to_both_sides() -> None:
    most = Limits().header_list_bytes
    client = opened()
    sent = [found for found in client.got if found.type == SETTINGS and not found.flags & ACK]
    assert (6).to_bytes(2) + most.to_bytes(4) in sent[0].payload
    assert client.server.h2.remote_settings.max_header_list_size == most


def test_only_settings_that_the_gateway_keeps_to_reach_the_server() -> None:
    client = Raw().send(HELLO + frame(SETTINGS, 0, 0, (0xFE03).to_bytes(2) + (1).to_bytes(4)))
    assert 0xFE03 not in dict(client.server.h2.remote_settings)
    assert_serves(client, 1)


def test_a_refusal_of_large_headers_says_what_to_do() -> None:
    client = Raw().send(HELLO)
    client.send(in_frames(1, block(service.PUBLISH, *LARGE)))
    (answer,) = [found for found in client.got if found.stream == 1 and found.type == HEADERS]
    found = {str(name): str(value) for name, value in Decoder().decode(answer.payload)}
    assert found["grpc-message"] == "Headers of over 65536 bytes. Send less metadata."
