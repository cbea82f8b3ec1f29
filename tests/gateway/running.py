"""`sluicegate run` as a process, in front of an upstream that echoes."""

import os
import re
import socket
import subprocess
import sys
import urllib.error
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import Thread

import psutil
from tests.gateway.lab import module_path
from tests.waiting import LONG_S

from sluicegate.runtime.plugins import CHOICE

FILE = """\
brokers:
  - name: b1
    system: echo
    bootstrap: ["127.0.0.1:{upstream}"]
    listen: {{port: {port}}}
    max_hold: 5s
    greeting: "{greeting}"
    workers: {workers}
plugins: [{plugins}]
state_dir: {state}
admin: {{port: 0}}
policies:
  broker: {{max_message_size: {size}}}
"""

_ACTIVATE = """
import os, sys
os.dup2(int(sys.argv[1]), 3)
os.environ.update(LISTEN_PID=str(os.getpid()), LISTEN_FDS="1")
os.execv(sys.argv[2], sys.argv[2:])
"""


def _is_worker(process: psutil.Process) -> bool:
    try:
        return "sluicegate.processes.worker_main" in process.cmdline()
    except psutil.Error:  # it has just ended
        return False


class Gateway:
    """The command, running in a directory."""

    def __init__(self, directory: Path, upstream: int, port: int) -> None:
        self.directory = directory
        self.path = directory / "gateway.yaml"
        self.more = ""
        """Further keys of the file."""
        self.workers: int | str = 1
        self.plugins = "tests.gateway.echo_plugin"
        self.environ: dict[str, str] = {}
        self.admin = ""
        self.upstream, self.port = upstream, port
        self.errors = directory / "errors.txt"
        self.write("100")

    def write(self, size: str, greeting: str = "") -> None:
        text = FILE.format(
            upstream=self.upstream,
            port=self.port,
            plugins=self.plugins,
            state=self.directory,
            size=size,
            greeting=greeting,
            workers=self.workers,
        )
        self.path.write_text(text + self.more)

    def start(self, *options: str, through: tuple[str, ...] = (), pass_fds: tuple[int, ...] = ()) -> None:
        """Start it, and wait for its line or its end.

        :param through: a command that becomes the gateway in the end.
        """
        command: list[str | Path] = [
            Path(sys.executable).with_name("sluicegate"),
            "run",
            "-c",
            self.path,
            *options,
        ]
        with self.errors.open("a") as errors:
            self.process = subprocess.Popen(
                [*through, *command],
                pass_fds=pass_fds,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                env={**os.environ, "PYTHONPATH": module_path(), CHOICE: "", **self.environ},
            )
        assert self.process.stdout is not None
        self.ready = self.process.stdout.readline()
        found = re.search(r"https?://\S+", self.ready)
        self.admin = found[0] if found else ""

    def activate_with(self, listening: socket.socket) -> None:
        """Start it as systemd does that listens for it."""
        number = listening.fileno()
        self.start(through=(sys.executable, "-c", _ACTIVATE, str(number)), pass_fds=(number,))

    def get(self, path: str) -> tuple[int, str]:
        try:
            with urllib.request.urlopen(self.admin + path, timeout=LONG_S) as response:
                return response.status, response.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    def all_workers(self) -> list[psutil.Process]:
        children = psutil.Process(self.process.pid).children()
        return [child for child in children if _is_worker(child)]

    def worker(self) -> psutil.Process | None:
        return next(iter(self.all_workers()), None)

    def refused(self, size: int) -> bool:
        """Whether a message of this size is refused."""
        with socket.create_connection(("127.0.0.1", self.port), timeout=LONG_S) as client:
            client.sendall(b"publish t %d\n" % size)
            return client.recv(200).startswith(b"refused")

    def kill(self) -> None:
        for child in psutil.Process(self.process.pid).children():
            with suppress(psutil.NoSuchProcess):
                child.kill()
        self.process.kill()

    def stop(self) -> None:
        if self.process.poll() is None:
            self.kill()
        self.process.wait()
        assert self.process.stdout is not None
        self.process.stdout.close()


@contextmanager
def echoing() -> Iterator[int]:
    """A broker that echoes, in threads."""

    def serve(client: socket.socket) -> None:
        with client, suppress(ConnectionError):  # a worker was killed
            while data := client.recv(65536):
                client.sendall(data)

    def accept() -> None:
        while True:
            try:
                client, _ = server.accept()
            except OSError:
                return
            Thread(target=serve, args=(client,), daemon=True).start()

    with socket.create_server(("127.0.0.1", 0)) as server:
        Thread(target=accept, daemon=True).start()
        yield server.getsockname()[1]
        server.shutdown(socket.SHUT_RDWR)
