"""A worker that does not respond is named, ended and started again."""

import re
import signal
import socket
from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.waiting import LONG_S, until


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """Not started yet."""
    with echoing() as upstream:
        gateway = Gateway(tmp_path, upstream, closed_port())
        yield gateway
        gateway.stop()


def serve(gateway: Gateway, more: str) -> None:
    gateway.more = more
    gateway.write("100")
    gateway.start()
    assert gateway.ready, gateway.errors.read_text()


def replaced(gateway: Gateway) -> str:
    """Wait until another worker serves; the line about the one before."""
    until(lambda: "worker ended, starting it again" in gateway.errors.read_text(), "it is ended")
    until(lambda: gateway.get("/readyz")[0] == 200, "another one serves")
    assert gateway.refused(101)
    assert 'sluicegate_worker_restarts_total{broker="b1"}' in gateway.get("/metrics")[1]
    assert "reason='it did not respond'" in gateway.errors.read_text()
    lines = gateway.errors.read_text().splitlines()
    *_, last = (line for line in lines if "worker does not respond, ending it" in line)
    return last


def test_a_worker_in_a_plugin_that_never_returns_is_replaced(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    plugins = '["tests.gateway.echo_plugin", "tests.gateway.stuck_plugin"]'
    monkeypatch.setenv("SLUICEGATE__PLUGINS", plugins)
    serve(gateway, "worker_timeout: 3s\n")
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S) as client:
        client.sendall(b"publish stuck 1\n")
        line = replaced(gateway)
        assert client.recv(100) == b""
    assert re.search(r"stuck_plugin.py:\d+ never, ", line)
    assert "broker='b1'" in line


def test_a_stopped_worker_is_replaced(gateway: Gateway) -> None:
    serve(gateway, "worker_timeout: 3s\n")
    worker = gateway.worker()
    assert worker is not None
    worker.send_signal(signal.SIGSTOP)
    line = replaced(gateway)
    assert f"pid={worker.pid} stack='not known: it wrote none, as a stopped process'" in line


def test_a_worker_that_does_not_respond_is_not_ready(gateway: Gateway) -> None:
    serve(gateway, "worker_timeout: 0\n")
    worker = gateway.worker()
    assert worker is not None
    worker.send_signal(signal.SIGSTOP)
    until(lambda: gateway.get("/readyz") == (503, "worker of broker 'b1' does not respond\n"))
    assert 'sluicegate_worker_up{broker="b1"} 0.0' in gateway.get("/metrics")[1]
    worker.send_signal(signal.SIGCONT)
    until(lambda: gateway.get("/readyz")[0] == 200)
    assert gateway.worker() == worker


def test_the_watchdog_of_systemd_is_notified(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as manager:
        manager.settimeout(LONG_S)
        manager.bind(str(gateway.directory / "notify"))
        monkeypatch.setenv("NOTIFY_SOCKET", str(gateway.directory / "notify"))
        monkeypatch.setenv("WATCHDOG_USEC", "100000")
        serve(gateway, "")
        states: list[bytes] = []
        while states.count(b"WATCHDOG=1") < 2 or not any(state.startswith(b"READY=1") for state in states):
            states.append(manager.recv(100))
