"""A limit on its way from observed to enforced, and back, by commands on a running gateway."""

import json
import socket
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner, Result
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway, echoing
from tests.waiting import LONG_S, until

from sluicegate.cli import main
from sluicegate.runtime.plugins import CHOICE

SIZE = "max_message_size"


@pytest.fixture
def gateway(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Gateway]:
    monkeypatch.setenv(CHOICE, "")
    with echoing() as upstream:
        gateway = Gateway(tmp_path, upstream, closed_port())
        settings = "rollout: {window: 2s, budget: 20%, steps: [50%], group: clients}\n"
        gateway.path.write_text(settings + gateway.path.read_text().replace(f"{SIZE}: 100", f"{SIZE}: 150"))
        gateway.start()
        yield gateway
        gateway.stop()


def policies(gateway: Gateway, *arguments: str) -> Result:
    words = ["policies", *arguments, "-c", str(gateway.path)]
    return CliRunner().invoke(main, words, catch_exceptions=False)


def publish(gateway: Gateway, nbytes: int, times: int) -> int:
    """How many are refused."""
    refused = 0
    with socket.create_connection(("127.0.0.1", gateway.port), timeout=LONG_S) as client:
        for _ in range(times):
            client.sendall(b"publish t %d\n" % nbytes)
            refused += client.recv(300).startswith(b"refused")
    return refused


@pytest.mark.seed("S1-144")
def test_a_limit_is_promoted_within_the_budget_and_falls_back_above_it(gateway: Gateway) -> None:
    done = policies(gateway, "set", "topic", "t", f"{SIZE}=100", f"mode.{SIZE}=observe")
    assert done.exit_code == 0
    until(lambda: publish(gateway, 120, 10) == 0 and _rollout(gateway)["would_refuse"] > 0)

    def is_too_early() -> bool:
        publish(gateway, 120, 10)  # what was seen counts for two seconds
        early = policies(gateway, "promote", "topic", "t", SIZE)
        assert early.exit_code == 1
        return "above the budget of 20.00%" in early.stderr

    until(is_too_early)

    def promoted() -> bool:
        publish(gateway, 50, 150)
        return policies(gateway, "promote", "topic", "t", SIZE, "--reason", "quiet").exit_code == 0

    until(promoted)
    assert _rollout(gateway)["mode"] == "canary 50% of clients"
    assert (
        policies(gateway, "promote", "topic", "t", SIZE, "--to", "canary clients echo", "--force").exit_code
        == 0
    )
    until(lambda: gateway.refused(120))

    def observed_again() -> bool:
        publish(gateway, 120, 150)
        return _rollout(gateway).get("mode") == "observe"

    until(observed_again)
    until(lambda: not gateway.refused(120))
    newest = json.loads(policies(gateway, "history", "--json").stdout)[0]
    assert newest["actor"] == "sluicegate"
    assert newest["reason"].startswith("fell back: of ")
    assert "sluicegate_rollout_fallbacks_total 1.0" in gateway.get("/metrics")[1]


def test_without_a_gateway_nothing_is_promoted_unless_forced(gateway: Gateway) -> None:
    policies(gateway, "set", "topic", "t", f"mode.{SIZE}=observe")
    gateway.stop()
    refused = policies(gateway, "promote", "topic", "t", SIZE)
    assert (refused.exit_code, "no running gateway has seen anything" in refused.stderr) == (1, True)
    plan = policies(gateway, "promote", "topic", "t", SIZE, "--force", "--dry-run")
    assert "observe -> canary 50% of clients" in plan.stdout
    assert "canary 50% of clients" in policies(gateway, "rollouts").stdout
    wrong = policies(gateway, "promote", "topic", "t" * 5_000, SIZE)
    assert (wrong.exit_code, "name: " in wrong.stderr) == (1, True)


def test_nothing_is_rolled_out(gateway: Gateway) -> None:
    assert policies(gateway, "rollouts").stdout.startswith("every policy is enforced (running gateway")


def _rollout(gateway: Gateway) -> dict[str, Any]:
    found = json.loads(policies(gateway, "rollouts", "--json").stdout)
    return dict(found[0]) if found else {}
