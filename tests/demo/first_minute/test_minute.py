"""The first minute as users run it: real clients, a real gateway, and the command that sets the limit."""

import re
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner
from tests.demo.running import environment
from tests.waiting import LONG_S

from sluicegate.cli import main

pytestmark = pytest.mark.slow


@pytest.mark.parametrize(
    ("system", "told"),
    [
        ("kafka", "[Error 44] PolicyViolationError"),
        pytest.param("pulsar", "ChecksumError", marks=pytest.mark.longer),
        pytest.param("danube", "RESOURCE_EXHAUSTED: Publish rate limit exceeded", marks=pytest.mark.longer),
    ],
)
def test_a_command_ends_what_the_noisy_producer_does(tmp_path: Path, system: str, told: str) -> None:
    kept, picture = tmp_path / "kept", tmp_path / "minute.svg"
    options = ["--plain", "--seconds", "5", "--keep", str(kept), "--picture", str(picture)]
    done = subprocess.run(
        [sys.executable, "-m", "sluicegate", "demo", *options],
        env={**environment(system), "COLUMNS": "100"},
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    assert done.stdout.isascii()
    assert re.search(
        r"^\$ sluicegate policies set topic \S+ max_publish_rate=\d/s .*--reason ", done.stdout, re.M
    )
    assert re.search(r"^revision 1, policies \w+, running gateway ", done.stdout, re.MULTILINE)
    [summary] = [
        line for line in done.stdout.splitlines() if line.startswith(f"{system}: the neighbour's p99 ")
    ]
    assert f"and told: {told}" in summary
    assert re.search(r"^\$ sluicegate explain ", done.stdout, re.MULTILINE)
    assert picture.read_text().startswith("<svg ")
    history = CliRunner().invoke(main, ["policies", "history", "-c", str(kept / "gateway.yaml")])
    assert history.exit_code == 0
    assert "its neighbour waits" in history.output
    assert CliRunner().invoke(main, ["check", str(kept / "gateway.yaml")]).exit_code == 0
