"""Prometheus' own tool, which parses rules and queries and plays rules on series."""

import os
import shutil
import subprocess
from pathlib import Path

import pytest

PROMTOOL = shutil.which("promtool")


def needs_promtool() -> str:
    """The path of promtool; without it the test is skipped, except in CI, which installs it."""
    if PROMTOOL is None:
        reason = "needs promtool, of Debian's package prometheus"
        if os.environ.get("CI"):
            pytest.fail(reason)
        pytest.skip(reason)
    return PROMTOOL


def said(*arguments: str | Path) -> str:
    """What promtool writes; empty if it finds nothing wrong."""
    tool = needs_promtool()
    done = subprocess.run([tool, *map(str, arguments)], capture_output=True, text=True, check=False)
    return "" if done.returncode == 0 else done.stdout + done.stderr
