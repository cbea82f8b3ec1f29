"""Child processes that report when they are ready and that always end."""

import contextlib
import os
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self


class UnavailableError(Exception):
    """Something cannot run here; its text is the reason that is shown."""


class Child:
    """One long-running process with its output in a file; a context manager that ends it."""

    def __init__(
        self, name: str, argv: Sequence[str | Path], log: Path, env: Mapping[str, str] | None = None
    ) -> None:
        self.name = name
        self.log = log
        with log.open("wb") as output:
            self._process = subprocess.Popen(  # noqa: S603 - its arguments are the runner's own
                [str(part) for part in argv],
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                env={**os.environ, **(env or {})},
                # A group of its own: Ctrl-C reaches the harness alone, which then ends the whole group.
                start_new_session=True,
            )

    @property
    def pid(self) -> int:
        """Process id of the root of the tree."""
        return self._process.pid

    def wait_until(self, ready: Callable[[], bool], failure: str, timeout_s: float) -> None:
        """Return once `ready` returns True.

        :param failure: the error text after a time-out, such as "did not listen".
        :raises UnavailableError: if the process ends or `timeout_s` passes before that.
        """
        deadline = time.monotonic() + timeout_s
        while not ready():
            code = self._process.poll()
            if code is not None or time.monotonic() > deadline:
                ended = f"ended with code {code}" if code is not None else f"{failure} in {timeout_s:.0f} s"
                raise UnavailableError(f"{self.name} {ended}; its last lines: {self._last_lines()}")
            time.sleep(0.05)

    def wait_for(self, marker: str, timeout_s: float) -> None:
        """Return once `marker` appears in the output.

        :raises UnavailableError: if the process ends or `timeout_s` passes before that.
        """
        self.wait_until(lambda: marker in self._output(), f"did not print {marker!r}", timeout_s)

    def wait_for_port(self, port: int, timeout_s: float) -> None:
        """Return once something accepts on 127.0.0.1:`port`; raises as `wait_for` does."""
        self.wait_until(lambda: _accepts(port), f"did not listen on port {port}", timeout_s)

    def send_signal(self, number: signal.Signals) -> None:
        """Send a signal to the group; nothing if it is gone."""
        with contextlib.suppress(ProcessLookupError):
            os.killpg(self.pid, number)

    def stop(self, grace_s: float = 10) -> None:
        """Ask the group to end, and kill it after `grace_s`; calling it again does nothing."""
        self.send_signal(signal.SIGTERM)
        try:
            self._process.wait(grace_s)
        except subprocess.TimeoutExpired:
            self.send_signal(signal.SIGKILL)
            self._process.wait()
        self.send_signal(signal.SIGKILL)  # members of the group that outlived its leader

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    def _output(self) -> str:
        return self.log.read_text(errors="replace")

    def _last_lines(self) -> str:
        return " | ".join(self._output().strip().splitlines()[-5:]) or "(no output)"


def run_tool(argv: Sequence[str | Path], timeout_s: float, env: Mapping[str, str] | None = None) -> str:
    """Run a program to its end and return what it printed.

    :raises RuntimeError: if it fails or takes longer than `timeout_s`; the text holds its last lines.
    """
    command = [str(part) for part in argv]
    with subprocess.Popen(  # noqa: S603 - as above
        command,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        env={**os.environ, **(env or {})},
        start_new_session=True,
    ) as process:
        try:
            output, _ = process.communicate(timeout=timeout_s)
        except BaseException as error:
            os.killpg(process.pid, signal.SIGKILL)
            if isinstance(error, subprocess.TimeoutExpired):
                raise RuntimeError(f"{command[0]!r} took longer than {timeout_s:.0f} s: {command}") from None
            raise
    if process.returncode != 0:
        raise RuntimeError(f"{command} ended with code {process.returncode}: {output[-2000:]}")
    return output


def _accepts(port: int) -> bool:
    with socket.socket() as probe:
        probe.settimeout(1)
        return probe.connect_ex(("127.0.0.1", port)) == 0
