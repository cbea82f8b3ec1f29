"""`sluicegate policies`, `top` and `plugins` with a running gateway, and the API as documents ask it."""

import hashlib
import json
import shutil
import socket
import subprocess
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest
from click.testing import CliRunner, Result
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.waiting import LONG_S, until

from sluicegate.admin import POLICIES
from sluicegate.cli import main
from sluicegate.runtime.plugins import CHOICE

TOKEN = "f00" * 20
DIGEST = hashlib.sha256(TOKEN.encode()).hexdigest()


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    """The port of a broker that echoes."""
    with echoing() as port:
        yield port


@pytest.fixture
def gateway(upstream: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setenv(CHOICE, "")
    gateway = Gateway(tmp_path, upstream, closed_port())
    gateway.plugins += ", examples.hooks.policy_checks"
    gateway.write("100")
    text = gateway.path.read_text()
    callers = f"callers: [{{name: ci, sha256: {DIGEST}, scope: write}}]"
    gateway.path.write_text(text.replace("admin: {port: 0}", f"admin: {{port: 0, {callers}}}"))
    gateway.start()
    yield gateway
    gateway.stop()


def sluicegate(gateway: Gateway, *arguments: str) -> Result:
    return CliRunner().invoke(main, [*arguments, "-c", str(gateway.path)], catch_exceptions=False)


def test_a_change_by_command_is_in_force_when_the_command_ends(gateway: Gateway) -> None:
    assert gateway.refused(101)
    done = sluicegate(gateway, "policies", "set", "broker", "max_message_size=1000", "--reason", "a test")
    assert (done.exit_code, done.stderr) == (0, "")
    assert done.stdout.startswith("broker  max_message_size  100B of the file -> 1kB\nrevision 1, policies ")
    until(lambda: not gateway.refused(101))  # the worker has the line, and reads it in its next turn
    history = json.loads(sluicegate(gateway, "policies", "history", "--json").stdout)
    assert [(each["number"], each["reason"]) for each in history] == [(1, "a test")]
    assert history[0]["actor"].endswith("(command line)")

    undone = sluicegate(gateway, "policies", "undo", "1")
    assert undone.exit_code == 0
    until(lambda: gateway.refused(101))


def test_connections_are_among_the_limits(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S):
        used = 'sluicegate_limit_used{broker="b1",policy="max_connections",topic=""} 1.0'
        until(lambda: used in gateway.get("/metrics")[1])
    metrics = gateway.get("/metrics")[1]
    assert 'sluicegate_limit{broker="b1",level="default",policy="max_connections",topic=""} ' in metrics
    gateway.path.write_text(gateway.path.read_text().replace("max_hold: 5s", "max_connections: 70"))
    gateway.stop()
    gateway.start()
    limit = 'sluicegate_limit{broker="b1",level="broker",policy="max_connections",topic=""} 70.0'
    until(lambda: limit in gateway.get("/metrics")[1])


def test_a_plan_names_the_topics_that_clients_use(gateway: Gateway) -> None:
    assert not gateway.refused(1)
    plan = ("policies", "set", "topic", "t", "max_publish_rate=5", "--dry-run")
    until(lambda: "of 1 topics in use, 1 would have other policies" in sluicegate(gateway, *plan).stdout)
    assert sluicegate(gateway, "policies", "history").stdout == "no policy was changed yet\n"
    stale = sluicegate(gateway, *plan[:-1], "--if-version", "000000000000")
    assert (stale.exit_code, "somebody else has changed them" in stale.stderr) == (1, True)


def test_a_plan_says_who_would_have_been_refused_in_the_last_hour(gateway: Gateway) -> None:
    for _ in range(5):
        assert not gateway.refused(1)
    plan = ("policies", "set", "topic", "t", "max_publish_rate=1", "--dry-run")
    until(lambda: "minutes would have been held or refused\n" in sluicegate(gateway, *plan).stdout)
    [row] = json.loads(sluicegate(gateway, *plan, "--json").stdout)["last_hour"]["topics"]
    assert (row["broker"], row["topic"], row["limits"]) == ("b1", "t", {"max_publish_rate": "1/s"})
    document = gateway.directory / "policies.yaml"
    document.write_text("policies: {topics: [{name: t, max_publish_rate: 1}]}")
    assert "would have been held or refused" in sluicegate(gateway, "policies", "diff", str(document)).stdout


def test_a_change_of_the_file_is_in_the_history(gateway: Gateway) -> None:
    gateway.path.write_text(gateway.path.read_text().replace("max_message_size: 100", "max_message_size: 7"))
    until(lambda: "gateway.yaml on " in sluicegate(gateway, "policies", "history").stdout)
    assert "100B -> 7B" in sluicegate(gateway, "policies", "history").stdout


def test_top_shows_topics_in_a_table_and_as_json(gateway: Gateway) -> None:
    gateway.refused(1)
    top = ("top", "--once", "--interval", "0.2")
    until(lambda: "\nt" in sluicegate(gateway, *top, "--filter", "t").stdout.partition("topics by")[0])
    [row] = json.loads(sluicegate(gateway, *top, "--json").stdout)
    assert (row["topic"], row["published_messages_rate"]) == ("t", 0.0)
    for view in ("principals", "clients", "held", "reasons"):
        assert sluicegate(gateway, *top, "--view", view).exit_code == 0


def test_without_a_gateway_top_says_so(gateway: Gateway) -> None:
    gateway.stop()
    result = sluicegate(gateway, "top", "--once")
    assert (result.exit_code, "no gateway on this host runs with" in result.stderr) == (1, True)


def test_plugins_list_shows_how_long_calls_take(gateway: Gateway) -> None:
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S) as client:
        client.sendall(b"publish private-ann.notes 1\n")
        assert b"is private to User:ann" in client.recv(500)
    timing = ("plugins", "list", "--timing")
    until(lambda: "private_topics" in sluicegate(gateway, *timing).stdout)
    head, *rows = sluicegate(gateway, *timing).stdout.splitlines()
    assert head.split() == ["plugin", "broker", "call", "mean", "longest", "sampled", "faults"]
    found = {row.split()[2]: row.split() for row in rows if row.startswith("examples.hooks.policy_checks ")}
    assert found["private_topics"][-2:] == ["1", "0"]
    assert float(found["sluicegate_policy_checks"][3]) > 0

    gateway.stop()
    result = sluicegate(gateway, *timing)
    assert (result.exit_code, "no gateway on this host runs with" in result.stderr) == (1, True)


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_changes_as_the_document_shows(gateway: Gateway) -> None:
    edit = {"level": "broker", "field": "max_message_size", "value": "1000B"}
    asked = ["curl", "-s", "-X", "PATCH", gateway.admin + POLICIES, "-H", f"Authorization: Bearer {TOKEN}"]
    asked += ["-H", "Content-Type: application/json", "-d", json.dumps({"edits": [edit], "reason": "curl"})]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["changes"][0]["new_text"] == "1kB"
    assert "ci: curl" in sluicegate(gateway, "policies", "history").stdout


def test_no_request_is_lost_and_none_sees_a_mix_while_policies_change(gateway: Gateway) -> None:
    """Two limits change together a hundred times under load; a fifth of the changes is broken."""
    sluicegate(gateway, "policies", "set", "broker", "max_message_size=150")
    until(lambda: not gateway.refused(120))
    ending = threading.Event()
    answers: list[str] = []

    def publish() -> None:
        with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S) as client:
            while not ending.is_set():
                client.sendall(b"publish t 120\n")
                answers.append(client.recv(300).decode())

    clients = [threading.Thread(target=publish) for _ in range(4)]
    for client in clients:
        client.start()
    for number in range(100):
        size = 150 + number
        word = f"max_message_size={size}x" if number % 5 == 0 else f"max_message_size={size}"
        result = sluicegate(gateway, "policies", "set", "broker", word, "ceiling.max_message_size=1000")
        assert result.exit_code == (1 if number % 5 == 0 else 0)
    ending.set()
    for client in clients:
        client.join()
    assert len(answers) > 100
    assert set(answers) == {"publish t 120\n"}, "each limit lets it pass"
    assert sluicegate(gateway, "policies", "get", "broker", "max_message_size").stdout.count("249B") == 1
