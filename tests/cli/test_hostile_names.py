"""No command lets text of clients, brokers or files control the terminal."""

import json
from collections.abc import Callable, Iterator
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result
from tests.output import HOSTILE

from sluicegate.cli import main
from sluicegate.decisions.journal import RefusalJournal
from sluicegate.model import (
    Action,
    Decision,
    OperationKind,
    Outcome,
    Reason,
    TopicName,
    visible,
    visible_json,
)
from sluicegate.runtime.plugins import CHOICE
from sluicegate.testing import build_gate

Run = Callable[..., Result]
PLAIN = HOSTILE.replace("\ud800", "").replace("\U000e0001", "")
"""As files and databases can hold it."""
BROKER = {"bootstrap": ["127.0.0.1:9092"], "listen": {"port": 19092}}
FILE = {"brokers": [{"name": "main", "system": "kafka", **BROKER}], "state_dir": "state"}


def as_yaml(file: object) -> str:
    """YAML takes no control characters, but their escape sequences."""
    return visible_json(json.dumps(file))


def assert_harmless(result: Result) -> None:
    for text in (result.stdout, result.stderr):
        assert visible(text, keep="\n") == text
        assert not any(line.startswith("forged") for line in text.splitlines())
    assert "forged line" in result.output


def write_refusal() -> None:
    reason = Reason("max_publish_rate", Outcome.LIMIT_REACHED, PLAIN, 6, 5, "topic")
    decision = Decision(Action.REJECT, (reason,), policy_version=4, id="k3x9qa-1f")
    journal = RefusalJournal(Path("state"), "kafka", "main")
    gate = build_gate({}, topic=TopicName(f"t{PLAIN}", "t"), now_ns=0)
    row = (10**18, gate, OperationKind.PUBLISH, f"User:{PLAIN}", f"app{PLAIN}@h:1", PLAIN, 1, 100, decision)
    journal.record([row], 0, 0)
    journal.close()


def leaves(group: click.Group, *path: str) -> Iterator[tuple[str, ...]]:
    for name in group.list_commands(click.Context(group)):
        found = group.get_command(click.Context(group), name)
        if isinstance(found, click.Group):
            yield from leaves(found, *path, name)
        else:
            yield (*path, name)


def test_every_command_escapes_its_arguments_in_errors(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    commands = list(leaves(main))
    assert {"explain", "check", "demo", "run"} <= {path[0] for path in commands}
    assert ("danube", "failover", "status") in commands
    for path in commands:
        # No argument fits all of them: each refuses one of these two.
        for arguments in ([PLAIN], ["-c", PLAIN, "--", PLAIN, PLAIN]):
            result = CliRunner().invoke(main, [*path, *arguments], catch_exceptions=False)
            assert result.exit_code != 0
            for text in (result.stdout, result.stderr):
                assert visible(text, keep="\n") == text, path


@pytest.mark.parametrize(
    "arguments",
    [
        ["explain", "k3x9qa-1f"],
        ["explain", "--client", f"app{PLAIN}"],
        ["explain", "--client", PLAIN],
        ["explain", f"[sluicegate {PLAIN}]"],
        ["explain", PLAIN],
        ["explain", PLAIN, "--broker", PLAIN],
        [PLAIN],
    ],
)
def test_explain_escapes_what_clients_sent(run_in: Run, arguments: list[str]) -> None:
    run_in(None, "--version")
    write_refusal()
    assert_harmless(run_in(as_yaml(FILE), *arguments))


def test_explain_as_json_stays_json(run_in: Run) -> None:
    result = run_in(as_yaml(FILE), "explain", PLAIN, "--json")
    assert json.loads(result.stdout)["topic"] == PLAIN
    assert visible(result.stdout, keep="\n") == result.stdout


@pytest.mark.parametrize(
    "changed",
    [
        {PLAIN: 1},
        {"plugins": [PLAIN]},
        {"policies": {"topics": [{"name": PLAIN, "max_publish_rate": PLAIN}]}},
        {"policies": {"broker": {"ceiling": {PLAIN: 1}}}},
        {"store": f"{PLAIN}://x"},
        {"state_dir": f"gateway.yaml/{PLAIN}"},
    ],
    ids=str,
)
@pytest.mark.parametrize("command", [["check", "gateway.yaml"], ["explain", "orders"], ["run"]], ids=str)
def test_errors_of_a_file_are_escaped(run_in: Run, changed: dict[str, object], command: list[str]) -> None:
    result = run_in(as_yaml(FILE | changed), *command)
    for text in (result.stdout, result.stderr):
        assert visible(text, keep="\n") == text
        assert not any(line.startswith("forged") for line in text.splitlines())


def test_findings_as_json_stay_json(run_in: Run) -> None:
    result = run_in(as_yaml(FILE | {PLAIN: 1}), "check", "gateway.yaml", "--json")
    assert visible(result.stdout, keep="\n") == result.stdout
    assert PLAIN in json.loads(result.stdout)["findings"][0]["path"]


def test_an_imported_file_is_escaped(run_in: Run) -> None:
    run_in(None, "--version")
    Path("server.properties").write_text(f"client.quota.callback.static.{PLAIN}=\x1b[2J\n")
    result = run_in(None, "import", "strimzi", "server.properties")
    for text in (result.stdout, result.stderr):
        assert visible(text, keep="\n") == text


@pytest.mark.parametrize(
    "command", ["set-delayed-delivery", "get-delayed-delivery", "remove-delayed-delivery"]
)
def test_commands_of_pulsar_escape_topics(run_in: Run, monkeypatch: pytest.MonkeyPatch, command: str) -> None:
    monkeypatch.setenv(CHOICE, "pulsar")
    options = ["--fixed-delay", "1s"] if command.startswith("set") else []
    name = "persistent://public/default/" + PLAIN.replace("/", "")
    file = {"brokers": [{"name": "main", "system": "pulsar", **BROKER}], "state_dir": "state"}
    result = run_in(as_yaml(file), "topics", command, name, *options)
    assert_harmless(result)
