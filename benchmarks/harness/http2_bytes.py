"""Bytes of HTTP/2, written without the gate's own codec."""

import struct
from typing import Final

from hpack import Encoder

PREFACE: Final = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n"
DATA, HEADERS, SETTINGS, PING, WINDOW_UPDATE, CONTINUATION = 0, 1, 4, 6, 8, 9
ACK = END_STREAM = 1
END_HEADERS = 4


def frame(kind: int, flags: int, stream: int, payload: bytes = b"") -> bytes:
    """A frame with its header."""
    return struct.pack(">I", len(payload))[1:] + struct.pack(">BBI", kind, flags, stream) + payload


HELLO: Final = PREFACE + frame(SETTINGS, 0, 0)
"""What a client begins with."""


def window(increment: int) -> bytes:
    """A WINDOW_UPDATE of the connection."""
    return frame(WINDOW_UPDATE, 0, 0, struct.pack(">I", increment))


def literal(name: str, value: str) -> bytes:
    """A header field without indexing and without Huffman coding; both texts are shorter than 127 bytes."""
    return b"\0" + bytes((len(name),)) + name.encode() + bytes((len(value),)) + value.encode()


def request(path: str) -> bytes:
    """The header block of a gRPC request; of tables, it refers to pseudo-headers of the static one only."""
    block = b"\x83\x86" + literal(":path", path) + literal("content-type", "application/grpc")
    return block + literal("te", "trailers")


def packed_request(path: str) -> bytes:
    """The same with an authority, as stock clients pack it: with Huffman coding."""
    encoder = Encoder()
    encoder.header_table_size = 0
    pseudo = [(":method", "POST"), (":scheme", "http"), (":path", path), (":authority", "broker")]
    return encoder.encode([*pseudo, ("te", "trailers"), ("content-type", "application/grpc")])


def message(content: bytes) -> bytes:
    """A gRPC message, not compressed, with its prefix."""
    return struct.pack(">BI", 0, len(content)) + content
