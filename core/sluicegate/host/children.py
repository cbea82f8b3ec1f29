"""Child processes of Python: their command line, and both ends of lines of JSON between child and parent.

A child that talks so exits when its standard input is closed, so it does not outlive a parent that is killed.
"""

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

_STOP_S = 15.0
_LAST_LINES = 5
_LONGEST_LINE = 16 << 20


def python_command(module: str, *arguments: str) -> list[str]:
    """The command line that runs a module in another process, with this interpreter.

    `-P` keeps the working directory off the module path: without it, a file there that has the name of a
    module of the standard library would be executed. Folders in `PYTHONPATH` are searched as ever.

    :param arguments: those of the module.
    """
    return [sys.executable, "-P", "-m", module, *arguments]


class ChildError(Exception):
    """A child exited or stopped responding; the message names it and has its last lines of output."""


class Child:
    """The parent's end; an asynchronous context manager that starts and stops the process.

    :param name: for messages.
    :param module: the module to run with `python -m`.
    :param arguments: its arguments.
    :param log: file for its standard error.
    """

    def __init__(self, name: str, module: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self.argv = python_command(module, *arguments)
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        """Start it."""
        with self._log.open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_LONGEST_LINE,
                # Ctrl-C reaches the parent alone, which then ends its children in order.
                start_new_session=True,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        """Close its input, and kill it if it does not end in time."""
        process = self._running
        if process.stdin is not None:
            # The end of its input has it end in order: killed, it would leave its own children behind.
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except (TimeoutError, asyncio.CancelledError):
            with suppress(ProcessLookupError):
                process.kill()
            # Nothing waits for the process later: reap it now.
            await process.wait()
            if kind is None:
                raise

    @property
    def _running(self) -> asyncio.subprocess.Process:
        if self._process is None:
            raise RuntimeError(f"{self.name} was not started")
        return self._process

    async def tell(self, command: Mapping[str, Any]) -> None:
        """Send it a line."""
        stdin = self._running.stdin
        if stdin is not None:
            # It may have ended by itself. Its log says why, and the next read notices it.
            with suppress(ConnectionError):
                stdin.write(json.dumps(command).encode() + b"\n")
                await stdin.drain()

    async def hear(
        self, key: str, within_s: float, other: Callable[[Mapping[str, Any]], None] | None = None
    ) -> Any:
        """Wait for a line that has a key.

        :param within_s: longest silence, in seconds.
        :param other: receives lines without the key.
        :return: the whole line.
        :raises ChildError: if the process exits or is silent for longer.
        """
        stdout = self._running.stdout
        assert stdout is not None  # noqa: S101 - it was started with a pipe
        while True:
            try:
                line = await asyncio.wait_for(stdout.readline(), within_s)
            except TimeoutError:
                raise ChildError(f"{self.name} said nothing for {within_s:.0f} s") from None
            if not line:
                await asyncio.wait_for(self._running.wait(), _STOP_S)
                raise ChildError(f"{self.name} ended; its last words: {self.last_words()}")
            message = json.loads(line)
            if key in message:
                return message
            if other is not None:
                other(message)

    def last_words(self) -> str:
        """Its last lines on standard error."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-_LAST_LINES:]) or "(none)"


def say(message: Mapping[str, Any]) -> None:
    """Send the parent a line; called in the child."""
    sys.stdout.write(json.dumps(message) + "\n")  # noqa: TID251 - a pipe to the parent
    sys.stdout.flush()


async def commands() -> AsyncIterator[Mapping[str, Any]]:
    """The parent's lines until it closes the pipe; called in the child."""
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    loop = asyncio.get_running_loop()
    await loop.connect_read_pipe(lambda: asyncio.StreamReaderProtocol(reader), sys.stdin)
    while line := await reader.readline():
        command: Mapping[str, Any] = json.loads(line)
        yield command
