"""One gateway takes the place of another, or of its orphaned workers, and no client is refused."""

import os
import re
import signal
import socket
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread

import psutil
import pytest
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.waiting import LONG_S, until

from sluicegate.net.listening.handover import directory


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    """The port of a broker that echoes."""
    with echoing() as port:
        yield port


@pytest.fixture
def gateway(upstream: int, tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path, upstream, closed_port())
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture
def successor(gateway: Gateway) -> Iterator[Gateway]:
    """Not started yet; of the same directory, with a log of its own."""
    successor = Gateway(gateway.directory, gateway.upstream, gateway.port)
    successor.errors = gateway.directory / "errors-of-successor.txt"
    yield successor
    if hasattr(successor, "process"):
        successor.stop()


class Knocking:
    """Connects all the time, and counts."""

    def __init__(self) -> None:
        self.connected = 0
        self.refused: list[str] = []


@contextmanager
def knocking(port: int) -> Iterator[Knocking]:
    found, over = Knocking(), Event()

    def knock() -> None:
        while not over.wait(0.002):
            try:
                socket.create_connection(("127.0.0.1", port), timeout=LONG_S).close()
                found.connected += 1
            except OSError as error:
                found.refused.append(str(error))

    thread = Thread(target=knock)
    thread.start()
    try:
        until(lambda: found.connected)
        yield found
    finally:
        over.set()
        thread.join()


def test_a_successor_takes_over_and_no_client_is_refused(gateway: Gateway, successor: Gateway) -> None:
    worker = gateway.worker()
    assert worker is not None
    with (
        knocking(gateway.port) as knocked,
        socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S) as client,
    ):
        client.sendall(b"here\n")
        assert client.recv(100) == b"here\n"
        successor.write("200")
        successor.start("--take-over")
        assert successor.ready.startswith(f"sluicegate ready: b1 on 127.0.0.1:{gateway.port}")
        assert successor.admin == gateway.admin, "though any port would have done"
        assert client.recv(100) == b"", "it has nothing under way, so it is told to go"
        assert gateway.process.wait(LONG_S) == 0
        assert not successor.refused(150)
        until(lambda: successor.get("/readyz") == (200, "ok\n"))
    assert knocked.refused == []
    assert not worker.is_running()
    successor.process.terminate()
    assert successor.process.wait(LONG_S) == 0
    assert [left.name for left in directory(gateway.directory).iterdir()] == ["lock"]


def test_a_successor_that_cannot_serve_changes_nothing(gateway: Gateway, successor: Gateway) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        entry = gateway.path.read_text().split("brokers:\n")[1].split("plugins:")[0]
        second = entry.replace("b1", "b2").replace(str(gateway.port), str(taken.getsockname()[1]))
        both = gateway.path.read_text().replace("plugins:", f"{second}plugins:")
        successor.path = gateway.directory / "both.yaml"
        successor.path.write_text(both)
        with knocking(gateway.port) as knocked:
            successor.start("--take-over")
            assert successor.process.wait(LONG_S) == 1
            assert "cannot listen" in successor.errors.read_text()
            until(lambda: "the successor ended before it served" in gateway.errors.read_text())
            assert gateway.refused(101)
    assert knocked.refused == []
    until(lambda: gateway.get("/readyz") == (200, "ok\n"))


def test_sigusr2_starts_the_successor(gateway: Gateway) -> None:
    with knocking(gateway.port) as knocked:
        gateway.process.send_signal(signal.SIGUSR2)
        assert gateway.process.wait(LONG_S) == 0
        found = re.search(r"another gateway serves from now on.*pid=(\d+)", gateway.errors.read_text())
        assert found is not None
        successor = psutil.Process(int(found[1]))
        assert successor.cmdline()[-1] == "--take-over"
        assert gateway.refused(101)
    assert knocked.refused == []
    processes = [successor, *successor.children()]
    successor.terminate()
    _, alive = psutil.wait_procs(processes, LONG_S)
    assert not alive


def test_a_worker_that_is_killed_or_drained_is_replaced_and_no_client_is_refused(gateway: Gateway) -> None:
    with knocking(gateway.port) as knocked:
        for number in (signal.SIGKILL, signal.SIGTERM):
            worker = gateway.worker()
            assert worker is not None
            os.kill(worker.pid, number)
            worker.wait(LONG_S)
            until(lambda: gateway.get("/readyz")[0] == 200)
            assert gateway.refused(101)
    assert knocked.refused == []


def test_the_next_gateway_takes_over_from_a_worker_without_supervisor(
    gateway: Gateway, successor: Gateway
) -> None:
    orphan = gateway.worker()
    assert orphan is not None
    with knocking(gateway.port) as knocked, ExitStack() as stack:
        lines = len(orphan.net_connections("unix"))
        gateway.process.kill()
        gateway.process.wait()
        until(lambda: len(orphan.net_connections("unix")) < lines, "it has given up its line")
        for _ in range(10):  # descriptors that were the supervisor's are clients' now
            client = stack.enter_context(socket.create_connection(("127.0.0.1", gateway.port)))
            client.sendall(b"here\n")
            assert client.recv(10) == b"here\n"
        successor.start()
        assert successor.ready.startswith("sluicegate ready")
        orphan.wait(LONG_S)
        assert successor.refused(101)
    assert knocked.refused == []


def test_a_worker_without_supervisor_ends_after_a_while(upstream: int, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, upstream, closed_port())
    gateway.more = "orphan_timeout: 100ms\n"
    gateway.write("100")
    gateway.start()
    try:
        orphan = gateway.worker()
        assert orphan is not None
        gateway.process.kill()
        gateway.process.wait()
        orphan.wait(LONG_S)
        socket.create_server(("127.0.0.1", gateway.port)).close()
    finally:
        gateway.stop()


def test_sockets_passed_by_systemd_are_used(upstream: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as listening:
        gateway = Gateway(tmp_path, upstream, listening.getsockname()[1])
        gateway.activate_with(listening)
        try:
            assert gateway.ready.startswith("sluicegate ready")
            assert gateway.refused(101)
            gateway.process.terminate()
            assert gateway.process.wait(LONG_S) == 0
            socket.create_connection(listening.getsockname()).close()  # it waits for the next one
        finally:
            gateway.stop()
