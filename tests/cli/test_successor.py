"""The command line by which a gateway starts the next version of itself."""

import sys
from pathlib import Path

from sluicegate.cli.successor import command


def test_a_program_is_started_by_the_path_that_it_was_started_by(tmp_path: Path) -> None:
    """It may be another one by now, with another interpreter."""
    real, link = tmp_path / "1.0", tmp_path / "current"
    real.write_text("#!/bin/sh\n")
    real.chmod(0o755)
    link.symlink_to(real)
    expected = [str(link), "run", "-c", "gateway.yaml", "--take-over"]
    assert command([str(link), "run", "-c", "gateway.yaml"]) == expected
    assert command([str(link), "run", "-c", "gateway.yaml", "--take-over"]) == expected


def test_a_module_is_started_as_a_module() -> None:
    started = command(["/somewhere/sluicegate/__main__.py", "run"])
    assert started == [sys.executable, "-P", "-m", "sluicegate", "run", "--take-over"]
