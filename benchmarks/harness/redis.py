"""Real Redis servers on loopback, from Debian's package `redis-server`."""

import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

from benchmarks.harness.processes import Child, free_port
from sluicegate_reports.runner.brokers.restartable import Restartable

_START_S = 120


def why_no_redis() -> str | None:
    """What is missing to start one, in words; None if nothing."""
    return None if shutil.which("redis-server") else "redis-server is not installed (Debian: redis-server)"


class RedisServer(Restartable):
    """One server; it can be stopped, killed and started again on the same port, and is empty then.

    :param directory: for its log.
    :param options: further options of the command line; `PORT` in them stands for its port.
    """

    def __init__(self, directory: Path, options: Sequence[str] = ()) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._options = tuple(options)
        self.port = free_port()

    @property
    def url(self) -> str:
        """Where it listens."""
        return f"redis://127.0.0.1:{self.port}"

    def begin(self) -> Child:
        """Start its process."""
        command = ["redis-server", "--port", str(self.port), "--bind", "127.0.0.1", "--save", ""]
        command += ["--dir", str(self._directory), *self._options]
        command = [str(self.port) if each == "PORT" else each for each in command]
        return Child("redis", command, self._directory / "redis.log")

    def ask(self, *command: str) -> bytes:
        """Call it with the command line's client."""
        argv = ["redis-cli", "-p", str(self.port), *command]
        return subprocess.run(argv, check=True, capture_output=True, timeout=_START_S).stdout

    def wait(self) -> None:
        """Return once it serves clients."""
        self.child.wait_for("Ready to accept connections", _START_S)
