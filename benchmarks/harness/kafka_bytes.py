"""Kafka requests as bytes, for clients that no library would let one write."""

import socket
import struct
import time
from collections.abc import Callable
from contextlib import ExitStack

import pyarrow

from benchmarks.harness.kafka_long_bytes import batch

API_VERSIONS_V0 = struct.pack(">ihhih", 10, 18, 0, 1, -1)
"""The smallest request: its length, API key, version, correlation id, no client id."""
_PRODUCE, _METADATA = 0, 3
_FROM_ONE_ADDRESS = 1_000
_FETCH_MAX_BYTES = 50 * 1024 * 1024
"""What stock consumers ask for (`fetch.max.bytes`)."""
_CODECS = {"gzip": 1, "zstd": 4}
_FETCHES = 20
"""Fetches that together ask for 1 GiB."""


def connect(stack: ExitStack, address: str, receive_bytes: int = 0, source: str = "") -> socket.socket:
    """A connection that the stack closes.

    :param receive_bytes: what the kernel may keep for the client, at most; 0 for its own choice.
    :param source: the client's own address; empty for the kernel's own choice.
    """
    host, port = address.split(":")
    connection = stack.enter_context(socket.socket())
    connection.settimeout(30)
    if receive_bytes:
        connection.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, receive_bytes)
    if source:
        connection.bind((source, 0))
    connection.connect((host, int(port)))
    return connection


def connect_idle(stack: ExitStack, address: str, count: int) -> list[socket.socket]:
    """Connections that ask once and are silent then, a thousand from each address.

    More would be refused: a gate leaves part of its places to clients of other addresses.
    """
    clients = []
    for number in range(count):
        client = connect(stack, address, source=f"127.0.0.{1 + number // _FROM_ONE_ADDRESS}")
        answer(client)
        clients.append(client)
    return clients


def connect_slow(stack: ExitStack, address: str, count: int) -> list[socket.socket]:
    """Connections half of which are idle after a request, half in the middle of one that never ends."""
    clients = [connect(stack, address) for _ in range(count)]
    for number, client in enumerate(clients):
        answer(client)
        if number % 2:
            client.sendall(metadata_head(1000))
    return clients


def connect_unread(stack: ExitStack, address: str, count: int, receive_bytes: int = 0) -> list[socket.socket]:
    """Connections that each ask for 1 GiB; nothing is read. `receive_bytes` is that of `connect`."""
    clients = [connect(stack, address, receive_bytes) for _ in range(count)]
    for client in clients:
        client.sendall(fetch("t") * _FETCHES)
    return clients


def answer(connection: socket.socket, request: bytes = API_VERSIONS_V0) -> None:
    """Send a request and read the whole response.

    :raises RuntimeError: if the connection is closed before.
    """
    connection.sendall(request)
    (length,) = struct.unpack(">i", exactly(connection, 4))
    exactly(connection, length)


def exactly(connection: socket.socket, count: int) -> bytes:
    """Read so many bytes.

    :raises RuntimeError: if the connection is closed before.
    """
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise RuntimeError(f"connection closed after {len(received)} of {count} bytes of a response")
        received += part
    return received


def fetch(topic: str) -> bytes:
    """A Fetch of version 4 for partition 0 of a topic, from its beginning."""
    name = topic.encode()
    body = struct.pack(">iiiibi", -1, 500, 1, _FETCH_MAX_BYTES, 0, 1)
    body += struct.pack(">h", len(name)) + name + struct.pack(">iiqi", 1, 0, 0, _FETCH_MAX_BYTES)
    return struct.pack(">ihhih", 10 + len(body), 1, 4, 1, -1) + body


def produce(topic: str, record: bytes, count: int) -> bytes:
    """A Produce of version 3 with `acks=0`: one batch that holds the same record so many times."""
    records, name = batch(record * count, count), topic.encode()
    body = struct.pack(">hhiih", -1, 0, 30_000, 1, len(name)) + name
    body += struct.pack(">iii", 1, 0, len(records)) + records
    return struct.pack(">ihhih", 10 + len(body), _PRODUCE, 3, 1, -1) + body


def produce_packed(topic: str, records: bytes, count: int, codec: str) -> bytes:
    """A Produce of version 3 with `acks=0`: one batch of these records.

    :param codec: `gzip` or `zstd`.
    """
    packed = bytes(pyarrow.compress(records, codec=codec, asbytes=True))
    request = bytearray(produce(topic, packed, 1))
    at = len(request) - len(packed) - 61
    struct.pack_into(">h", request, at + 21, _CODECS[codec])
    struct.pack_into(">i", request, at + 57, count)
    return bytes(request)


def empty_headers(count: int) -> bytes:
    """A record with so many empty headers and nothing else; 64 to 8,191 of them."""
    rest = b"\0\0\0\x01\x01" + bytes((2 * count & 0x7F | 0x80, 2 * count >> 7)) + bytes(2 * count)
    return bytes((2 * len(rest) & 0x7F | 0x80, 2 * len(rest) >> 7)) + rest


def metadata_head(length: int) -> bytes:
    """The start of a Metadata request that announces so many bytes."""
    return struct.pack(">ihhih", length, _METADATA, 1, 1, -1)


def round_trips_ms(address: str, count: int) -> list[float]:
    """Times of so many requests, one after the other, of a client that does what clients should."""
    with ExitStack() as stack:
        connection = connect(stack, address)
        return times_ms(lambda: answer(connection), count)


def times_ms(ask: Callable[[], object], count: int) -> list[float]:
    """How long so many calls take, one after the other, with a little rest between them."""
    times = []
    for _ in range(count):
        began = time.perf_counter()
        ask()
        times.append((time.perf_counter() - began) * 1e3)
        time.sleep(0.002)
    return times
