"""The demo of Kafka as users run it: a process of its own, real clients, and an exit code that means it."""

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner

from sluicegate.cli import main
from sluicegate.decisions.reading import read_decisions
from sluicegate_kafka.demo import show
from sluicegate_kafka.demo.embedded import mock_cluster

POLICIES = (
    "max_producers_per_topic",
    "max_subscriptions_per_topic",
    "max_consumers_per_topic",
    "max_consumers_per_subscription",
    "max_publish_rate",
    "max_publish_rate_bytes",
    "max_dispatch_rate",
    "max_subscription_dispatch_rate",
    "max_message_size",
    "fixed_delivery_delay",
    "max_timestamp_ahead",
)

UNLIMITED = """
from dataclasses import replace
from sluicegate.cli import main
from sluicegate.demo import OwnGate, course
from sluicegate_kafka.demo.show import KafkaDemo


def off(directory):
    own = scene.own(directory)
    return OwnGate({**own.policies, "storage_quota": False}, own.entry)


course.WITHIN_S = 1.0
[scene] = [scene for scene in KafkaDemo.scenes if scene.name == "storage-quota"]
KafkaDemo.scenes = (replace(scene, own=off),)
main()
"""

PLANTED = """
from dataclasses import replace
from sluicegate.cli import main
from sluicegate_kafka.demo.show import KafkaDemo

KafkaDemo.scenes = tuple(
    replace(scene, settings={"max_message_size": "64KiB"}) if scene.name == "message-size" else scene
    for scene in KafkaDemo.scenes
)
main()
"""


def run(*arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run Python with Kafka as the only kind of broker."""
    return subprocess.run(
        [sys.executable, *arguments],
        env={**os.environ, "SLUICEGATE_LOAD_PLUGINS": "kafka"},
        capture_output=True,
        text=True,
        timeout=100,
    )


@pytest.mark.timeout(110)
@pytest.mark.seed("S1-123", "S1-124", "S1-125")
def test_all_that_is_seen_is_what_the_policies_say(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    began = time.monotonic()
    done = run("-c", "from sluicegate.cli import main; main()", "demo", "--plain", "--keep", str(directory))
    assert done.returncode == 0, done.stdout + done.stderr
    assert time.monotonic() - began < 60
    assert done.stderr == ""
    assert done.stdout.isascii()
    assert "librdkafka mock cluster, not a Kafka broker" in done.stdout
    assert [policy for policy in POLICIES if f"{policy}: " not in done.stdout] == []
    for error in ("PolicyViolationError", "MessageSizeTooLargeError", "InvalidTimestampError"):
        assert error in done.stdout
    assert "16 of 16 observations are what the policies say" in done.stdout
    assert "DIFFERENT" not in done.stdout

    rows = read_decisions(directory / "state" / "decisions").to_pylist()
    quotas = {"publish_quota", "storage_quota"}
    assert {row["policy"] for row in rows if row["policy"]} == set(POLICIES) - {
        "fixed_delivery_delay"
    } | quotas
    explained = next(line for line in done.stdout.splitlines() if line.startswith("$ sluicegate explain "))
    decision_id, file = explained.split()[3], explained.split()[5]
    again = CliRunner().invoke(main, ["explain", decision_id, "-c", file], catch_exceptions=False)
    assert again.output.startswith(f"decision {decision_id}: ")
    assert again.output.strip() in done.stdout


def test_an_observation_that_differs_is_exit_code_1(tmp_path: Path) -> None:
    done = run(
        "-c", PLANTED, "demo", "--only", "message-size", "--only", "live-change", "--keep", str(tmp_path)
    )
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 of 2 observations differ from the policy" in done.stdout
    assert "DIFFERENT" in done.stdout


@pytest.mark.seed("S4-010", "S4-011", "S4-012")
def test_a_volume_fills_and_each_place_on_the_ramp_is_told(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    main_program = "from sluicegate.cli import main; main()"
    done = run("-c", main_program, "demo", "--plain", "--only", "storage-quota", "--keep", str(directory))
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.isascii()
    chart = done.stdout.partition("A volume fills up: ")[2].splitlines()
    assert [line for line in chart[1:9] if "=" in line and "#" in line]
    states = [state for state in ("open", "throttle", "pause") if f"|{state}" in chart[9]]
    assert states == ["open", "throttle", "pause"]
    assert "rows delay by storage_quota, factor 0.00 to " in done.stdout
    assert not list(directory.rglob("ballast"))

    log = read_decisions(directory / "state" / "decisions").to_pylist()
    held = [row for row in log if row["policy"] == "storage_quota"]
    assert {row["action"] for row in held} == {"delay"}
    assert {row["reason"] for row in held} == {"limit_reached", "precondition"}
    assert {row["gateway"] for row in held} == {"kafka-storage-quota"}
    file = directory / "kafka-storage-quota" / "gateway.yaml"
    checked = CliRunner().invoke(main, ["check", str(file)])
    assert checked.exit_code == 0, checked.output


def test_a_volume_that_holds_nobody_back_is_exit_code_1(tmp_path: Path) -> None:
    done = run("-c", UNLIMITED, "demo", "--keep", str(tmp_path / "kept"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 of 1 observations differ from the policy" in done.stdout
    assert "a factor near 0.6" in done.stdout  # which did not come


def test_a_missing_client_library_is_named_with_the_remedy(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(show, "find_spec", lambda name: None)
    monkeypatch.setenv("SLUICEGATE_LOAD_PLUGINS", "kafka")
    done = CliRunner().invoke(main, ["demo"])
    assert done.exit_code == 1
    assert "aiokafka and confluent-kafka not installed; do: pip install 'sluicegate[kafka]'" in done.output
    assert "there is nothing to show" in done.output


def test_an_unknown_scene_and_a_full_directory_are_refused(tmp_path: Path) -> None:
    done = CliRunner().invoke(main, ["demo", "--only", "tea"])
    assert done.exit_code == 2
    assert "unknown scene 'tea'; known scenes: adaptive-throttling, " in done.output

    (tmp_path / "mine.txt").write_text("precious")
    done = CliRunner().invoke(main, ["demo", "--keep", str(tmp_path)])
    assert done.exit_code == 2
    assert "is not empty: expected a new or empty directory" in done.output
    assert [file.name for file in tmp_path.iterdir()] == ["mine.txt"]


def test_help_tells_every_option_and_the_exit_code() -> None:
    text = CliRunner().invoke(main, ["demo", "--help"]).output
    for words in ("--keep DIR", "--plain", "--only SCENE", "exit code is 1"):
        assert words in text


async def test_the_mock_cluster_has_as_many_nodes_as_asked_for() -> None:
    async with mock_cluster(3) as addresses:
        assert len(set(addresses)) == 3
        assert all(address.startswith("127.0.0.1:") for address in addresses)
