"""One gateway takes the place of another, or of its orphaned workers, and no client is refused."""

import os
import re
import signal
import socket
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path
from threading import Event, Thread
from time import monotonic

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
    """Does the same all the time, and counts."""

    def __init__(self) -> None:
        self.connected = 0
        self.refused: list[str] = []


@contextmanager
def repeating(attempt: Callable[[], str]) -> Iterator[Knocking]:
    """:param attempt: gives why it failed; empty if it did not."""
    found, over = Knocking(), Event()

    def knock() -> None:
        while not over.wait(0.002):
            try:
                failure = attempt()
            except OSError as error:
                failure = repr(error)
            if failure:
                found.refused.append(failure)
            else:
                found.connected += 1

    thread = Thread(target=knock)
    thread.start()
    try:
        until(lambda: found.connected)
        yield found
    finally:
        over.set()
        thread.join()


def knocking(port: int) -> AbstractContextManager[Knocking]:
    """Connects all the time."""

    def connect() -> str:
        socket.create_connection(("127.0.0.1", port), timeout=LONG_S).close()
        return ""

    return repeating(connect)


def probing(gateway: Gateway) -> AbstractContextManager[Knocking]:
    """Asks all the time whether a gateway is ready.

    One that stands still gives a question a second, and its broker too.
    """

    def probe() -> str:
        began = monotonic()
        try:
            found = gateway.get("/readyz?broker=b1")
        except OSError:
            if monotonic() - began < 1:
                raise
            return ""
        return "" if found == (200, "ok\n") or "no answer yet" in found[1] else str(found)

    return repeating(probe)


def test_a_successor_takes_over_and_no_client_is_refused(gateway: Gateway, successor: Gateway) -> None:
    worker = gateway.worker()
    assert worker is not None
    until(lambda: gateway.get("/readyz?broker=b1")[0] == 200)
    with (
        knocking(gateway.port) as knocked,
        probing(gateway) as probed,
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
        asked = probed.connected
        until(lambda: probed.refused or probed.connected > asked, "the successor is asked, too")
    assert knocked.refused == []
    assert probed.refused == []
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


def test_a_second_gateway_is_refused(gateway: Gateway, successor: Gateway) -> None:
    successor.start()
    assert successor.process.wait(LONG_S) == 1
    assert successor.errors.read_text() == (
        f"error: another gateway (process {gateway.process.pid}) uses state_dir {gateway.directory}: "
        "end it first, or replace it with --take-over\n"
    )
    assert gateway.refused(101)


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
