"""Memory that idle connections take."""

import socket
import struct
import time
from contextlib import ExitStack

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import HAPROXY, KROXYLICIOUS, SLUICEGATE
from benchmarks.harness.scenario import Scenario

_API_VERSIONS_V0 = struct.pack(">hhih", 18, 0, 1, -1)
"""Request header v1: api key, version, correlation id, no client id; the body is empty."""
_SETTLE_S = 3.0


_WARM_UP = 50


def _idle(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    # Memory that earlier traffic left free would hide what these connections need.
    arm = bench.fresh_arm(name)
    assert arm.proxy is not None
    count = 200 if quick else 2000
    with ExitStack() as warm_up:
        _connect(warm_up, arm.bootstrap, _WARM_UP)
    time.sleep(_SETTLE_S)
    before = arm.proxy.resident_bytes()
    with ExitStack() as connections:
        _connect(connections, arm.bootstrap, count)
        time.sleep(_SETTLE_S)
        grown = arm.proxy.resident_bytes() - before
    return {"kib_per_connection": grown / count / 1024, "rss_before_mib": before / 1024 / 1024}


def _connect(stack: ExitStack, address: str, count: int) -> None:
    host, port = address.split(":")
    for _ in range(count):
        connection = stack.enter_context(socket.create_connection((host, int(port)), timeout=30))
        _greet(connection)


def _greet(connection: socket.socket) -> None:
    """Ask for the API versions and read the whole answer: the least that any Kafka client does."""
    connection.sendall(struct.pack(">i", len(_API_VERSIONS_V0)) + _API_VERSIONS_V0)
    (length,) = struct.unpack(">i", _exactly(connection, 4))
    _exactly(connection, length)


def _exactly(connection: socket.socket, count: int) -> bytes:
    received = b""
    while len(received) < count:
        part = connection.recv(count - len(received))
        if not part:
            raise RuntimeError(f"connection closed after {len(received)} of {count} bytes of a response")
        received += part
    return received


SCENARIOS = (
    Scenario(
        "idle-connections",
        "memory growth over 2,000 connections that said hello and are silent",
        (HAPROXY, KROXYLICIOUS, SLUICEGATE),
        _idle,
        rounds=3,
        cold_round=False,
    ),
)
