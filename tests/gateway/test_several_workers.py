"""Several worker processes of one broker behave as one, and fail alone."""

import os
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from time import monotonic

import orjson
import psutil
import pytest
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.gateway.test_take_over import knocking
from tests.waiting import LONG_S, until

from sluicegate.decisions.reading import read_decisions
from sluicegate.net.listening.handover import directory

ALIVE_S = 1.1
"""A little longer than a worker counts as alive that gives no sign."""
Start = Callable[[int], Gateway]


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    """The port of a broker that echoes."""
    with echoing() as port:
        yield port


@pytest.fixture
def start(upstream: int, tmp_path: Path) -> Iterator[Start]:
    """Starts gateways, one after the other, with so many workers each."""
    port, gateways = closed_port(), list[Gateway]()

    def begin(workers: int) -> Gateway:
        gateway = Gateway(tmp_path, upstream, port)
        gateway.errors = tmp_path / f"errors-{len(gateways)}.txt"
        gateway.workers = workers
        gateway.write("100")
        gateways.append(gateway)
        gateway.start(*(["--take-over"] if len(gateways) > 1 else []))
        assert gateway.ready.startswith(f"sluicegate ready: b1 on 127.0.0.1:{port}")
        until(lambda: gateway.get("/readyz?broker=b1")[0] == 200)  # its first probe may be late
        return gateway

    yield begin
    for gateway in gateways:
        gateway.stop()


class Clients:
    """Connected clients, and which worker serves each."""

    def __init__(self, gateway: Gateway, stack: ExitStack) -> None:
        self._gateway = gateway
        self._stack = stack
        self.by_worker: dict[int, list[socket.socket]] = {each.pid: [] for each in gateway.all_workers()}

    def connect(self) -> int:
        """Connect a client, and return the process that serves it."""
        client = socket.create_connection(("127.0.0.1", self._gateway.port), timeout=LONG_S)
        self._stack.enter_context(client)
        assert says(client)
        pid = server_of(client, self.by_worker)
        self.by_worker[pid].append(client)
        return pid

    def spread(self, each: int) -> None:
        """Return once each worker has so many clients."""
        until(lambda: self._are_enough(each), "each worker has its clients")

    def _are_enough(self, each: int) -> bool:
        """Connect one more if a worker has too few, as one that has stood still for a second gets none."""
        while min(len(served) for served in self.by_worker.values()) < each:
            served = self.by_worker[self.connect()]
            if len(served) > each:
                served.pop().close()
                return False
        return True


def says(client: socket.socket) -> bool:
    """Whether a client is served."""
    client.sendall(b"here\n")
    return client.recv(100) == b"here\n"


def server_of(client: socket.socket, pids: dict[int, list[socket.socket]]) -> int:
    port = client.getsockname()[1]
    (found,) = (
        pid
        for pid in pids
        if any(each.raddr and each.raddr.port == port for each in psutil.Process(pid).net_connections("tcp"))
    )
    return found


@contextmanager
def clients_of_both(gateway: Gateway, each: int = 3) -> Iterator[Clients]:
    """Clients that are spread evenly over two workers."""
    with ExitStack() as stack:
        clients = Clients(gateway, stack)
        clients.spread(each)
        yield clients


def metrics(gateway: Gateway, name: str) -> dict[str, float]:
    lines = (line.rpartition(" ") for line in gateway.get("/metrics")[1].splitlines())
    return {labels: float(value) for labels, _, value in lines if labels.partition("{")[0] == name}


def test_two_workers_are_one_broker_for_all_who_look(start: Start) -> None:
    gateway = start(2)
    with clients_of_both(gateway) as clients:
        for served in clients.by_worker.values():
            served[0].sendall(b"publish t 101\n")
            refusal = served[0].recv(200).decode()
            assert refusal.startswith("refused")
        reported = 'sluicegate_connections{broker="b1"}'
        until(lambda: metrics(gateway, "sluicegate_connections") == {reported: 6})
        name = "policy_violation_total"
        until(lambda: sum(metrics(gateway, name).values()) == 2)
        assert metrics(gateway, "sluicegate_worker_up") == {
            f'sluicegate_worker_up{{broker="b1",worker="{index}"}}': 1 for index in range(2)
        }
        status, body = gateway.get("/readyz?broker=b1")
        assert (status, body) == (200, "ok\n")
    assert "worker=1" in gateway.errors.read_text()
    gateway.process.terminate()
    assert gateway.process.wait(LONG_S) == 0
    rows = read_decisions(gateway.directory / "decisions").to_pylist()
    assert {row["worker"] for row in rows if row["action"] == "reject"} == {0, 1}
    assert [left.name for left in directory(gateway.directory).iterdir()] == ["lock"]


