"""Programs that get the signals of a process group while they are loading."""

import os
import subprocess
import sys
from pathlib import Path

from tests.gateway.lab import module_path
from tests.waiting import LONG_S

_SIGNALS = """
import os, signal

for number in (signal.SIGINT, signal.SIGHUP, signal.SIGUSR2):
    os.kill(os.getpid(), number)
raise SystemExit("it lives")
"""


def lives(module: str, imports: str, plant: Path) -> bool:
    """Whether a program of a gateway outlives signals that only the supervisor obeys.

    :param module: the program.
    :param imports: a module that it imports; all signals come then.
    :param plant: an empty directory.
    """
    (plant / f"{imports}.py").write_text(_SIGNALS)
    done = subprocess.run(
        [sys.executable, "-m", module, "0", "0", "0"],
        env={**os.environ, "PYTHONPATH": os.pathsep.join((str(plant), module_path()))},
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=LONG_S,
        check=False,
    )
    return done.stderr == "it lives\n"
