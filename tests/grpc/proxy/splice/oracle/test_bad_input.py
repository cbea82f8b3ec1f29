"""Hostile clients: each gets the right error code, is counted by name, and harms no other client."""

import pytest
from h2.exceptions import ProtocolError
from hypothesis import given
from hypothesis import strategies as st
from tests.bench import START
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import HELLO, Raw, assert_serves, block, headers, opened
from tests.grpc.proxy.splice.oracle.reshape import (
    ACK,
    CONTINUATION,
    DATA,
    END_HEADERS,
    END_STREAM,
    HEADERS,
    PADDED,
    PING,
    PREFACE,
    PRIORITY,
    PUSH_PROMISE,
    RST_STREAM,
    SETTINGS,
    UNKNOWN,
    WINDOW_UPDATE,
    frame,
)

from sluicegate_grpc.proxy.splice import Limits
from sluicegate_grpc.proxy.splice.blocks import FAR

NO_ERROR, PROTOCOL_ERROR, FLOW_CONTROL_ERROR, STREAM_CLOSED, FRAME_SIZE_ERROR = 0, 1, 3, 5, 6
CANCEL, COMPRESSION_ERROR, ENHANCE_YOUR_CALM = 8, 9, 11
LIMITS = Limits()
SMALL_HEADERS = frame(HEADERS, END_HEADERS, 1, block(service.OTHER))
TLS_HELLO = bytes.fromhex("16030100c8010000c40303") + bytes(200)
LONG = tuple((f"x-{number}", "a" * 4_000) for number in range(20))
"""More than is allowed, in a block that is less: an `a` takes five bits."""


def flood(one: bytes, count: int) -> bytes:
    return HELLO + one * (count + 1)


def rapid_reset() -> bytes:
    calls = (headers(2 * n + 1) + frame(RST_STREAM, 0, 2 * n + 1, bytes(4)) for n in range(LIMITS.resets + 1))
    return HELLO + b"".join(calls)


def in_pieces(content: bytes) -> bytes:
    pieces = [content[at : at + 16_384] for at in range(0, len(content), 16_384)]
    first, rest, last = pieces[0], pieces[1:-1], pieces[-1]
    between = b"".join(frame(CONTINUATION, 0, 1, piece) for piece in rest)
    return frame(HEADERS, 0, 1, first) + between + frame(CONTINUATION, END_HEADERS, 1, last)


def open_block(*frames: bytes) -> bytes:
    return HELLO + frame(HEADERS, 0, 1, block(service.OTHER)) + b"".join(frames)


