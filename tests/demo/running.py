"""The demo as users run it: a process of its own, of one system, with a fault planted if a test wants one."""

import os
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from tests.waiting import LONG_S


@dataclass(frozen=True, slots=True)
class Ended:
    """A demo that has ended."""

    code: int
    printed: str
    errors: str
    directory: Path

    def line(self, begin: str) -> str:
        """The one line that begins so."""
        [found] = [line for line in self.printed.splitlines() if line.startswith(begin)]
        return found

    def verdict(self, scene: str) -> str:
        """What the line of progress says of a scene."""
        found = re.findall(rf"^(.+?) +[0-9.]+ s  \w+: {scene}$", self.printed, re.MULTILINE)
        verdict: str = found[-1]
        return verdict

    def about(self, scene: str) -> str:
        """The paragraph of a scene, in the list that stands for the table."""
        found = re.search(rf"^\w+: {scene}\n  .*?\n\n", self.printed + "\n", re.MULTILINE | re.DOTALL)
        assert found is not None, self.printed
        return found[0]


def command(directory: Path, *scenes: str) -> list[str]:
    """How a user plays some scenes."""
    only = [word for scene in scenes for word in ("--only", scene)]
    return [sys.executable, "-m", "sluicegate", "demo", "--all", "--plain", *only, "--keep", str(directory)]


def environment(system: str, plant: Path | None = None, **more: str) -> Mapping[str, str]:
    """Of a demo of one kind of broker, 60 columns wide, as lists are easier to read for a test.

    :param plant: directory with a `sitecustomize.py`, which all processes of the demo run first.
    """
    found = {**os.environ, "SLUICEGATE_LOAD_PLUGINS": system, "COLUMNS": "60", **more}
    if plant is not None:
        found["PYTHONPATH"] = os.pathsep.join((str(plant), found.get("PYTHONPATH", "")))
    return found


def demo(
    directory: Path, system: str, *scenes: str, plant: Path | None = None, options: Sequence[str] = ()
) -> Ended:
    """Play some scenes, or all of them.

    :param system: kind of broker, or several with commas between them.
    """
    done = subprocess.run(
        [*command(directory, *scenes), *options],
        env=environment(system, plant),
        capture_output=True,
        text=True,
        timeout=LONG_S,
    )
    return Ended(done.returncode, done.stdout, done.stderr, directory)


def planted(directory: Path, fault: str) -> Path:
    """A directory with Python that each process of the demo runs first.

    :param fault: the source.
    """
    directory.mkdir()
    (directory / "sitecustomize.py").write_text(fault)
    return directory
