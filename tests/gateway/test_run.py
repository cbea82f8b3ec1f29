"""`sluicegate run` as a process: readiness, reload, restart of workers, drain."""

import re
import signal
import socket
import ssl
import sys
from collections.abc import Iterator
from datetime import timedelta
from pathlib import Path
from time import monotonic

import pytest
from tests.gateway.certificates import Authority
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.waiting import LONG_S, until

from sluicegate.decisions.compaction import compact
from sluicegate.decisions.reading import read_decisions
from sluicegate.decisions.spool import parquet_files, spools
from sluicegate.model import Level
from sluicegate.processes.supervisor import _COMPACTION_S
from sluicegate.store import SqliteStore

_UNREAD = """
import os, sys
reading, writing = os.pipe()
os.close(reading)
os.dup2(writing, 1)
os.execv(sys.argv[1], sys.argv[1:])
"""


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    """The port of a broker that echoes."""
    with echoing() as port:
        yield port


@pytest.fixture(scope="module")
def running(upstream: int, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path_factory.mktemp("running"), upstream, closed_port())
    gateway.start()
    yield gateway
    gateway.stop()


@pytest.fixture
def fresh(upstream: int, tmp_path: Path) -> Iterator[Gateway]:
    gateway = Gateway(tmp_path, upstream, closed_port())
    gateway.start()
    yield gateway
    gateway.stop()


def test_the_decision_log_is_parquet_after_the_gateway_ends(fresh: Gateway) -> None:
    assert fresh.refused(101)
    decisions = fresh.directory / "decisions"
    until(lambda: spools(decisions))
    assert parquet_files(decisions) == []
    began = monotonic()
    fresh.process.send_signal(signal.SIGTERM)
    assert fresh.process.wait(LONG_S) == 0
    for left in spools(decisions):  # the process that compacts has a low priority
        assert monotonic() - began > _COMPACTION_S
        compact(left)
    assert spools(decisions) == []
    assert read_decisions(decisions).column("action").to_pylist().count("reject") == 1
    assert len(parquet_files(decisions)) == 1


def test_one_line_says_that_clients_are_accepted(running: Gateway) -> None:
    late = r"( \(broker .* no answer yet\))?"
    ready = f"sluicegate ready: b1 on 127.0.0.1:{running.port}{late}; admin on http://127.0.0.1:"
    assert re.match(ready, running.ready)
    assert running.get("/livez") == (200, "ok\n")
    until(lambda: running.get("/readyz") == (200, "ok\n"))  # a worker that stands still is not ready
    assert 'sluicegate_worker_up{broker="b1"} 1.0' in running.get("/metrics")[1]


@pytest.mark.seed("S1-023", "S1-024")
def test_changed_file_reaches_the_worker_and_a_broken_one_changes_nothing(
    running: Gateway,
) -> None:
    running.write("200")
    until(lambda: not running.refused(200))
    running.write("-1")
    until(lambda: "sluicegate_config_last_reload_successful 0.0" in running.get("/metrics")[1])
    assert not running.refused(200)
    assert running.refused(201)
    assert "the last good policies stay in force" in running.errors.read_text()
    running.write("100")
    until(lambda: running.refused(200))
    until(lambda: "sluicegate_config_last_reload_successful 1.0" in running.get("/metrics")[1])
    running.process.send_signal(signal.SIGHUP)
    until(lambda: "reading the configuration again" in running.errors.read_text())


@pytest.mark.parametrize("number", [signal.SIGHUP, signal.SIGUSR2, signal.SIGINT])
def test_a_signal_that_the_supervisor_obeys_ends_no_worker(running: Gateway, number: signal.Signals) -> None:
    """A closed terminal, `pkill -HUP -f sluicegate` and Ctrl-C send it to all processes."""
    worker = until(running.worker)
    assert worker is not None
    with socket.create_connection(("127.0.0.1", running.port), timeout=LONG_S) as client:
        for _ in range(2):
            client.sendall(b"here\n")
            assert client.recv(100) == b"here\n"
            worker.send_signal(number)
    assert running.worker() == worker


def test_a_signal_during_the_start_does_not_end_the_gateway(upstream: int, tmp_path: Path) -> None:
    gateway = Gateway(tmp_path, upstream, closed_port())
    plugins = "[tests.gateway.echo_plugin, tests.gateway.signalling_plugin]"
    gateway.path.write_text(gateway.path.read_text().replace("[tests.gateway.echo_plugin]", plugins))
    gateway.start()
    try:
        assert gateway.ready.startswith("sluicegate ready: b1"), gateway.errors.read_text()
        assert gateway.process.poll() is None
        assert "worker ended" not in gateway.errors.read_text()
    finally:
        gateway.stop()


def test_change_of_the_store_by_another_process_reaches_the_worker(running: Gateway) -> None:
    store = SqliteStore(running.directory / "policies.db")
    store.set(Level.TOPIC, "t", "max_message_size", 10, "test")
    until(lambda: running.refused(11))
    store.unset(Level.TOPIC, "t", "max_message_size", "test")
    until(lambda: not running.refused(11))
    store.close()


