"""The demo of Pulsar's part of adaptive throttling, as users run it."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from sluicegate.decisions.reading import read_decisions

UNPRESSED = """
from dataclasses import replace
from sluicegate.cli import main
from sluicegate.demo import OwnGate
from sluicegate_pulsar.demo import pressing
from sluicegate_pulsar.demo.show import PulsarDemo


def observed(directory):
    own = scene.own(directory)
    return OwnGate({**own.policies, "adaptive_publish_throttling_observe_only": True}, own.entry)


pressing._BUILD_S = 5.0
[scene] = [scene for scene in PulsarDemo.scenes if scene.name == "adaptive-throttling"]
PulsarDemo.scenes = (replace(scene, own=observed),)
main()
"""


def run(program: str, *arguments: str) -> "subprocess.CompletedProcess[str]":
    """Run a demo with Pulsar as the only kind of broker."""
    return subprocess.run(
        [sys.executable, "-c", program, "demo", "--plain", *arguments],
        env={**os.environ, "SLUICEGATE_LOAD_PLUGINS": "pulsar"},
        capture_output=True,
        text=True,
        timeout=55,
    )


@pytest.mark.seed("S5-041", "S5-042")
def test_a_backlog_builds_up_and_is_read(tmp_path: Path) -> None:
    directory = tmp_path / "kept"
    program = "from sluicegate.cli import main; main()"
    done = run(program, "--only", "adaptive-throttling", "--keep", str(directory))
    assert done.returncode == 0, done.stdout + done.stderr
    assert "1 of 1 observations are what the policies say" in done.stdout
    chart = done.stdout.partition("A backlog builds up: ")[2].splitlines()
    assert [state for state in ("free", "floor") if f"|{state}" in chart[9]] == ["free", "floor"]
    assert "rows delay by adaptive_publish_throttling, factor 0.1" in done.stdout

    rows = read_decisions(directory / "state" / "decisions").to_pylist()
    held = [row for row in rows if row["policy"] == "adaptive_publish_throttling"]
    assert {row["action"] for row in held} == {"delay"}
    assert min(row["factor"] for row in held) < 0.2


def test_a_backlog_that_slows_nobody_down_is_exit_code_1(tmp_path: Path) -> None:
    done = run(UNPRESSED, "--keep", str(tmp_path / "kept"))
    assert done.returncode == 1, done.stdout + done.stderr
    assert "1 of 1 observations differ from the policy" in done.stdout
    assert "the throttling did not" in done.stdout
