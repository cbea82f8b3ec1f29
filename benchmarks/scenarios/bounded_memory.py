"""What hostile clients make a gate keep, and what another client notices meanwhile."""

import os
import socket
import sys
import tempfile
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from pathlib import Path

from benchmarks.harness import kafka_bytes, procfs
from benchmarks.harness.arms import Bench
from benchmarks.harness.kafka_bytes import API_VERSIONS_V0, connect
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.processes import Child, free_port, free_ports
from benchmarks.harness.proxies import start_gate
from benchmarks.harness.scenario import Scenario

_MIB = 1024 * 1024
_CLIENTS = 100
_PINGS = 1000
_READY_S = 60
_FETCHES = 20
"""Fetches that a client pipelines: of 50 MiB each, together 1 GiB."""

Attack = Callable[[ExitStack, str, bool], list[socket.socket]]


def _measure(bench: Bench, name: str, attack: Attack, *, quick: bool) -> dict[str, float]:
    """Attack a fresh gate; returns its growth at most, and the p99 of another client before and meanwhile."""
    pings = _PINGS // 10 if quick else _PINGS
    with ExitStack() as stack:
        gate, address = _gate(stack, bench.directory / name)
        kafka_bytes.round_trips_ms(address, pings)
        before = kafka_bytes.p99(kafka_bytes.round_trips_ms(address, pings))
        procfs.forget_peaks(gate.pid)
        base = sum(procfs.peak_bytes_each(gate.pid).values())
        clients = attack(stack, address, quick)
        during = kafka_bytes.p99(kafka_bytes.round_trips_ms(address, pings))
        grown = sum(procfs.peak_bytes_each(gate.pid).values()) - base
        left = sum(_is_open(client) for client in clients)
    return {
        "grown_mib": grown / _MIB,
        "grown_kib_per_client": grown / 1024 / len(clients),
        "clients_left": left,
        "p99_before_ms": before,
        "p99_during_ms": during,
    }


def _gate(stack: ExitStack, directory: Path) -> tuple[Child, str]:
    """A gate with all limits at their defaults, before a stand-in that takes no memory from the machine."""
    directory = Path(tempfile.mkdtemp(dir=directory.parent, prefix=directory.name))
    upstream, port = free_port(), free_ports(4)
    stand_in = [sys.executable, "-m", "benchmarks.harness.stand_in", str(upstream)]
    root = str(Path(__file__).resolve().parents[2])
    broker = stack.enter_context(
        Child("stand-in", stand_in, directory / "stand-in.log", {"PYTHONPATH": root})
    )
    broker.wait_for_port(upstream, _READY_S)
    entry = {
        "name": "benchmark",
        "system": "kafka",
        "bootstrap": [f"127.0.0.1:{upstream}"],
        "listen": {"port": port},
    }
    return start_gate(stack, directory / "gateway", entry, {}), f"127.0.0.1:{port}"


def _is_open(client: socket.socket) -> bool:
    """Whether the gate has left a connection open; what it sent is thrown away."""
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
    """Send as many requests as the sockets take, for so long; nothing is read."""
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
    """Half of them idle after a hello, half in the middle of a request that never ends."""
    count = 200 if quick else 2000
    clients = [connect(stack, address) for _ in range(count)]
    for number, client in enumerate(clients):
        kafka_bytes.answer(client)
        if number % 2:
            client.sendall(kafka_bytes.metadata_head(1000))
    return clients


def _idle(stack: ExitStack, address: str, quick: bool) -> list[socket.socket]:
    return kafka_bytes.connect_idle(stack, address, 900 if quick else 9000)


def _silent(stack: ExitStack, address: str, quick: bool) -> list[socket.socket]:
    return [connect(stack, address) for _ in range(200 if quick else 2000)]


def _unread(stack: ExitStack, address: str, quick: bool) -> list[socket.socket]:
    clients = [connect(stack, address) for _ in range(_CLIENTS)]
    for client in clients:
        client.sendall(kafka_bytes.fetch("t") * _FETCHES)
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
