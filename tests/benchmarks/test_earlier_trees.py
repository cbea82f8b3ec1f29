"""What runs in earlier trees finds their modules by the names of today."""

import os
import subprocess
import sys
from pathlib import Path

_ROOT = Path(__file__).resolve().parents[2]
_PROGRAM = """
import benchmarks.harness.earlier_trees
from sluicegate.net.connections import NAME
from sluicegate.net.relaying import relay
from sluicegate.processes.worker import NAME as WORKER
from sluicegate.gateway.worker import NAME as SAME
assert WORKER is SAME
print(NAME, relay.NAME, WORKER[0])
"""


def test_modules_of_a_room_with_another_name_are_found_and_are_the_same(tmp_path: Path) -> None:
    room = tmp_path / "sluicegate" / "gateway"
    room.mkdir(parents=True)
    for folder in (room.parent, room):
        (folder / "__init__.py").touch()
    for name in ("connections", "relay", "worker", "log_sink", "plugins"):  # and none that collects
        (room / f"{name}.py").write_text(f"NAME = [{name!r}]\n")
    done = subprocess.run(
        [sys.executable, "-P", "-c", _PROGRAM],
        env={**os.environ, "PYTHONPATH": f"{tmp_path}{os.pathsep}{_ROOT}"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.stdout == "['connections'] ['relay'] worker\n", done.stderr
