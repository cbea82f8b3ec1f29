"""Hostile clients, in a process of their own: `python -m benchmarks.harness.attacks NAME HOST:PORT CLIENTS`.

It prints `standing` once the attack stands, and goes on with it until it is killed.
"""

import socket
import struct
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import count, cycle
from threading import Thread

from hpack import Encoder

from benchmarks.harness import kafka_bytes
from benchmarks.harness.kafka_bytes import API_VERSIONS_V0, connect

_FETCHES = 20
"""Fetches of 50 MiB each that one client pipelines."""
_DRIBBLE_S = 0.1
_TINY = b"\x0c\0\0\0\x01\x01\0"
"""The smallest record."""
_PRODUCE_BYTES = 12 * 1024 * 1024
_HELLO = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n" + bytes((0, 0, 0, 4, 0, 0, 0, 0, 0))
_WINDOW_UPDATE = b"\0\0\4\x08\0\0\0\0\0\0\0\0\1"
_HALF_HEAD = b"GET /livez HTTP/1.1\r\nHost: gateway\r\n"
_STREAMS_AT_ONCE = 500

Attack = Callable[[ExitStack, str, int], Iterator[None]]
"""`(stack, address, clients)` -> steps; the attack stands with the first."""


def _pipelining(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Small requests, as many as the sockets take; nothing is read."""
    yield from _flood(stack, address, clients, API_VERSIONS_V0 * 10_000, receive_bytes=4096)


def _flood(
    stack: ExitStack, address: str, clients: int, data: bytes, *, hello: bytes = b"", receive_bytes: int = 0
) -> Iterator[None]:
    """The same bytes over and over again; clients that are hung up on connect anew."""
    connections = [connect(stack, address, receive_bytes) for _ in range(clients)]
    sent = [0] * clients
    for connection in connections:
        connection.sendall(hello)
        connection.setblocking(False)
    view = memoryview(data)
    while True:
        for number, connection in enumerate(connections):
            try:
                sent[number] += connection.send(view[sent[number] % len(data) :])
            except BlockingIOError:
                continue
            except OSError:
                connection.close()
                with suppress(OSError):
                    connections[number] = again = connect(stack, address, receive_bytes)
                    again.sendall(hello)
                    again.setblocking(False)
                    sent[number] = 0
        yield
        time.sleep(0.005)


def _unread(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """1 GiB is asked for by each client, and nothing is read."""
    connections = [connect(stack, address, receive_bytes=64 * 1024) for _ in range(clients)]
    for connection in connections:
        connection.sendall(kafka_bytes.fetch("t") * _FETCHES)
    yield from _stand()


def _stand() -> Iterator[None]:
    while True:
        yield
        time.sleep(0.1)


def _slow(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Half of them idle after a request, half in the middle of one that never ends."""
    connections = [connect(stack, address) for _ in range(clients)]
    for number, connection in enumerate(connections):
        kafka_bytes.answer(connection)
        if number % 2:
            connection.sendall(kafka_bytes.metadata_head(1000))
    yield from _stand()


def _idle(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    kafka_bytes.connect_idle(stack, address, clients)
    yield from _stand()


def _silent(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    connections = [connect(stack, address) for _ in range(clients)]
    assert connections
    yield from _stand()


def _dribbling(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """A request a byte at a time."""
    connections = [connect(stack, address) for _ in range(clients)]
    for connection in connections:
        connection.sendall(kafka_bytes.metadata_head(1000))
    for _ in count():
        yield
        for connection in connections:
            with suppress(OSError):
                connection.send(b"\0")
        time.sleep(_DRIBBLE_S)


def _tiny_records(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Produce requests of 12 MiB of the smallest records, with acks=0, one after the other."""
    yield from _flood(stack, address, clients, kafka_bytes.produce("t", _TINY, _PRODUCE_BYTES // len(_TINY)))


def _churning(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Connect, ask once, hang up, as fast as it goes."""

    def churn() -> None:
        while True:
            with ExitStack() as own, suppress(OSError, RuntimeError):
                kafka_bytes.answer(connect(own, address))

    for _ in range(clients):
        Thread(target=churn, daemon=True).start()
    yield from _stand()


def _window_updates(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    yield from _flood(stack, address, clients, _WINDOW_UPDATE * 10_000, hello=_HELLO)


def _open_streams(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Requests that are begun and never ended; clients that are hung up on connect anew."""
    blocks = [_request(number) for number in range(1, 2 * _STREAMS_AT_ONCE, 2)]
    yield from _flood(stack, address, clients, b"".join(blocks), hello=_HELLO)


def _request(stream: int) -> bytes:
    encoder = Encoder()
    encoder.header_table_size = 0
    pseudo = [(":method", "POST"), (":scheme", "http"), (":path", "/danube.Discovery/TopicLookup")]
    fields = [(":authority", "broker"), ("te", "trailers"), ("content-type", "application/grpc")]
    block = encoder.encode([*pseudo, *fields])
    return len(block).to_bytes(3, "big") + b"\1\4" + struct.pack(">I", stream) + block


def _half_heads(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Heads of HTTP requests without an end; who is hung up on connects anew."""
    connections: list[socket.socket | None] = [None] * clients
    for turn, number in enumerate(cycle(range(clients))):
        if turn >= clients:
            yield
            time.sleep(0.001)
        if (old := connections[number]) is not None:
            old.close()
        with suppress(OSError):
            connections[number] = connection = connect(stack, address)
            connection.sendall(_HALF_HEAD)


ATTACKS: dict[str, Attack] = {
    "pipelining": _pipelining,
    "unread": _unread,
    "slow": _slow,
    "idle": _idle,
    "silent": _silent,
    "dribbling": _dribbling,
    "tiny-records": _tiny_records,
    "churning": _churning,
    "window-updates": _window_updates,
    "open-streams": _open_streams,
    "half-heads": _half_heads,
}


def main(name: str, address: str, clients: str) -> None:
    """Attack until killed."""
    with ExitStack() as stack:
        for step, _ in enumerate(ATTACKS[name](stack, address, max(1, int(clients)))):
            if step == 0:
                print("standing", flush=True)


if __name__ == "__main__":
    main(*sys.argv[1:])
