"""The effect of each attack on a well-behaved client: round trips before and during it."""

import http.client
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import grpc

from benchmarks.harness import kafka_bytes, procfs
from benchmarks.harness.arms import Bench
from benchmarks.harness.brokers import start_stand_in
from benchmarks.harness.kafka_bytes import connect, times_ms
from benchmarks.harness.kafka_long_bytes import TINY
from benchmarks.harness.names import DIRECT, SLUICEGATE
from benchmarks.harness.processes import start_module
from benchmarks.harness.proxies import Gate
from benchmarks.harness.samples import percentile
from benchmarks.harness.scenario import Scenario

_READY_S = 120
_PINGS = 1000
_ATTACK_S = 2.0
"""How long an attack goes on before anything is measured."""
_HEALTH = "/danube.HealthCheck/HealthCheck"

Ask = Callable[[], object]


@dataclass(frozen=True, slots=True)
class Place:
    """Where both clients go, and the process whose loop serves them; None if that is the broker."""

    address: str
    serving: int | None = None


def _kafka(stack: ExitStack, _: Bench, directory: Path, arm: str) -> Place:
    """A gate with all limits at their defaults before a stand-in, or the stand-in alone."""
    upstream = start_stand_in(stack, directory)
    if arm == DIRECT:
        return Place(upstream)
    gate = Gate(stack, directory / "gateway", "kafka", [upstream], {}).wait()
    return Place(gate.address, procfs.worker(gate.child.pid))


def _inspecting(stack: ExitStack, _: Bench, directory: Path, _arm: str) -> Place:
    """A gate that inspects compressed batches."""
    upstream, policies = (
        start_stand_in(stack, directory),
        {"broker": {"inspect": True, "max_message_size": "1KiB"}},
    )
    gate = Gate(stack, directory / "gateway", "kafka", [upstream], policies).wait()
    return Place(gate.address, procfs.worker(gate.child.pid))


def _grpc(_: ExitStack, bench: Bench, _directory: Path, arm: str) -> Place:
    """A gate before the gRPC server that speaks Danube's API, or that server alone."""
    way = bench.grpc.fresh_arm(arm)
    return Place(way.address, procfs.worker(way.proxy.pid) if way.proxy is not None else None)


def _web(stack: ExitStack, bench: Bench, directory: Path, _: str) -> Place:
    """The web listener of a supervisor, which answers `/livez` itself."""
    gate = Gate(stack, directory, "kafka", [start_stand_in(stack, directory)], {}).wait()
    return Place(gate.log.rpartition("admin on http://")[2].split()[0])


@contextmanager
def _kafka_client(address: str) -> Iterator[Ask]:
    with ExitStack() as stack:
        connection = connect(stack, address)
        yield lambda: kafka_bytes.answer(connection)


@contextmanager
def _gzip_client(address: str) -> Iterator[Ask]:
    """A client that sends small gzip batches; the request behind each shows when it has been inspected."""
    request = kafka_bytes.produce_packed("v", TINY * 10, 10, "gzip") + kafka_bytes.API_VERSIONS_V0
    with ExitStack() as stack:
        connection = connect(stack, address)
        yield lambda: kafka_bytes.answer(connection, request)


@contextmanager
def _grpc_client(address: str) -> Iterator[Ask]:
    with grpc.insecure_channel(address) as channel:
        call: Any = channel.unary_unary(_HEALTH)
        yield lambda: call(b"", timeout=60)


@contextmanager
def _web_client(address: str) -> Iterator[Ask]:
    """A client that connects for each request, as probes do."""

    def ask() -> None:
        connection = http.client.HTTPConnection(address, timeout=60)
        connection.request("GET", "/livez")
        if connection.getresponse().status != http.client.OK:
            raise RuntimeError("the web listener does not answer")
        connection.close()

    yield ask


_CLIENTS = {_kafka: _kafka_client, _inspecting: _gzip_client, _grpc: _grpc_client, _web: _web_client}
Start = Callable[[ExitStack, Bench, Path, str], Place]


def _measure(
    attack: str, start: Start, clients: int, bench: Bench, arm: str, quick: bool
) -> dict[str, float]:
    pings = _PINGS // 5 if quick else _PINGS
    with ExitStack() as stack:
        directory = Path(tempfile.mkdtemp(dir=bench.directory, prefix=f"{attack}-"))
        place = start(stack, bench, directory, arm)
        with _CLIENTS[start](place.address) as ask:
            times_ms(ask, pings // 5)
            before = times_ms(ask, pings)
        attacker = start_module(stack, directory, "attacks", attack, place.address, str(clients))
        attacker.wait_for("standing", _READY_S)
        time.sleep(_ATTACK_S)
        used_s = attacker.cpu_seconds()
        with _CLIENTS[start](place.address) as ask:
            during, work = _meanwhile(ask, pings, place.serving)
        used_s = attacker.cpu_seconds() - used_s
    p99_before, p99_during = percentile(before, 0.99), percentile(during, 0.99)
    values = {"p50_before_ms": percentile(before, 0.5), "p50_during_ms": percentile(during, 0.5)}
    values |= {"p99_before_ms": p99_before, "p99_during_ms": p99_during}
    values |= {"p99_more_ms": p99_during - p99_before, "attacker_cpu_s": used_s}
    return values | ({"gate_work_p99_ms": percentile(work, 0.99)} if place.serving is not None else {})


def _meanwhile(ask: Ask, pings: int, serving: int | None) -> tuple[list[float], list[float]]:
    """Times of round trips, and for each the CPU time that the gate's loop took meanwhile, all in ms."""
    if serving is None:
        return times_ms(ask, pings), []
    work = []

    def asked() -> None:
        began = procfs.thread_cpu_ns(serving)
        ask()
        work.append((procfs.thread_cpu_ns(serving) - began) / 1e6)

    return times_ms(asked, pings), work


def _scenario(attack: str, summary: str, clients: int, start: Start = _kafka) -> Scenario:
    def measure(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
        return _measure(attack, start, clients, bench, arm, quick)

    arms = (SLUICEGATE,) if start in {_web, _inspecting} else (DIRECT, SLUICEGATE)
    return Scenario(f"beside-{attack}", summary, arms, measure, rounds=1, cold_round=False)


SCENARIOS = (
    _scenario("pipelining", "p99 beside 100 clients that pipeline small requests and do not read", 100),
    _scenario("unread", "p99 beside 100 clients that ask for 1 GiB each and do not read", 100),
    _scenario("tiny-records", "p99 beside 5 clients that send 12 MiB of the smallest records each time", 5),
    _scenario("slow", "p99 beside 2,000 clients, half idle, half in the middle of a request", 2000),
    _scenario("idle", "p99 beside 9,000 clients that asked once and are idle", 9000),
    _scenario("silent", "p99 beside 2,000 clients that have said nothing", 2000),
    _scenario("dribbling", "p99 beside 100 clients that send a byte each 0.1 s", 100),
    _scenario(
        "inspection", "p99 of gzip batches beside 4 clients that send 50 M headers in 9 kB", 4, _inspecting
    ),
    _scenario("churning", "p99 beside 4 threads that connect, ask and hang up", 4),
    _scenario(
        "window-updates", "p99 beside 10 HTTP/2 clients that send WINDOW_UPDATE without end", 10, _grpc
    ),
    _scenario("open-streams", "p99 beside 10 HTTP/2 clients that open streams and never end one", 10, _grpc),
    _scenario("half-heads", "p99 of the web listener beside 1,000 heads without an end", 1000, _web),
)
