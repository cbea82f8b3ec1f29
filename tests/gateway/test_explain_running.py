"""`sluicegate explain` asks the gateway that runs with the file, and reads the file if there is none."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator, Mapping
from pathlib import Path
from urllib.parse import quote

import pytest
from click.testing import CliRunner, Result
from tests.gateway.lab import closed_port, module_path
from tests.gateway.running import Gateway, echoing
from tests.output import HOSTILE
from tests.waiting import LONG_S, until

from sluicegate.admin import EFFECTIVE_POLICIES
from sluicegate.admin.running_note import NAME
from sluicegate.cli import main
from sluicegate.model import visible
from sluicegate.runtime.plugins import CHOICE

HEAVY = ("google", "grpc", "httpx", "pluggy", "pyarrow", "pydantic", "rich", "starlette", "uvicorn", "yaml")


@pytest.fixture(scope="module")
def upstream() -> Iterator[int]:
    """The port of a broker that echoes."""
    with echoing() as port:
        yield port


@pytest.fixture
def gateway(upstream: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setenv(CHOICE, "")
    gateway = Gateway(tmp_path, upstream, closed_port())
    gateway.start()
    yield gateway
    gateway.stop()


def explain(gateway: Gateway, *arguments: str) -> Result:
    arguments = ("explain", "-c", str(gateway.path), *arguments)
    return CliRunner().invoke(main, arguments, catch_exceptions=False)


def origin(result: Result) -> str:
    """The line that says where the policies come from."""
    assert result.exit_code == 0, result.output
    return result.stdout.splitlines()[1]


def api(gateway: Gateway, query: str) -> tuple[int, dict[str, object]]:
    status, text = gateway.get(f"{EFFECTIVE_POLICIES}?{query}")
    assert visible(text) == text
    return status, json.loads(text)


def shown_limit(explained: Mapping[str, object]) -> object:
    policies = explained["policies"]
    assert isinstance(policies, dict)
    return policies["max_message_size"]["value"]


def test_the_running_gateway_says_the_same_as_its_file(gateway: Gateway) -> None:
    running, as_json = explain(gateway, "orders"), explain(gateway, "orders", "--json")
    version = json.loads(as_json.stdout)["version"]
    where = f"in force in the running gateway (process {gateway.process.pid}), version {version}"
    assert origin(running) == where
    gateway.process.send_signal(signal.SIGTERM)
    assert gateway.process.wait(LONG_S) == 0
    assert not (gateway.directory / NAME).exists()

    read = explain(gateway, "orders")
    why = "no gateway on this host runs with this file"
    assert origin(read) == f"read from {gateway.path} and its store: {why}"
    assert read.stdout.splitlines()[2:] == running.stdout.splitlines()[2:]
    assert read.stdout.splitlines()[0] == running.stdout.splitlines()[0]
    asked, told = json.loads(as_json.stdout), json.loads(explain(gateway, "orders", "--json").stdout)
    assert asked.pop("origin") == {
        "from": "gateway",
        "process": gateway.process.pid,
        "file_differs": False,
    }
    assert told.pop("origin") == {"from": "file"}
    assert asked.pop("use") == {}, "nobody uses it"
    assert asked == told, "the version, too"


def test_a_file_that_is_not_in_force_is_told_of_and_not_read(gateway: Gateway) -> None:
    gateway.path.write_text(gateway.path.read_text() + "nonsense: [\n")
    result = explain(gateway, "orders")
    assert origin(result).endswith(f", which differs from {gateway.path}")
    assert "is not what the gateway has in force; if it stays so, `sluicegate check " in result.stderr
    assert json.loads(explain(gateway, "orders", "--json").stdout)["origin"]["file_differs"] is True
    before = json.loads(explain(gateway, "orders", "--json").stdout)["version"]
    gateway.write("200")
    until(lambda: json.loads(explain(gateway, "orders", "--json").stdout)["version"] != before)
    result = explain(gateway, "orders")
    assert "200B" in result.stdout
    assert "differs" not in result.output


def test_the_note_of_a_gateway_that_was_killed_misleads_nobody(gateway: Gateway) -> None:
    gateway.stop()
    assert (gateway.directory / NAME).exists()
    assert "no gateway on this host runs with this file" in origin(explain(gateway, "orders"))


def test_a_gateway_that_does_not_answer_is_named(gateway: Gateway, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sluicegate.cli.asking._PATIENCE_S", 0.1)
    gateway.process.send_signal(signal.SIGSTOP)
    why = f"the gateway (process {gateway.process.pid}) does not answer (timed out)"
    assert origin(explain(gateway, "orders")) == f"read from {gateway.path} and its store: {why}"
    gateway.process.send_signal(signal.SIGCONT)


def test_variables_of_this_command_override_the_file_and_not_the_gateway(
    gateway: Gateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("SLUICEGATE__POLICIES__BROKER__MAX_MESSAGE_SIZE", "7")
    result = explain(gateway, "orders")
    assert origin(result).endswith("was started with other SLUICEGATE__ variables than this command")
    assert "7B" in result.stdout


def test_a_successor_is_asked_in_its_turn(upstream: int, tmp_path: Path) -> None:
    gateway, successor = (Gateway(tmp_path, upstream, closed_port()) for _ in range(2))
    gateway.plugins += ", tests.gateway.late_look"
    gateway.write("100")
    successor.port = gateway.port
    successor.errors = tmp_path / "errors-of-successor.txt"
    gateway.start()
    successor.write("100")
    successor.start("--take-over")
    try:
        assert gateway.process.wait(LONG_S) == 0
        assert f"(process {successor.process.pid})" in origin(explain(successor, "orders"))
    finally:
        successor.stop()
        gateway.stop()


def test_a_broker_that_there_is_not_is_told_in_the_same_words(gateway: Gateway) -> None:
    asked = explain(gateway, "orders", "--broker", "x")
    assert asked.exit_code == 2
    assert "unknown broker 'x': expected --broker with one of: b1" in asked.stderr
    gateway.stop()
    assert explain(gateway, "orders", "--broker", "x").stderr == asked.stderr


def test_a_topic_that_looks_like_an_id_needs_no_file(gateway: Gateway) -> None:
    gateway.path.write_text(gateway.path.read_text() + "nonsense: [\n")
    result = explain(gateway, "orders-created")
    assert "explaining it as a topic" in result.stderr
    assert origin(result).startswith("in force in the running gateway")


@pytest.mark.parametrize(
    "topic", [HOSTILE.replace("\ud800", ""), "persistent://t/n/o", "a/../b", "%2e%2e%2f", "a b&broker=x", "ü"]
)
def test_names_reach_the_gateway_whole_and_leave_it_escaped(gateway: Gateway, topic: str) -> None:
    status, answer = api(gateway, f"topic={quote(topic, safe='')}")
    assert (status, answer["topic"]) == (200, topic)
    result = explain(gateway, topic)
    assert origin(result).startswith("in force in the running gateway")
    assert result.stdout.startswith(f"topic {visible(topic)}, namespace ")


@pytest.mark.skipif(shutil.which("curl") is None, reason="curl is not installed")
def test_curl_asks_as_the_document_shows(gateway: Gateway) -> None:
    topic = "persistent://acme/eu/orders"
    asked = ["curl", "-s", "--get", gateway.admin + EFFECTIVE_POLICIES, "--data-urlencode", f"topic={topic}"]
    done = subprocess.run(asked, capture_output=True, text=True, check=True)
    assert json.loads(done.stdout)["topic"] == topic


def test_a_name_that_is_no_text_is_looked_up_in_the_file(gateway: Gateway) -> None:
    assert "cannot be asked for such a name" in origin(explain(gateway, "a\udcff"))


def test_requests_that_cannot_be_answered_are_problems_with_a_remedy(gateway: Gateway) -> None:
    for query, status, kind in (
        ("", 400, "invalid-topic"),
        ("topic=", 400, "invalid-topic"),
        (f"topic={'x' * 4_097}", 400, "invalid-topic"),
        ("topic=a&broker=x", 404, "unknown-broker"),
        ("topic=a&broker=%1b%5b2J", 404, "unknown-broker"),
    ):
        found, answer = api(gateway, query)
        assert (found, answer["type"], answer["status"]) == (status, f"/problems/{kind}", status)
        assert answer["remedy"]
    for path in ("/api/v1/nothing", "/api/v1/policies/effective/", "/api/v1/%2e%2e/metrics", "/api/"):
        status, text = gateway.get(path)
        assert (status, json.loads(text)["type"]) == (404, "/problems/not-found"), path


def test_only_what_is_needed_is_imported(gateway: Gateway) -> None:
    code = (
        "import sys, sluicegate.cli as cli\n"
        "try: cli.main(['explain', '-c', sys.argv[1], 'orders'])\n"
        "except SystemExit: pass\n"
        f"print([m for m in {HEAVY} if m in sys.modules])\n"
    )
    environ = {**os.environ, "PYTHONPATH": module_path()}
    command = [sys.executable, "-c", code, str(gateway.path)]
    done = subprocess.run(command, capture_output=True, text=True, check=True, env=environ)
    assert "in force in the running gateway" in done.stdout
    assert done.stdout.splitlines()[-1] == "[]"


def test_what_the_api_says_follows_the_file(gateway: Gateway) -> None:
    assert shown_limit(api(gateway, "topic=orders&broker=b1")[1]) == 100
    gateway.write("200")
    until(lambda: shown_limit(api(gateway, "topic=orders")[1]) == 200)
