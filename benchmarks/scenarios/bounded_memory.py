"""Memory that hostile clients take from a gate, and the effect on another client."""

import os
import socket
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.harness import kafka_bytes, procfs
from benchmarks.harness.arms import Bench
from benchmarks.harness.brokers import start_stand_in
from benchmarks.harness.kafka_bytes import API_VERSIONS_V0, connect
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.proxies import Gate
from benchmarks.harness.samples import percentile
from benchmarks.harness.scenario import Scenario

_MIB = 1024 * 1024
_CLIENTS = 100
_PINGS = 1000

Attack = Callable[[ExitStack, str, bool], list[socket.socket]]


def _measure(bench: Bench, name: str, attack: Attack, *, quick: bool) -> dict[str, float]:
    """Attack a fresh gate; returns its peak growth, and the p99 of another client before and during it."""
    pings = _PINGS // 10 if quick else _PINGS
    with ExitStack() as stack:
        # A gate with all limits at their defaults.
        directory = Path(tempfile.mkdtemp(dir=bench.directory, prefix=name))
        gate = Gate(stack, directory, "kafka", [start_stand_in(stack, directory)], {}).wait()
        pid, address = gate.child.pid, gate.address
        kafka_bytes.round_trips_ms(address, pings)
        before = percentile(kafka_bytes.round_trips_ms(address, pings), 0.99)
        procfs.forget_peaks(pid)
        base = sum(procfs.peak_bytes_each(pid).values())
        clients = attack(stack, address, quick)
        during = percentile(kafka_bytes.round_trips_ms(address, pings), 0.99)
        grown = sum(procfs.peak_bytes_each(pid).values()) - base
        left = sum(_is_open(client) for client in clients)
    return {
        "grown_mib": grown / _MIB,
        "grown_kib_per_client": grown / 1024 / len(clients),
        "clients_left": left,
        "p99_before_ms": before,
        "p99_during_ms": during,
    }


def _is_open(client: socket.socket) -> bool:
    """Whether the gate has left a connection open; received bytes are discarded."""
    client.setblocking(False)
    try:
        while client.recv(_MIB):
            pass
    except BlockingIOError:
        return True
    except OSError:
        return False
    return False


def _push(clients: list[socket.socket], request: bytes, seconds: float) -> None:
    """Send as many requests as the sockets accept, for this time; nothing is read."""
    ends = time.monotonic() + seconds
    size, data = len(request), memoryview(request * 10_000)
    sent = dict.fromkeys(clients, 0)
    for client in clients:
        client.setblocking(False)
    while time.monotonic() < ends:
        for client in clients:
            with suppress(OSError):
                sent[client] += client.send(data[sent[client] % size :])
        time.sleep(0.01)


def _pipelining(stack: ExitStack, address: str, quick: bool) -> list[socket.socket]:
    clients = [connect(stack, address, receive_bytes=4096) for _ in range(_CLIENTS)]
    _push(clients, API_VERSIONS_V0, 2 if quick else 10)
    return clients


def _announcing(stack: ExitStack, address: str, quick: bool) -> list[socket.socket]:
    clients = [connect(stack, address) for _ in range(_CLIENTS)]
    for client in clients:
        with suppress(OSError):
            client.sendall(kafka_bytes.metadata_head(2**31 - 1))
            client.sendall(os.urandom(64 * 1024))
    return clients


def _slow(stack: ExitStack, address: str, quick: bool) -> list[socket.socket]:
    return kafka_bytes.connect_slow(stack, address, 200 if quick else 2000)


def _idle(stack: ExitStack, address: str, quick: bool) -> list[socket.socket]:
    return kafka_bytes.connect_idle(stack, address, 900 if quick else 9000)


def _silent(stack: ExitStack, address: str, quick: bool) -> list[socket.socket]:
    return [connect(stack, address) for _ in range(200 if quick else 2000)]


def _unread(stack: ExitStack, address: str, quick: bool) -> list[socket.socket]:
    clients = kafka_bytes.connect_unread(stack, address, _CLIENTS)
    time.sleep(2 if quick else 10)
    return clients


def _scenario(name: str, summary: str, attack: Attack) -> Scenario:
    def measure(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
        return _measure(bench, arm, attack, quick=quick)

    return Scenario(name, summary, (SLUICEGATE,), measure, rounds=1, cold_round=False)


SCENARIOS = (
    _scenario("memory-pipelining", "100 clients that pipeline small requests and do not read", _pipelining),
    _scenario("memory-announced", "100 clients that announce 2 GiB", _announcing),
    _scenario("memory-slow", "2,000 clients, half idle, half in the middle of a request", _slow),
    _scenario("memory-idle", "9,000 clients that asked once and are idle", _idle),
    _scenario("memory-silent", "2,000 clients that have said nothing", _silent),
    _scenario("memory-unread", "100 clients that ask for 1 GiB each and do not read", _unread),
)