def test_the_admin_api_tells_of_both_workers_together(start: Start) -> None:
    gateway = start(2)
    with clients_of_both(gateway, each=1) as clients:
        ids = []
        for (client,) in clients.by_worker.values():
            client.sendall(b"publish t 7\n")
            assert client.recv(100) == b"publish t 7\n"
            client.sendall(b"publish t 101\n")
            ids.append(client.recv(200).decode().split()[1])
        until(lambda: all(gateway.get(f"/api/v1/decisions/{each}")[0] == 200 for each in ids))

        def topic() -> tuple[int, ...]:
            topics = orjson.loads(gateway.get("/api/v1/topics")[1])["topics"]
            counts = ("published_messages", "refused", "producers")
            return tuple(topics[0][name] for name in counts) if topics else ()

        until(lambda: topic() == (2, 2, 2))


def test_a_worker_that_is_killed_takes_only_its_own_clients(start: Start) -> None:
    gateway = start(2)
    with clients_of_both(gateway) as clients, knocking(gateway.port) as knocked:
        (victim, lost), (_, kept) = clients.by_worker.items()
        name = "sluicegate_connections_accepted_total"
        until(lambda: sum(metrics(gateway, name).values()) >= 6)
        before = sum(metrics(gateway, name).values())
        os.kill(victim, signal.SIGKILL)
        assert all(client.recv(10) == b"" for client in lost)
        assert all(says(client) for client in kept)
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S) as client:
            assert says(client)
        until(lambda: gateway.get("/readyz")[0] == 200 and len(gateway.all_workers()) == 2)
        assert all(says(client) for client in kept)
        assert sum(metrics(gateway, name).values()) >= before
    assert knocked.refused == []


def test_clients_of_a_stopped_worker_wait_and_new_ones_go_to_the_other(start: Start) -> None:
    gateway = start(2)
    with clients_of_both(gateway) as clients:
        (stopped, waiting), (other, _) = clients.by_worker.items()
        os.kill(stopped, signal.SIGSTOP)
        try:
            until(lambda: psutil.Process(stopped).status() == psutil.STATUS_STOPPED)
            stopped_s = monotonic()
            until(lambda: monotonic() > stopped_s + ALIVE_S, "until then it may still be chosen")
            assert {clients.connect() for _ in range(4)} == {other}
        finally:
            os.kill(stopped, signal.SIGCONT)
        assert all(says(client) for client in waiting)


@pytest.mark.parametrize(("before", "after"), [(2, 2), (1, 2), (2, 1)])
def test_a_gateway_takes_over_whatever_its_number_of_workers(start: Start, before: int, after: int) -> None:
    gateway = start(before)
    with knocking(gateway.port) as knocked:
        assert len(gateway.all_workers()) == before
        successor = start(after)
        assert gateway.process.wait(LONG_S) == 0
        assert len(successor.all_workers()) == after
        assert successor.refused(101)
    assert knocked.refused == []


def test_workers_without_a_supervisor_go_on_until_the_next_gateway(start: Start) -> None:
    gateway = start(2)
    with clients_of_both(gateway) as clients, knocking(gateway.port) as knocked:
        orphans = gateway.all_workers()
        gateway.process.kill()
        gateway.process.wait()
        assert all(says(client) for served in clients.by_worker.values() for client in served)
        successor = start(2)
        psutil.wait_procs(orphans, LONG_S)
        assert not any(orphan.is_running() for orphan in orphans)
        assert successor.refused(101)
    assert knocked.refused == []


def test_what_one_worker_tells_reaches_the_others(start: Start) -> None:
    gateway = start(2)
    with clients_of_both(gateway) as clients:
        (_, first), (_, second) = clients.by_worker.items()
        first[0].sendall(b"tell news\n")
        assert first[0].recv(10) == b"told\n"

        def has_heard() -> bool:
            second[0].sendall(b"heard\n")
            answer: list[str] = orjson.loads(second[0].recv(100))
            return answer == ["news"]

        until(has_heard)


def test_one_limit_holds_over_both_workers(start: Start, monkeypatch: pytest.MonkeyPatch) -> None:
    """A client's time contains the gateway's: no speed matters."""
    monkeypatch.setenv("SLUICEGATE__POLICIES__BROKER__MAX_PUBLISH_RATE", "50")
    gateway = start(2)
    with clients_of_both(gateway, each=1) as clients:
        producers = [each for (each,) in clients.by_worker.values()]
        for each in producers:
            each.settimeout(LONG_S)
        began = monotonic()
        for _ in range(60):
            for each in producers:
                each.sendall(b"publish orders 5\n")
        answers = [0, 0]
        for index, each in enumerate(producers):
            with each.makefile("rb") as lines:
                answers[index] = sum(next(lines) == b"publish orders 5\n" for _ in range(60))
        lasted = monotonic() - began
    assert answers == [60, 60]
    assert sum(answers) <= 50 * lasted + 50
