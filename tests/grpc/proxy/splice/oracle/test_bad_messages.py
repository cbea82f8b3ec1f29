"""Malformed messages: only their calls end, with the right status."""

import gzip
import zlib

import pytest
from tests.grpc.proxy.splice.oracle import gate, service
from tests.grpc.proxy.splice.oracle.raw import assert_serves, call, headers, opened
from tests.grpc.proxy.splice.oracle.reshape import DATA, END_STREAM, frame


def packed(size: int, encoding: str = "gzip") -> bytes:
    """A message that says it is compressed."""
    content = service.publish(gate.SMALL, 2, bytes(size))[5:]
    raw = gzip.compress(content) if encoding == "gzip" else zlib.compress(content)
    return service.framed(raw, compressed=1)


def compressed(message: bytes, encoding: str = "gzip") -> bytes:
    """A call whose message it is."""
    parts = [message[at : at + 16_384] for at in range(0, len(message), 16_384)]
    frames = b"".join(frame(DATA, 0, 3, part) for part in parts[:-1])
    return (
        headers(3, service.PUBLISH, ("grpc-encoding", encoding))
        + frames
        + frame(DATA, END_STREAM, 3, parts[-1])
    )


FOUR_GIB = b"\x00\xff\xff\xff\xff"
REFUSED = {
    "too large": (call(3, service.publish(gate.SMALL, 2, bytes(101))), "3"),
    "too large, in gzip": (compressed(packed(101)), "3"),
    "too large, in deflate": (compressed(packed(101, "deflate"), "deflate"), "3"),
    "in an encoding that nobody knows": (compressed(packed(5), "snappy"), "12"),
    "in an encoding that it does not name": (call(3, packed(5)), "12"),
    "in gzip, as it says": (compressed(service.framed(b"no gzip", 1)), "3"),
    "in gzip, cut off": (compressed(service.framed(gzip.compress(bytes(100))[:-9], 1)), "3"),
    "40 MB in little gzip": (compressed(service.framed(gzip.compress(bytes(40_000_000)), 1)), "3"),
    "no protobuf": (call(3, service.framed(b"\xff" * 50)), "3"),
    "shorter than its fields": (
        call(3, b"\0\0\0\0\x05" + service.publish(gate.SMALL, 2, b"")[5:] + bytes(50)),
        "3",
    ),
    "longer than what comes": (call(3, b"\0\0\0\0\x20abc"), "3"),
    "4 GiB, of which too little comes to read it": (headers(3) + frame(DATA, 0, 3, FOUR_GIB + b"\x0a"), "8"),
    "4 GiB by its fields": (
        headers(3) + frame(DATA, 0, 3, FOUR_GIB + b"\x0a\x05small\x10\x02\x1a\xf0\xff\xff\xff\x0f"),
        "3",
    ),
}
"""What a client publishes, and the status of its call. A publish is decided by what the server would read."""


@pytest.mark.parametrize("name", REFUSED)
def test_errors_that_end_one_call(name: str) -> None:
    sent, status = REFUSED[name]
    client = opened(gate.shared()).send(sent)

    assert client.status(3) == status
    assert 3 not in client.server.seen
    assert client.wire.session.held_bytes == 0
    assert client.front.services.budget.used == 0
    assert client.wire.most_held <= 17 * 16_384
    assert_serves(client, 5)


@pytest.mark.parametrize("encoding", ["gzip", "deflate"])
def test_compressed_messages_pass_unchanged(encoding: str) -> None:
    client = opened(gate.shared()).send(compressed(packed(100, encoding), encoding))

    assert client.server.seen[3].data == packed(100, encoding)
