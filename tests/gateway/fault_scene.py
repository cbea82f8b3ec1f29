"""Gateways of one directory under load, one of whose processes dies or stops at a named step."""

import math
import os
import signal
import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from http.client import HTTPException
from itertools import pairwise
from pathlib import Path
from threading import Event, Thread

import psutil
from tests.gateway import steps_plugin
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway
from tests.waiting import until

RATE, BURST, PLACES = 40, 4, 3
"""So little is a bucket that two workers beside each other are seen in a tenth of a second."""
_POLICIES = f"""\
  topics:
    - name: rated
      max_publish_rate: {RATE}/s
      burst_seconds: {BURST / RATE}
      on_limit: {{max_publish_rate: reject}}
    - {{name: places, max_producers_per_topic: {PLACES}}}
orphan_timeout: 0
"""
_PATIENCE_S = 0.2
"""How long a client waits, as a stopped process answers none. What it then misses is not counted."""
_ATTEMPTS = 40


class Load:
    """Clients that publish all the time to the topic `rated`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._admitted: list[tuple[float, float]] = []
        self._attempts: list[None] = []

    def publish(self) -> None:
        """Publish a few messages through one connection."""
        try:
            with socket.create_connection(("127.0.0.1", self._port), timeout=_PATIENCE_S) as client:
                for _ in range(4):
                    sent_s = time.monotonic()
                    client.sendall(b"publish rated 1\n")
                    if client.recv(200).startswith(b"publish"):
                        self._admitted.append((sent_s, time.monotonic()))
        except OSError:
            pass
        self._attempts.append(None)

    def above(self, since_s: float = 0.0) -> float:
        """How many messages were admitted above the rate, in the worst window that begins later."""
        return excess([times for times in self._admitted.copy() if times[0] >= since_s])

    def go_on(self) -> float:
        """Return after some more attempts: when they began, in seconds."""
        began_s, until_count = time.monotonic(), len(self._attempts) + _ATTEMPTS
        until(lambda: len(self._attempts) >= until_count)
        return began_s

    @contextmanager
    def running(self) -> Iterator[None]:
        over = Event()

        def work() -> None:
            while not over.wait(0.01):
                self.publish()

        threads = [Thread(target=work) for _ in range(3)]
        for thread in threads:
            thread.start()
        try:
            yield
        finally:
            over.set()
            for thread in threads:
                thread.join()


def excess(admitted: Sequence[tuple[float, float]]) -> float:
    """How many messages at least were admitted above the rate, in the worst window.

    A window begins when a message is sent and ends when one is answered. What is surely decided in it are the
    messages answered by its end, less those sent before its beginning.

    :param admitted: when each message was sent and answered, seconds; the gate decided between them.
    """
    sent = sorted(sent_s for sent_s, _ in admitted)
    lowest, begun, worst = math.inf, 0, 0.0
    for answered, end_s in enumerate(sorted(answered_s for _, answered_s in admitted), 1):
        while begun < len(sent) and sent[begun] <= end_s:
            lowest = min(lowest, begun - RATE * sent[begun])
            begun += 1
        worst = max(worst, answered - RATE * end_s - lowest)
    return worst


class Scene:
    """An `old` gateway, a `new` one, and a third for when none is left.

    :param fault: KILL or STOP.
    :param process: whom it strikes, such as `old supervisor`.
    """

    def __init__(self, directory: Path, upstream: int, process: str, step: str, fault: str) -> None:
        self._struck, self._noted = directory / "struck", directory / "lives"
        self._noted.touch()
        self._starting: list[Thread] = []
        which, _, role = process.partition(" ")
        port = closed_port()
        self.load = Load(port)
        self._gateways = {name: Gateway(directory, upstream, port) for name in ("old", "new", "third")}
        for name, gateway in self._gateways.items():
            gateway.errors = directory / f"errors-{name}.txt"
            gateway.plugins = "tests.gateway.echo_plugin, tests.gateway.steps_plugin"
            gateway.more = _POLICIES
            gateway.environ = {steps_plugin.LIVES: str(self._noted)}
            if name == which:
                gateway.environ |= {
                    steps_plugin.AT: f"{role} {step}",
                    steps_plugin.FAULT: fault,
                    steps_plugin.FILE: str(self._struck),
                }
        self.write("100")

    def write(self, size: str) -> None:
        """Write the file that all of them read."""
        self._gateways["old"].write(size)

    def begin(self, name: str, *options: str) -> None:
        """Start a gateway, and wait for nothing: it may never become ready."""
        thread = Thread(target=self._gateways[name].start, args=options)
        self._starting.append(thread)
        thread.start()
        until(lambda: hasattr(self._gateways[name], "process"))

    def ready(self, name: str) -> Gateway:
        """Return a gateway once it says that it is ready."""
        until(lambda: self._gateways[name].admin, tell=self._errors)
        return self._gateways[name]

    def struck(self) -> None:
        """Return once the fault has happened."""
        until(lambda: self._struck.exists() and self._struck.read_text(), tell=self._errors)

    def resume(self) -> None:
        """Let a stopped process go on."""
        with suppress(ProcessLookupError):  # it was killed
            os.kill(int(self._struck.read_text()), signal.SIGCONT)

    def settle(self) -> Gateway:
        """Return the one gateway that serves in the end; if none is left, another one is started."""
        until(lambda: not self._alive() or self._settled(), tell=self._errors)
        if not self._alive():
            until(self._starts_third, tell=self._errors)
        [gateway] = until(self._settled, tell=self._errors)
        return gateway

    def _alive(self) -> list[Gateway]:
        return [
            gateway
            for gateway in self._gateways.values()
            if hasattr(gateway, "process") and gateway.process.poll() is None
        ]

    def _settled(self) -> list[Gateway]:
        """The only gateway, once it is ready and no worker accepts clients but its own; else none."""
        match self._alive():
            case [gateway] if gateway.admin:
                with suppress(OSError, HTTPException):  # it ends
                    worker = gateway.worker()
                    is_ready = gateway.get("/readyz") == (200, "ok\n")
                    if is_ready and worker and self._workers() == {worker.pid}:
                        return [gateway]
        return []

    def _starts_third(self) -> bool:
        """As a service manager, which tries again while an old worker still listens."""
        third = self._gateways["third"]
        third.start()
        if not third.admin:
            third.stop()
        return bool(third.admin)

    def bound(self) -> float:
        """How many messages above the rate all workers may have admitted.

        A full bucket each, and what one admits beside the next until it sees that its term has ended. The
        latter is measured, as it depends on when the kernel lets the process run.
        """
        lives = sorted(self._lives().values())
        beside_s = sum(
            max(0.0, retires_s - next_accepts_s)
            for (_, retires_s), (next_accepts_s, _) in pairwise(lives)
            if retires_s < math.inf
        )
        return BURST * len(lives) + RATE * beside_s

    def _lives(self) -> dict[int, tuple[float, float]]:
        """When each worker began to accept clients, by process id, and when it retired: seconds."""
        lives: dict[int, tuple[float, float]] = {}
        for line in self._noted.read_text().splitlines():
            number, step, at_s = line.split()
            if step == steps_plugin.ACCEPTS:
                lives[int(number)] = (float(at_s), math.inf)
            elif int(number) in lives:
                lives[int(number)] = (lives[int(number)][0], float(at_s))
        return lives

    def _workers(self) -> set[int]:
        """Those of them that live."""
        alive = set()
        for number in self._lives():
            try:
                if psutil.Process(number).status() != psutil.STATUS_ZOMBIE:
                    alive.add(number)
            except psutil.NoSuchProcess:
                pass
        return alive

    def _errors(self) -> str:
        found = [gateway.errors for gateway in self._gateways.values() if gateway.errors.exists()]
        return "\n".join(f"{path.name}:\n{path.read_text()}" for path in found)

    def stop(self) -> None:
        """Kill all processes."""
        begun = [gateway for gateway in self._gateways.values() if hasattr(gateway, "process")]
        for gateway in self._alive():
            gateway.kill()
        for number in self._workers():
            with suppress(ProcessLookupError):
                os.kill(number, signal.SIGKILL)
        for thread in self._starting:
            thread.join()
        for gateway in begun:
            gateway.stop()


def places_taken(port: int) -> int:
    """How many of twice as many producers as there are places get one."""
    clients = [socket.create_connection(("127.0.0.1", port)) for _ in range(2 * PLACES)]
    try:
        for client in clients:
            client.sendall(b"publish places 1\n")
        return sum(client.recv(200).startswith(b"publish") for client in clients)
    finally:
        for client in clients:
            client.close()
