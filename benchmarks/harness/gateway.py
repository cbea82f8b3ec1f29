"""A gateway in front of Kafka that is restarted, reloaded and killed while clients use it."""

import json
import os
import re
import signal
import socket
import sys
import threading
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.processes import Child, free_port, free_ports

_WAIT_S = 60
_POLL_S = 0.02
_READY = "sluicegate ready:"
_REPLACED = re.compile(r"another gateway serves from now on.*pid=(\d+)")


class Gateway:
    """`sluicegate run` with one entry; its processes come and go.

    :param stack: ends what is left of it.
    :param directory: for its file, state and logs.
    :param upstream: the broker's address.
    :param policies: what stands under `policies:`.
    """

    def __init__(
        self, stack: ExitStack, directory: Path, upstream: str, policies: Mapping[str, object]
    ) -> None:
        directory.mkdir(parents=True)
        self._stack = stack
        self._directory = directory
        self._policies = policies
        self.port, self._admin_port = free_ports(8), free_port()
        self._settings = directory / "gateway.yaml"
        self._entry = {
            "name": "kafka",
            "system": "kafka",
            "bootstrap": [upstream],
            "listen": {"port": self.port},
        }
        self._starts = 0
        self.write(policies)
        self.pid = 0
        """Process id of the supervisor."""
        self.start()

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return f"127.0.0.1:{self.port}"

    def write(self, policies: Mapping[str, object] | None) -> None:
        """Replace the file; None writes one that is broken."""
        content = {
            "brokers": [self._entry],
            "policies": policies,
            "admin": {"port": self._admin_port},
            "state_dir": str(self._directory / "state"),
        }
        draft = self._settings.with_suffix(".draft")
        draft.write_text(json.dumps(content) if policies is not None else "brokers: [")  # JSON is YAML
        draft.replace(self._settings)

    def start(self) -> None:
        """Start it, and return once it serves."""
        self._starts += 1
        self._log = self._directory / f"gate-{self._starts}.log"
        program = Path(sys.executable).with_name("sluicegate")
        child = Child(SLUICEGATE, [program, "run", "-c", self._settings], self._log)
        self._stack.enter_context(child)
        child.wait_for(_READY, _WAIT_S)
        self.pid = child.pid

    def replace(self) -> None:
        """Have what is installed take over (SIGUSR2), and return once the old one has ended."""
        before, old = self._replacements(), psutil.Process(self.pid)
        os.kill(self.pid, signal.SIGUSR2)
        wait(lambda: len(self._replacements()) > len(before), "no gateway took over")
        wait(
            lambda: not old.is_running() or old.status() == psutil.STATUS_ZOMBIE, "the old one is still here"
        )
        self.pid = self._replacements()[-1]

    def _replacements(self) -> list[int]:
        return [int(pid) for pid in _REPLACED.findall(self._log.read_text(errors="replace"))]

    def kill_supervisor(self) -> None:
        """Kill it and start another one, which takes over from the worker that is left."""
        os.kill(self.pid, signal.SIGKILL)
        self.start()

    def kill_worker(self) -> float:
        """Kill it.

        :return: seconds until another one serves.
        """
        (worker,) = self.workers()
        worker.kill()
        began = time.monotonic()
        wait(lambda: self._serves(worker.pid), "no worker serves")
        return time.monotonic() - began

    def workers(self) -> list[psutil.Process]:
        """Those of the supervisor."""
        found = []
        for process in psutil.Process(self.pid).children():
            with suppress(psutil.Error):
                if "sluicegate.gateway.worker_main" in process.cmdline():
                    found.append(process)
        return found

    def _serves(self, but: int) -> bool:
        """Whether a worker other than this one answers a client."""
        if any(worker.pid == but for worker in self.workers()):
            return False
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), _WAIT_S) as client:
            client.sendall(_API_VERSIONS)
            return bool(client.recv(1))
        return False

    def metric(self, name: str) -> float:
        """The value of a metric without labels but the broker's."""
        address = f"http://127.0.0.1:{self._admin_port}/metrics"
        with urllib.request.urlopen(address, timeout=_WAIT_S) as page:
            text = page.read().decode()
        found = re.search(rf"^{name}(?:\{{[^}}]*\}})? (\S+)$", text, re.MULTILINE)
        return float(found[1]) if found else 0.0

    def reload(self) -> None:
        """Send SIGHUP."""
        os.kill(self.pid, signal.SIGHUP)

    def resident_bytes(self) -> int:
        """Memory of the supervisor and its workers."""
        return sum(one.memory_info().rss for one in (psutil.Process(self.pid), *self.workers()))


_API_VERSIONS = bytes.fromhex("0000000a 0012 0000 00000001 ffff")
"""The least that a Kafka client says."""


@dataclass(slots=True)
class Knocking:
    """What became of clients that connect all the time."""

    connected: int = 0
    refused: list[str] = field(default_factory=list)


@contextmanager
def knocking(port: int) -> Iterator[Knocking]:
    """Connect some hundred times a second during the block."""
    found, over = Knocking(), threading.Event()

    def knock() -> None:
        while not over.wait(0.003):
            try:
                socket.create_connection(("127.0.0.1", port), _WAIT_S).close()
                found.connected += 1
            except OSError as error:
                found.refused.append(str(error))

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield found
    finally:
        over.set()
        thread.join()


def wait(holds: Callable[[], bool], failure: str) -> None:
    """Return once something holds.

    :raises RuntimeError: if it does not in a minute.
    """
    deadline = time.monotonic() + _WAIT_S
    while not holds():
        if time.monotonic() > deadline:
            raise RuntimeError(f"{failure} within {_WAIT_S} s")
        time.sleep(_POLL_S)
