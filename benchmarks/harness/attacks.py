"""Hostile clients, in a process of their own: `python -m benchmarks.harness.attacks NAME HOST:PORT CLIENTS`.

It prints `standing` once the attack has started, and continues until it is killed.
"""

import socket
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from itertools import cycle
from threading import Thread

from benchmarks.harness import http2_bytes as http2
from benchmarks.harness import kafka_bytes
from benchmarks.harness.kafka_bytes import API_VERSIONS_V0, connect
from benchmarks.harness.kafka_long_bytes import TINY

_DRIBBLE_S = 0.1
_PRODUCE_BYTES = 12 * 1024 * 1024
_HALF_HEAD = b"GET /livez HTTP/1.1\r\nHost: gateway\r\n"
_STREAMS_AT_ONCE = 500

Attack = Callable[[ExitStack, str, int], Iterator[None]]
"""`(stack, address, clients)` -> steps; the attack has started with the first."""


def _pipelining(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Small requests, as many as the sockets take; nothing is read."""
    yield from _flood(stack, address, clients, API_VERSIONS_V0 * 10_000, receive_bytes=4096)


def _flood(
    stack: ExitStack, address: str, clients: int, data: bytes, *, hello: bytes = b"", receive_bytes: int = 0
) -> Iterator[None]:
    """The same bytes over and over; disconnected clients reconnect."""
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
                # The gate reads no faster, as it should; the others are not to wait for this one.
                continue
            except OSError:
                # The gate has closed it; who attacks comes again, with the first bytes of the protocol.
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
    kafka_bytes.connect_unread(stack, address, clients, receive_bytes=64 * 1024)
    yield from _stand()


def _stand() -> Iterator[None]:
    while True:
        yield
        time.sleep(0.1)


def _slow(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    kafka_bytes.connect_slow(stack, address, clients)
    yield from _stand()


def _idle(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    kafka_bytes.connect_idle(stack, address, clients)
    yield from _stand()


def _silent(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    for _ in range(clients):
        connect(stack, address)
    yield from _stand()


def _dribbling(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """A request a byte at a time."""
    connections = [connect(stack, address) for _ in range(clients)]
    for connection in connections:
        connection.sendall(kafka_bytes.metadata_head(1000))
    while True:
        yield
        for connection in connections:
            with suppress(OSError):  # the gate may close it: that is no failure of the attack
                connection.send(b"\0")
        time.sleep(_DRIBBLE_S)


def _tiny_records(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Produce requests of 12 MiB of the smallest records, with acks=0, one after the other."""
    yield from _flood(stack, address, clients, kafka_bytes.produce("t", TINY, _PRODUCE_BYTES // len(TINY)))


def _inspection(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Compressed batches of 9 kB that hold 50 million headers, each client's next one after its last."""
    record = kafka_bytes.empty_headers(1_000)
    bomb = kafka_bytes.produce_packed("t", record * 50_000, 50_000, "zstd") + API_VERSIONS_V0

    def send() -> None:
        while True:
            with ExitStack() as own, suppress(OSError, RuntimeError):
                connection = connect(own, address)
                while True:
                    kafka_bytes.answer(connection, bomb)

    for _ in range(clients):
        Thread(target=send, daemon=True).start()
    yield from _stand()


def _churning(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Connect, send one request and disconnect, as fast as possible."""

    def churn() -> None:
        while True:
            with ExitStack() as own, suppress(OSError, RuntimeError):
                kafka_bytes.answer(connect(own, address))

    for _ in range(clients):
        Thread(target=churn, daemon=True).start()
    yield from _stand()


def _window_updates(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    yield from _flood(stack, address, clients, http2.window(1) * 10_000, hello=http2.HELLO)


def _open_streams(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Requests that never end; disconnected clients reconnect."""
    block, streams = http2.packed_request("/danube.Discovery/TopicLookup"), range(1, 2 * _STREAMS_AT_ONCE, 2)
    requests = [http2.frame(http2.HEADERS, http2.END_HEADERS, stream, block) for stream in streams]
    yield from _flood(stack, address, clients, b"".join(requests), hello=http2.HELLO)


def _half_heads(stack: ExitStack, address: str, clients: int) -> Iterator[None]:
    """Heads of HTTP requests that never end; disconnected clients reconnect."""
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
    "inspection": _inspection,
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
