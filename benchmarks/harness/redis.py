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
    :param is_cluster: whether it is a cluster of one, which serves nothing before it has all slots.
    """

    def __init__(self, directory: Path, options: Sequence[str] = (), *, is_cluster: bool = False) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self._options = tuple(options)
        if is_cluster:  # by default the members' port is 10,000 higher, where others may listen
            self._options += ("--cluster-enabled", "yes", "--cluster-port", str(free_port()))
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
        return _answer(self.port, *command)

    def wait(self) -> None:
        """Return once it serves clients."""
        self.child.wait_for("Ready to accept connections", _START_S)


class RedisSentinel(Restartable):
    """One that watches a primary called `budgets`, and makes a replica the primary when that is away.

    :param directory: for its configuration and log.
    :param primary: what it watches.
    """

    def __init__(self, directory: Path, primary: RedisServer) -> None:
        directory.mkdir(parents=True, exist_ok=True)
        self._directory = directory
        self.port = free_port()
        (directory / "sentinel.conf").write_text(
            f"port {self.port}\nbind 127.0.0.1\nsentinel monitor budgets 127.0.0.1 {primary.port} 1\n"
            "sentinel down-after-milliseconds budgets 500\nsentinel failover-timeout budgets 1000\n"
        )

    def begin(self) -> Child:
        """Start its process."""
        command = ["redis-server", str(self._directory / "sentinel.conf"), "--sentinel"]
        return Child("sentinel", command, self._directory / "sentinel.log")

    def wait(self) -> None:
        """Return once it watches."""
        self.child.wait_for("+monitor master", _START_S)

    def ask(self, *command: str) -> bytes:
        """Call it with the command line's client."""
        return _answer(self.port, *command)


def _answer(port: int, *command: str) -> bytes:
    argv = ["redis-cli", "-p", str(port), *command]
    return subprocess.run(argv, check=True, capture_output=True, timeout=_START_S).stdout
