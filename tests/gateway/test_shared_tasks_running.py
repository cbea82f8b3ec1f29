"""One process of a fleet asks Prometheus for all, and another goes on when it is killed."""

import os
import signal
import socket
from collections import deque
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import psutil
import pytest
from benchmarks.harness.redis import RedisServer, why_no_redis
from tests.features.storage_quota.conftest import PrometheusDouble
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.gateway.test_several_workers import Clients, metrics
from tests.real.needs import need
from tests.waiting import LONG_S, until

RECENT = 8
"""Queries that tell who asks now: four readings."""


class Fleet:
    """Processes that share limits, with one client at each, and who of them asks Prometheus."""

    def __init__(self, prometheus: PrometheusDouble, stack: ExitStack) -> None:
        self.gateways: list[Gateway] = []
        self.clients: dict[int, socket.socket] = {}
        """By process."""
        self.recent = deque[int](maxlen=RECENT)
        self._prometheus = prometheus
        self._stack = stack
        prometheus.on_query = self._asked

    def start(self, directory: Path, upstream: int, *, workers: int, more: str = "") -> None:
        """Start a gateway and connect a client to each of its workers."""
        directory.mkdir()
        gateway = Gateway(directory, upstream, closed_port())
        gateway.workers, gateway.more = workers, more
        gateway.write("100")
        storage = (
            f'storage: {{source: prometheus, url: "{self._prometheus.url}/prometheus", interval: 250ms, '
            "capacity_query: all, consumed_query: used}\n"
        )
        text = gateway.path.read_text().replace("    max_hold: 5s\n", f"    max_hold: 10m\n    {storage}")
        text = text.replace("{max_message_size", "{storage_hard_consumed_bytes: 90, max_message_size")
        gateway.path.write_text(text)
        self.gateways.append(gateway)
        gateway.start()
        assert gateway.ready.startswith("sluicegate ready")
        clients = Clients(gateway, self._stack)
        clients.spread(1)
        for pid, (client,) in clients.by_worker.items():
            self.clients[pid] = client

    def use(self, used: int) -> None:
        """So many bytes of 100 are in use."""
        labels = {"instance": "node", "mountpoint": "/data"}
        self._prometheus.series = {"all": [(labels, "100")], "used": [(labels, str(used))]}

    def values(self, metric: str) -> list[float]:
        """At each gateway; of several workers the largest."""
        return [value for gateway in self.gateways for value in metrics(gateway, metric).values()]

    def leader(self, *others: int) -> int:
        """The process that asks, once only one does, which is none of some."""
        until(lambda: len(self.recent) == RECENT and len(set(self.recent)) == 1)
        until(lambda: len(set(self.recent)) == 1 and self.recent[0] not in others)
        return self.recent[0]

    def _asked(self, port: int) -> None:
        pids = {
            each.pid: list[socket.socket]() for gateway in self.gateways for each in gateway.all_workers()
        }
        for pid in pids:
            try:
                connections = psutil.Process(pid).net_connections("tcp")
            except psutil.Error:  # it has been killed
                continue
            if any(each.laddr.port == port for each in connections):
                self.recent.append(pid)


@pytest.fixture
def fleet(prometheus_double: PrometheusDouble) -> Iterator[Fleet]:
    with ExitStack() as stack:
        fleet = Fleet(prometheus_double, stack)
        yield fleet
        for gateway in fleet.gateways:
            gateway.stop()


@pytest.fixture
def prometheus_double() -> Iterator[PrometheusDouble]:
    double = PrometheusDouble()
    yield double
    double.close()


@pytest.fixture
def two_workers(fleet: Fleet, tmp_path: Path) -> Iterator[Fleet]:
    fleet.use(10)
    with echoing() as upstream:
        fleet.start(tmp_path / "one", upstream, workers=2)
        yield fleet


@pytest.fixture
def two_gateways(fleet: Fleet, tmp_path: Path) -> Iterator[Fleet]:
    need(why_no_redis())
    fleet.use(10)
    with RedisServer(tmp_path / "redis") as server, echoing() as upstream:
        for name in ("one", "two"):
            more = f"budgets: {{url: '{server.url}', gateway: {name}}}\n"
            fleet.start(tmp_path / name, upstream, workers=1, more=more)
        yield fleet


@pytest.mark.parametrize("kind", ["two_workers", "two_gateways"])
def test_one_asks_and_another_takes_over(kind: str, request: pytest.FixtureRequest) -> None:
    fleet: Fleet = request.getfixturevalue(kind)
    for client in fleet.clients.values():
        client.sendall(b"publish t 1\n")
        assert client.recv(100) == b"publish t 1\n"
    leader = fleet.leader()
    until(lambda: sum(fleet.values("sluicegate_task_leads")) == 1)

    fleet.use(95)
    until(lambda: set(fleet.values("sluicegate_quota_factor")) == {0})
    os.kill(leader, signal.SIGKILL)
    [client] = [client for pid, client in fleet.clients.items() if pid != leader]
    client.sendall(b"publish t 1\n")
    fleet.leader(leader)
    until(lambda: sum(fleet.values("sluicegate_task_leads")) == 1)
    client.setblocking(False)
    with pytest.raises(BlockingIOError):
        client.recv(100)
    client.settimeout(LONG_S)
    fleet.use(10)
    assert client.recv(100) == b"publish t 1\n"
