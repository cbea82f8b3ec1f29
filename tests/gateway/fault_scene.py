"""Gateways of one directory under load, one of whose processes dies or stops at a named step."""

import math
import os
import signal
import socket
import time
import urllib.error
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Thread

import psutil
from tests.gateway import steps_plugin
from tests.gateway.lab import closed_port
from tests.gateway.running import Gateway
from tests.waiting import until

RATE, BURST, PLACES = 20, 10, 3
_POLICIES = f"""\
  topics:
    - name: rated
      max_publish_rate: {RATE}/s
      burst_seconds: {BURST / RATE}
      on_limit: {{max_publish_rate: reject}}
    - {{name: places, max_producers_per_topic: {PLACES}}}
"""
_PATIENCE_S = 0.2
"""How long a client waits, as a stopped process answers none. What it then misses is not counted."""
_ATTEMPTS = 100


class Load:
    """Clients that publish all the time to the topic `rated`."""

    def __init__(self, port: int) -> None:
        self._port = port
        self._admitted: list[tuple[float, float]] = []
        """When each message was sent and answered, seconds; the gate decided between them."""
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

    def assert_law(self, workers: int, since_s: float = 0.0) -> None:
        """Fail if more was admitted in a window than the rate and the full buckets of so many workers allow.

        :param since_s: only in windows that begin later.
        """
        admitted = [times for times in tuple(self._admitted) if times[0] >= since_s]
        above = excess(admitted)
        assert above <= BURST * workers, f"{above:.1f} messages above the rate, with {workers} workers"

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
        self._struck, self._accepting = directory / "struck", directory / "accepting"
        self._accepting.touch()
        self._starting: list[Thread] = []
        which, _, role = process.partition(" ")
        port = closed_port()
        self.load = Load(port)
        self._gateways = {name: Gateway(directory, upstream, port) for name in ("old", "new", "third")}
        for name, gateway in self._gateways.items():
            gateway.errors = directory / f"errors-{name}.txt"
            gateway.plugins = "tests.gateway.echo_plugin, tests.gateway.steps_plugin"
            gateway.more = _POLICIES
            gateway.environ = {steps_plugin.ACCEPTING: str(self._accepting)}
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
        process = int(self._struck.read_text())
        if psutil.pid_exists(process):
            os.kill(process, signal.SIGCONT)

    def settle(self) -> Gateway:
        """Return the one gateway that serves in the end; if none is left, another one is started."""
        until(lambda: len(self._alive()) == 0 or self._is_settled(), tell=self._errors)
        if not self._alive():
            until(self._starts_third, tell=self._errors)
        [gateway] = self._alive()
        until(lambda: self._workers() == {worker.pid for worker in [gateway.worker()] if worker})
        return gateway

    def _alive(self) -> list[Gateway]:
        return [
            gateway
            for gateway in self._gateways.values()
            if hasattr(gateway, "process") and gateway.process.poll() is None
        ]

    def _is_settled(self) -> bool:
        match self._alive():
            case [gateway] if gateway.admin:
                try:
                    return gateway.get("/readyz") == (200, "ok\n")
                except (urllib.error.URLError, OSError):  # it ends
                    return False
        return False

    def _starts_third(self) -> bool:
        """As a service manager, which tries again while an old worker still listens."""
        third = self._gateways["third"]
        third.start()
        return bool(third.admin) or third.process.wait() == 0

    def accepted(self) -> set[int]:
        """The workers that have begun to accept clients, by process id."""
        return {int(line) for line in self._accepting.read_text().split()}

    def _workers(self) -> set[int]:
        """Those of them that live."""
        alive = set()
        for number in self.accepted():
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
