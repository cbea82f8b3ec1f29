"""A gateway in front of Kafka that is restarted, reloaded and killed while clients use it."""

import os
import re
import signal
import socket
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path

import psutil

from benchmarks.harness.kafka_bytes import API_VERSIONS_V0
from benchmarks.harness.proxies import Gate

_WAIT_S = 60
_POLL_S = 0.02
_REPLACED = re.compile(r"another gateway serves from now on.*pid=(\d+)")


class Gateway(Gate):
    """A gate whose processes come and go. Its parameters are those of `Gate`."""

    def __init__(
        self, stack: ExitStack, directory: Path, upstream: str, policies: Mapping[str, object]
    ) -> None:
        super().__init__(stack, directory, "kafka", [upstream], policies)
        self.wait()
        self.pid = self.child.pid
        """Process id of the supervisor."""

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
        return [int(pid) for pid in _REPLACED.findall(self.log)]

    def kill_supervisor(self) -> None:
        """Kill it and start another one, which takes over from the worker that is left."""
        os.kill(self.pid, signal.SIGKILL)
        self.child = self._launch()
        self.wait()
        self.pid = self.child.pid

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
        pids = []
        for process in psutil.Process(self.pid).children():
            with suppress(psutil.Error):  # it ended while we were looking
                if "sluicegate.processes.worker_main" in process.cmdline():
                    pids.append(process)
        return pids

    def _serves(self, but: int) -> bool:
        """Whether a worker other than this one answers a client."""
        if any(worker.pid == but for worker in self.workers()):
            return False
        # The kernel accepts before the worker does: only an answer shows that it serves.
        with suppress(OSError), socket.create_connection(("127.0.0.1", self.port), _WAIT_S) as client:
            client.sendall(API_VERSIONS_V0)
            return bool(client.recv(1))
        return False

    def reload(self) -> None:
        """Send SIGHUP."""
        os.kill(self.pid, signal.SIGHUP)

    def resident_bytes(self) -> int:
        """Memory of the supervisor and its workers."""
        return sum(one.memory_info().rss for one in (psutil.Process(self.pid), *self.workers()))


@dataclass(slots=True)
class Knocking:
    """What became of clients that connect all the time."""

    connected: int = 0
    refused: list[str] = field(default_factory=list)


@contextmanager
def knocking(port: int) -> Iterator[Knocking]:
    """Connect some hundred times a second during the block."""
    knocked, over = Knocking(), threading.Event()

    def knock() -> None:
        while not over.wait(0.003):
            try:
                socket.create_connection(("127.0.0.1", port), _WAIT_S).close()
                knocked.connected += 1
            except OSError as error:
                knocked.refused.append(str(error))

    thread = threading.Thread(target=knock)
    thread.start()
    try:
        yield knocked
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