def test_killed_worker_is_started_again_with_the_policies_in_force(running: Gateway) -> None:
    worker = running.worker()
    assert worker is not None
    worker.kill()

    def another() -> bool:
        found = running.worker()
        return found is not None and found.pid != worker.pid

    until(another)  # that none is ready meanwhile may be over before it is looked at
    until(lambda: running.get("/readyz")[0] == 200)
    assert running.refused(101)
    restarts = re.search(r'sluicegate_worker_restarts_total\{broker="b1"\} (\S+)', running.get("/metrics")[1])
    assert restarts is not None
    assert float(restarts[1]) >= 1
    assert "worker ended, starting it again" in running.errors.read_text()


def test_sigterm_lets_a_held_request_finish(fresh: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", fresh.port), timeout=LONG_S) as client:
        client.sendall(b"here\n")
        assert client.recv(100) == b"here\n", "it is connected through to the upstream"
        seen, go = fresh.directory / "seen", fresh.directory / "go"
        client.sendall(f"await {seen} {go}\n".encode())
        until(seen.exists)
        fresh.process.terminate()
        until(lambda: fresh.get("/readyz") == (503, "draining\n"))
        go.touch()
        assert client.recv(1000).startswith(b"await ")
        assert client.recv(100) == b""
    assert fresh.process.wait(LONG_S) == 0
    with pytest.raises(ConnectionError):
        socket.create_connection(("127.0.0.1", fresh.port))


def test_worker_outlives_its_supervisor_and_ends_on_sigterm(fresh: Gateway) -> None:
    worker = fresh.worker()
    assert worker is not None
    fresh.process.kill()
    fresh.process.wait()
    until(lambda: "no supervisor any more" in fresh.errors.read_text())
    assert fresh.refused(101)
    assert not fresh.refused(100)
    worker.terminate()
    worker.wait(LONG_S)


@pytest.mark.parametrize(
    "through",
    [("sh", "-c", 'exec "$@" > /dev/full', "sh"), (sys.executable, "-c", _UNREAD)],
    ids=["full", "unread"],
)
def test_a_gateway_serves_although_its_line_cannot_be_printed(
    upstream: int, tmp_path: Path, through: tuple[str, ...]
) -> None:
    gateway = Gateway(tmp_path, upstream, closed_port())
    gateway.start(through=through)
    try:
        until(lambda: "sluicegate ready: b1 on" in gateway.errors.read_text() or gateway.process.poll())
        assert gateway.refused(101)
        gateway.process.send_signal(signal.SIGTERM)
        assert gateway.process.wait(LONG_S) == 0
    finally:
        gateway.stop()


def test_the_supervisor_may_have_as_many_descriptors_as_its_worker(upstream: int, tmp_path: Path) -> None:
    """Its HTTP listeners take 1,000 connections each, about as many as shells and systemd allow at first."""
    gateway = Gateway(tmp_path, upstream, closed_port())
    gateway.start(through=("sh", "-c", 'ulimit -Sn 256; exec "$@"', "sh"))
    try:
        metrics = gateway.get("/metrics")[1]
    finally:
        gateway.stop()
    found = re.findall(r'^process_max_fds\{.*process="(\w+)"\} (\S+)$', metrics, re.MULTILINE)
    limits = {process: float(count) for process, count in found}
    assert limits["supervisor"] == limits["worker"] > 256


def test_address_in_use_ends_the_command_with_its_reason(upstream: int, tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        gateway = Gateway(tmp_path, upstream, taken.getsockname()[1])
        gateway.start()
        assert gateway.process.wait(LONG_S) == 1
        errors = gateway.errors.read_text()
        assert f"broker 'b1': cannot listen on 127.0.0.1:{gateway.port}" in errors
        assert "or choose another port" in errors
        gateway.stop()


def test_an_expired_certificate_is_logged_and_reloaded_when_it_is_renewed(
    upstream: int, tmp_path: Path
) -> None:
    authority = Authority(tmp_path)
    cert, key = authority.issue("old", "127.0.0.1", shifted_by=-timedelta(days=9))
    gateway = Gateway(tmp_path, upstream, closed_port())
    tls = f"    max_hold: 5s\n    tls: {{client: {{cert: {cert}, key: {key}}}}}\n"
    gateway.path.write_text(gateway.path.read_text().replace("    max_hold: 5s\n", tls))
    gateway.start()
    try:
        assert gateway.ready.startswith("sluicegate ready: b1")
        [warning] = [line for line in gateway.errors.read_text().splitlines() if "expired on" in line]
        assert "WARNING" in warning.upper()
        assert f"{gateway.path}:7:" in warning
        assert cert in warning
        assert "(brokers.0.tls.client.cert)" in warning
        authority.issue("old", "127.0.0.1")
        reloads = 'sluicegate_certificate_reloads_total{broker="b1",section="tls.client"}'
        until(lambda: f"{reloads} 1.0" in gateway.get("/metrics")[1])
        trusted = ssl.create_default_context(cafile=authority.ca)
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S) as client:
            trusted.wrap_socket(client, server_hostname="127.0.0.1").close()
        gateway.process.send_signal(signal.SIGHUP)
        until(lambda: f"{reloads} 2.0" in gateway.get("/metrics")[1])
    finally:
        gateway.stop()
