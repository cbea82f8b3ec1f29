"""`sluicegate run` in front of a broker that is absent, starts, hangs and stops: logs and metrics."""

import re
import socket
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Thread

import pytest
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway
from tests.waiting import LONG_S, until


@contextmanager
def broker(port: int) -> Iterator[None]:
    """A broker that echoes; at the end its clients are cut off too."""
    clients: list[socket.socket] = []

    def serve(client: socket.socket) -> None:
        try:
            while data := client.recv(65536):
                client.sendall(data)
        except OSError:
            return
        finally:
            client.close()

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            clients.append(client)
            Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", port)) as server:
        thread = Thread(target=accept)
        thread.start()
        try:
            yield
        finally:
            server.shutdown(socket.SHUT_RDWR)
            thread.join()
            for client in clients:
                client.close()


@pytest.fixture
def gateway(tmp_path: Path) -> Iterator[Gateway]:
    """Started in front of a port on which nothing listens."""
    found = Gateway(tmp_path, closed_port(), closed_port())
    found.start()
    yield found
    found.stop()


def is_up(gateway: Gateway, up: float) -> bool:
    return f'sluicegate_broker_up{{broker="b1"}} {up}' in gateway.get("/metrics")[1]


def ask(gateway: Gateway) -> bytes:
    """What a client gets for one line, up to the end of its connection if that comes first.

    :raises ConnectionError: if its connection is reset.
    """
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S) as client:
        client.sendall(b"hello\n")
        return client.recv(100)


def test_an_absent_broker_is_logged_and_served_once_it_is_up(gateway: Gateway) -> None:
    address = f"127.0.0.1:{gateway.upstream}"
    reason = f"{address}: connection refused"
    assert gateway.ready.startswith(
        f"sluicegate ready: b1 on 127.0.0.1:{gateway.port} (broker not reachable: {reason}); admin on http://"
    )
    # A worker that stands still for seconds is not ready, and tells nothing.
    until(lambda: gateway.get("/readyz") == (200, "ok\n"))
    told = rf"ok\nbroker 'b1' is not reachable since \S+: {reason}\n"
    until(lambda: re.fullmatch(told, gateway.get("/readyz?verbose")[1]))
    assert gateway.get("/readyz?broker=b1")[0] == 503
    assert is_up(gateway, 0.0)
    assert [ask(gateway) for _ in range(50)] == [b""] * 50
    log = gateway.errors.read_text()
    assert log.count(f"cannot reach broker at {reason}") == 1
    assert log.count("\n") <= 4, log
    with broker(gateway.upstream):
        until(lambda: is_up(gateway, 1.0))
        assert ask(gateway) == b"hello\n"
        until(lambda: gateway.get("/readyz?broker=b1") == (200, "ok\n"))
        until(lambda: "broker 'b1' is up since" in gateway.get("/readyz?verbose")[1])
        (back,) = (line for line in gateway.errors.read_text().splitlines() if "reachable again" in line)
        assert "clients_turned_away=50" in back
    until(lambda: ask(gateway) == b"")
    until(lambda: is_up(gateway, 0.0))
    assert gateway.errors.read_text().count(f"cannot reach broker at {reason}") == 2
    assert "Traceback" not in gateway.errors.read_text()


def test_a_broker_that_hangs_is_logged(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as silent:
        gateway = Gateway(tmp_path, silent.getsockname()[1], closed_port())
        gateway.write("100", greeting="are you there?")
        gateway.start()
        try:
            assert "broker not reachable" in gateway.ready
            hangs = "accepts connections and says nothing within 5 s"
            until(lambda: hangs in gateway.get("/readyz?verbose")[1])
            assert is_up(gateway, 0.0)
            assert gateway.errors.read_text().count(hangs) == 1
        finally:
            gateway.stop()
