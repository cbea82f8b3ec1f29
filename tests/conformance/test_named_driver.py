"""`pytest --sluicegate-driver` runs the conformance suite on the driver of that name, and nothing else."""

import os
import subprocess
import sys
from pathlib import Path

import pytest
from tests.conformance.danube_doors import DRIVER
from tests.waiting import LONG_S

from sluicegate.testing.conformance.named import named

ROOT = Path(__file__).resolve().parents[2]
NAME = "tests.conformance.danube_doors:DRIVER"


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Run pytest; the option is there by `-p`, whether the distribution is installed or not."""
    option = ("-p", "sluicegate.conformance_option", "-p", "no:cacheprovider", "-q")
    return subprocess.run(
        [sys.executable, "-m", "pytest", *option, *arguments],
        capture_output=True,
        text=True,
        timeout=LONG_S,
        cwd=ROOT,
        env={**os.environ, "PYTEST_ADDOPTS": ""},
    )


def test_the_suite_is_run_alone() -> None:
    done = run("--sluicegate-driver", NAME, "--collect-only", "-k", "danube-client and producers")
    lines = [line for line in done.stdout.splitlines() if "::" in line]
    assert done.returncode == 0, done.stdout + done.stderr
    assert len(lines) == 1
    assert "named.py::TestConformance" in lines[0]
    assert "[danube-client-producers]" in lines[0]


def test_the_suite_is_run_beside_the_tests_that_are_named() -> None:
    done = run(
        "--sluicegate-driver",
        NAME,
        "--collect-only",
        "-k",
        "sink or is_shown",
        "tests/testing/test_sink.py",
    )
    assert {line.split("::")[0].rpartition("/")[2] for line in done.stdout.splitlines() if "::" in line} == {
        "named.py",
        "test_sink.py",
    }


def test_names_of_drivers() -> None:
    assert named(NAME) is DRIVER
    assert named("tests.conformance.danube_doors") is DRIVER
    for wrong in ("tests.conformance.danube_doors:NONE", "tests.conformance.danube_doors:gate", "", "."):
        with pytest.raises(pytest.UsageError, match="--sluicegate-driver"):
            named(wrong)
