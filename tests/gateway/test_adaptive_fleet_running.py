"""Processes of a fleet pass a shared adaptive target together, and go on when their leader is killed."""

import os
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, suppress
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Thread
from time import monotonic, sleep

import pytest
from benchmarks.harness.redis import RedisServer, why_no_redis
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.gateway.test_several_workers import Clients, metrics
from tests.real.needs import need
from tests.waiting import until

ADAPTIVE = """\
  broker:
    max_message_size: 100
    adaptive_publish_throttling_enabled: true
    adaptive_publish_throttling_interval_ms: 200
    adaptive_publish_throttling_per_topic_metrics_enabled: true
"""
NATURAL = "pulsar_broker_topic_adaptive_throttle_natural_publish_rate"
REDUCTION = "pulsar_broker_topic_adaptive_throttle_rate_reduction_ratio"
ACTIVE = "pulsar_broker_adaptive_throttle_active_topic_count"
_ROUND_S = 0.01


class Heap:
    """A broker's metrics of its memory."""

    def __init__(self) -> None:
        self.used = 10
        heap = self

        class Answers(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                body = f"used {heap.used}\nmost 100\n".encode()
                self.send_response(200)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *args: object) -> None:
                pass

        self._server = ThreadingHTTPServer(("127.0.0.1", 0), Answers)
        self.url = f"http://127.0.0.1:{self._server.server_port}/metrics"
        Thread(target=self._server.serve_forever, daemon=True).start()

    def close(self) -> None:
        self._server.shutdown()
        self._server.server_close()


class Fleet:
    """Processes that share limits, with one client at each."""

    def __init__(self, heap: Heap, stack: ExitStack) -> None:
        self.gateways: list[Gateway] = []
        self.clients: dict[int, socket.socket] = {}
        self.heap = heap
        self._stack = stack
        self._waiting = set[socket.socket]()

    def start(self, directory: Path, upstream: int, *, workers: int, more: str = "") -> None:
        """Start a gateway and connect a client to each of its workers."""
        directory.mkdir()
        gateway = Gateway(directory, upstream, closed_port())
        gateway.workers, gateway.more = workers, more
        gateway.write("100")
        memory = f"pressure: {{memory: [{{source: metrics, url: '{self.heap.url}', used: used, max: most}}]}}"
        text = gateway.path.read_text().replace("    max_hold: 5s\n", f"    max_hold: 10m\n    {memory}\n")
        text = text.replace("  broker: {max_message_size: 100}\n", ADAPTIVE)
        gateway.path.write_text(text)
        self.gateways.append(gateway)
        gateway.start()
        assert gateway.ready.startswith("sluicegate ready"), gateway.errors.read_text()
        clients = Clients(gateway, self._stack)
        clients.spread(1)
        for pid, (client,) in clients.by_worker.items():
            client.settimeout(0.001)
            self.clients[pid] = client

    def values(self, metric: str) -> list[float]:
        """At each gateway; of several workers the largest."""
        return [value for gateway in self.gateways for value in metrics(gateway, metric).values()]

    def publish(self, *shares: int) -> int:
        """Publish one by one for a second, so many at each client in each round; how many passed."""
        passed, end = 0, monotonic() + 1
        while monotonic() < end:
            for client, share in zip(self.clients.values(), shares, strict=True):
                for _ in range(share):
                    passed += self._publish(client)
            sleep(_ROUND_S)
        return passed

    def _publish(self, client: socket.socket) -> bool:
        """Publish one message unless one waits; whether one has passed."""
        if client not in self._waiting:
            client.sendall(b"publish t 1\n")
            self._waiting.add(client)
        with suppress(TimeoutError):
            assert client.recv(100) == b"publish t 1\n"
            self._waiting.discard(client)
            return True
        return False


@pytest.fixture
def fleet() -> Iterator[Fleet]:
    heap = Heap()
    with ExitStack() as stack:
        fleet = Fleet(heap, stack)
        yield fleet
        for gateway in fleet.gateways:
            gateway.stop()
    heap.close()


@pytest.fixture
def two_workers(fleet: Fleet, tmp_path: Path) -> Iterator[Fleet]:
    with echoing() as upstream:
        fleet.start(tmp_path / "one", upstream, workers=2)
        yield fleet


@pytest.fixture
def two_gateways(fleet: Fleet, tmp_path: Path) -> Iterator[Fleet]:
    need(why_no_redis())
    with RedisServer(tmp_path / "redis") as server, echoing() as upstream:
        for name in ("one", "two"):
            more = f"budgets: {{url: '{server.url}', gateway: {name}}}\n"
            fleet.start(tmp_path / name, upstream, workers=1, more=more)
        yield fleet


@pytest.mark.parametrize("kind", ["two_workers", "two_gateways"])
def test_all_pass_one_target_and_another_leads_on(kind: str, request: pytest.FixtureRequest) -> None:
    fleet: Fleet = request.getfixturevalue(kind)
    until(lambda: fleet.publish(3, 1) and min(fleet.values(NATURAL), default=0) > 10)
    fleet.heap.used = 100
    until(lambda: set(fleet.values(ACTIVE)) == {1})
    until(lambda: fleet.publish(3, 1) and max(fleet.values(REDUCTION)) < 0.15)
    natural = fleet.values(NATURAL)[0]
    assert fleet.values(NATURAL) == pytest.approx([natural] * len(fleet.gateways), abs=0.01)
    began = monotonic()
    passed = sum(fleet.publish(*shares) for shares in ((0, 3), (3, 0), (1, 1)) for _ in range(2))
    target = 0.1 * natural
    assert passed <= target * (monotonic() - began) + target + 2  # with a full bucket, and what was under way

    leader = next(iter(fleet.clients))
    os.kill(leader, signal.SIGKILL)
    del fleet.clients[leader]
    until(lambda: sum(fleet.values("sluicegate_task_leads")) == 1)
    began = monotonic()
    passed = fleet.publish(3)
    assert passed <= target * (monotonic() - began) + target + 2
    assert fleet.values(NATURAL)[-1] == pytest.approx(natural, abs=0.01)
    fleet.heap.used = 10
    until(lambda: fleet.publish(3) and set(fleet.values(ACTIVE)) == {0})
