"""Danube's demo as a user sees it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluicegate.cli import main
from sluicegate.decisions.reading import read_decisions
from sluicegate_danube.demo import show

POLICIES = (
    "max_producers_per_topic",
    "max_subscriptions_per_topic",
    "max_consumers_per_topic",
    "max_consumers_per_subscription",
    "max_publish_rate",
    "max_dispatch_rate",
    "max_subscription_dispatch_rate",
    "max_message_size",
    "max_unacked_messages_per_consumer",
    "fixed_delivery_delay",
)


@pytest.mark.timeout(110)
@pytest.mark.seed("S1-123", "S1-124", "S1-125", "S1-126")
def test_all_that_is_seen_is_what_the_policies_say(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    done = subprocess.run(
        [
            *(sys.executable, "-c", "from sluicegate.cli import main; main()"),
            *("demo", "--plain", "--keep", str(directory)),
        ],
        env={**os.environ, "SLUICEGATE_LOAD_PLUGINS": "danube"},
        capture_output=True,
        text=True,
        timeout=100,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stderr == ""
    assert "in-memory reference broker, not Danube" in done.stdout
    assert [policy for policy in POLICIES if f"{policy}: " not in done.stdout] == []
    assert "RESOURCE_EXHAUSTED: " in done.stdout
    assert "INVALID_ARGUMENT: " in done.stdout
    assert "14 of 14 observations are what the policies say" in done.stdout

    rows = read_decisions(directory / "state" / "decisions").to_pylist()
    assert {row["policy"] for row in rows if row["policy"]} == set(POLICIES) - {"fixed_delivery_delay"}


def test_a_missing_client_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "find_spec", lambda name: None)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "danube")
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 1
    assert "danube-client and grpcio and hpack not installed" in done.output
    assert "pip install 'sluicegate[danube]'" in done.output