ENDS = {
    "another preface": (b"PRI * HTTP/2.0\r\n\r\nXX\r\n\r\n", PROTOCOL_ERROR, "not_http2"),
    "TLS where none is spoken": (TLS_HELLO, PROTOCOL_ERROR, "not_http2"),
    "HTTP/1.1": (b"GET / HTTP/1.1\r\nHost: x\r\n\r\n", PROTOCOL_ERROR, "not_http2"),
    "no SETTINGS first": (PREFACE + SMALL_HEADERS, PROTOCOL_ERROR, "frame_malformed"),
    "a frame too large": (
        HELLO + (LIMITS.frame_bytes + 1).to_bytes(3) + bytes((DATA, 0, 0, 0, 0, 1)),
        FRAME_SIZE_ERROR,
        "frame_too_large",
    ),
    "a header list too large": (
        HELLO + in_pieces(block(service.OTHER, *LONG * 4)),
        ENHANCE_YOUR_CALM,
        "header_list_too_large",
    ),
    "a header list that unpacks to too much": (
        # The first puts a long value into the table, the second names it often.
        HELLO + frame(HEADERS, END_HEADERS, 1, b"\x40\x01a\x7f\xa1\x1e" + b"v" * 4_000 + b"\xbe" * 80),
        ENHANCE_YOUR_CALM,
        "header_list_too_large",
    ),
    "a block that is no HPACK": (
        HELLO + frame(HEADERS, END_HEADERS, 1, b"\x80"),
        COMPRESSION_ERROR,
        "header_block_malformed",
    ),
    "a block that names what is in no table": (
        HELLO + frame(HEADERS, END_HEADERS, 1, b"\xff\xff\x01"),
        COMPRESSION_ERROR,
        "header_block_malformed",
    ),
    "many CONTINUATION frames": (
        open_block(frame(CONTINUATION, 0, 1, b"") * (LIMITS.continuations + 1)),
        ENHANCE_YOUR_CALM,
        "continuation_flood",
    ),
    "large CONTINUATION frames": (
        open_block(frame(CONTINUATION, 0, 1, bytes(16_384)) * 17),
        ENHANCE_YOUR_CALM,
        "continuation_flood",
    ),
    "another frame within a header block": (
        open_block(frame(PING, 0, 0, bytes(8))),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
    "CONTINUATION of another stream": (
        open_block(frame(CONTINUATION, END_HEADERS, 3)),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
    "CONTINUATION of nothing": (HELLO + frame(CONTINUATION, 0, 1), PROTOCOL_ERROR, "frame_malformed"),
    "HEADERS on no stream": (HELLO + frame(HEADERS, END_HEADERS, 0), PROTOCOL_ERROR, "frame_malformed"),
    "more padding than frame": (
        HELLO + frame(HEADERS, END_HEADERS | PADDED, 1, b"\xff" + block(service.OTHER)),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
    "rapid reset": (rapid_reset(), ENHANCE_YOUR_CALM, "resets_flood"),
    "many pings": (flood(frame(PING, 0, 0, bytes(8)), 2 * LIMITS.pings), ENHANCE_YOUR_CALM, "pings_flood"),
    "many settings": (flood(frame(SETTINGS), LIMITS.settings), ENHANCE_YOUR_CALM, "settings_flood"),
    "many priorities": (
        flood(frame(PRIORITY, 0, 3, bytes(5)), LIMITS.empty_frames),
        ENHANCE_YOUR_CALM,
        "empty_frames_flood",
    ),
    "many unknown frames": (
        flood(frame(UNKNOWN, 0, 0), LIMITS.empty_frames),
        ENHANCE_YOUR_CALM,
        "empty_frames_flood",
    ),
    "many DATA frames without data": (
        HELLO + SMALL_HEADERS + frame(DATA, 0, 1) * (LIMITS.empty_frames + 1),
        ENHANCE_YOUR_CALM,
        "empty_frames_flood",
    ),
    "SETTINGS of half an entry": (
        HELLO + frame(SETTINGS, 0, 0, bytes(5)),
        FRAME_SIZE_ERROR,
        "frame_malformed",
    ),
    "a window opened too far": (
        HELLO + frame(WINDOW_UPDATE, 0, 0, b"\x7f\xff\xff\xff"),
        FLOW_CONTROL_ERROR,
        "window_overflow",
    ),
    "a window opened by nothing": (
        HELLO + frame(WINDOW_UPDATE, 0, 0, bytes(4)),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
    "more than the windows allow": (
        HELLO + SMALL_HEADERS + frame(DATA, 0, 1, bytes(16_384)) * 5,
        FLOW_CONTROL_ERROR,
        "window_exceeded",
    ),
    "a request on a stream of the broker's": (
        HELLO + headers(2, service.OTHER),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
    "WINDOW_UPDATE of another size": (
        HELLO + frame(WINDOW_UPDATE, 0, 0, bytes(3)),
        FRAME_SIZE_ERROR,
        "frame_malformed",
    ),
    "many WINDOW_UPDATE frames": (
        flood(frame(WINDOW_UPDATE, 0, 0, b"\0\0\0\1"), 2 * LIMITS.window_updates),
        ENHANCE_YOUR_CALM,
        "window_updates_flood",
    ),
    "WINDOW_UPDATE on a stream that was never opened": (
        HELLO + SMALL_HEADERS + frame(WINDOW_UPDATE, 0, 3, b"\0\0\0\1"),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
    "RST_STREAM on a stream that was never opened": (
        HELLO + SMALL_HEADERS + frame(RST_STREAM, 0, 3, bytes(4)),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
    "the end of a stream that was never opened": (
        HELLO + SMALL_HEADERS + frame(DATA, END_STREAM, 3),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
    "RST_STREAM of another size": (
        HELLO + SMALL_HEADERS + frame(RST_STREAM, 0, 1, bytes(3)),
        FRAME_SIZE_ERROR,
        "frame_malformed",
    ),
    "SETTINGS on a stream": (HELLO + frame(SETTINGS, 0, 1), PROTOCOL_ERROR, "frame_malformed"),
    "SETTINGS that are acknowledged with more": (
        HELLO + frame(SETTINGS, ACK, 0, bytes(6)),
        FRAME_SIZE_ERROR,
        "frame_malformed",
    ),
    "SETTINGS for frames of a size that there is not": (
        HELLO + frame(SETTINGS, 0, 0, b"\0\5" + (2**24).to_bytes(4)),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
    "SETTINGS with many entries": (
        HELLO + frame(SETTINGS, 0, 0, b"\0\4\0\0\xff\xff" * 33),
        ENHANCE_YOUR_CALM,
        "settings_flood",
    ),
    "a table where none was announced": (
        HELLO + frame(SETTINGS, ACK) + frame(HEADERS, END_HEADERS, 1, b"\x21" + block(service.OTHER)),
        COMPRESSION_ERROR,
        "header_block_malformed",
    ),
    "a table that is larger than ever": (
        HELLO + frame(HEADERS, END_HEADERS, 1, b"\x3f\xe2\x1f" + block(service.OTHER)),
        COMPRESSION_ERROR,
        "header_block_malformed",
    ),
    "a table of many sizes": (
        HELLO + frame(HEADERS, END_HEADERS, 1, b"\x3f\x81\x1e" * 3 + block(service.OTHER)),
        COMPRESSION_ERROR,
        "header_block_malformed",
    ),
    "many requests that have to be reset": (
        HELLO + b"".join(frame(HEADERS, 5, 2 * n + 1, b"\x83") for n in range(LIMITS.resets + 1)),
        ENHANCE_YOUR_CALM,
        "resets_flood",
    ),
    "a push from a client": (
        HELLO + frame(PUSH_PROMISE, END_HEADERS, 1, bytes(4)),
        PROTOCOL_ERROR,
        "frame_malformed",
    ),
}
"""Bytes that end their connection: the code of its GOAWAY, and what is counted."""


@pytest.mark.parametrize("name", ENDS)
@pytest.mark.parametrize("cut", [0, 1_000])
def test_errors_that_end_a_connection(name: str, cut: int) -> None:
    sent, code, counter = ENDS[name]
    front = gate.shared()
    before, hostile = opened(front), Raw(front)

    reads = [sent[at : at + cut] for at in range(0, len(sent), cut)] if cut else [sent]
    hostile.send(*reads)

    assert hostile.wire.closed is not None
    assert hostile.wire.closed.counter == counter
    assert hostile.goaway == code
    waiting = max(map(len, reads))  # a read of many frames waits for its turns
    assert hostile.wire.most_held <= 2 * FAR * LIMITS.header_list_bytes + waiting
    hostile.wire.hang_up()
    assert front.services.budget.used == 0
    assert_serves(before, 3)
    assert_serves(opened(front), 3)


def test_a_ping_per_round_trip_is_no_flood() -> None:
    """So clients find out how much their connection can carry (grpc-go, C-core)."""
    front = gate.shared()
    pinging = Raw(front)
    pinging.send(HELLO)

    for _ in range(3 * LIMITS.pings):
        pinging.send(frame(PING, 0, 0, bytes(8)))

    assert pinging.wire.closed is None
    assert_serves(opened(front), 3)


FOR_THE_SERVER = {
    "DATA on a stream that was never opened": frame(DATA, 0, 9, b"x"),
    "DATA on no stream": frame(DATA, 0, 0, b"x"),
    "RST_STREAM on no stream": frame(RST_STREAM, 0, 0, bytes(4)),
    "PING of another size": frame(PING, 0, 0, bytes(7)),
    "SETTINGS with a value that is none": frame(SETTINGS, 0, 0, b"\0\2\0\0\0\2"),
    "PRIORITY of another size": frame(PRIORITY, 0, 3, bytes(4)),
    "a stream id that goes backwards": headers(7, service.OTHER) + headers(5),
}
"""The gate holds nothing for these and learns nothing by them: they pass, and the server ends it all."""


@pytest.mark.parametrize("name", FOR_THE_SERVER)
def test_errors_left_to_the_server(name: str) -> None:
    client = opened(gate.shared())

    with pytest.raises(ProtocolError):
        client.send(FOR_THE_SERVER[name])
    assert client.wire.session.held_bytes == 0


def test_a_malformed_request_is_reset() -> None:
    client = opened(gate.shared()).send(frame(HEADERS, END_HEADERS, 3, b"\x83"))

    assert client.resets(3) == [PROTOCOL_ERROR]
    assert 3 not in client.server.seen
    assert_serves(client, 5)


_HOSTILE = sorted(sent for sent, *_ in ENDS.values() if len(sent) < 20_000)


@given(
    reads=st.lists(st.binary(max_size=60) | st.sampled_from(_HOSTILE), max_size=6),
    is_server=st.booleans(),
)
def test_any_input_raises_nothing_and_leaves_nothing_behind(reads: list[bytes], is_server: bool) -> None:
    front = gate.shared()
    session = gate.session(front)
    session.receive_client(HELLO + headers(1) + headers(3, service.OTHER), START)
    session.receive_upstream(frame(SETTINGS), START)
    for read in reads:
        receive = session.receive_upstream if is_server else session.receive_client
        receive(read.removeprefix(HELLO), START)
        assert session.held_bytes <= 1_000_000
    session.closed(START)

    assert front.services.budget.used == 0
