"""Processes that the runner starts, talks to, and surely ends."""

import asyncio
import json
import os
import sys
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from types import TracebackType
from typing import Any, Self

from sluicegate_reports.runner.brokers.processes import UnavailableError

_STOP_S = 15.0
_CLOCK_ASKS = 7
_LAST_LINES = 5
_LONGEST_LINE = 1 << 20


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """By how much a process's clock differs from the runner's."""

    offset_us: float
    """Its clock minus the runner's, in microseconds."""
    uncertainty_us: float
    """The true offset lies this far from it at most, in microseconds."""


def clock_offset(before_ns: int, theirs_ns: int, after_ns: int) -> ClockOffset:
    """What one question for the time tells: the answer was made between asking and hearing it."""
    middle = (before_ns + after_ns) / 2
    return ClockOffset((theirs_ns - middle) / 1000, (after_ns - before_ns) / 2000)


class Talker:
    """A child process that talks in lines of JSON; an asynchronous context manager that ends it.

    It ends by itself when its standard input does, so nothing is left behind if the runner is killed.

    :param name: for messages.
    :param module: what is run, by `python -m`.
    :param arguments: its arguments.
    :param log: file for what it prints on standard error.
    """

    def __init__(self, name: str, module: str, arguments: Sequence[str], log: Path) -> None:
        self.name = name
        self.argv = (sys.executable, "-m", module, *arguments)
        self._log = log
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        with self._log.open("wb") as errors:
            self._process = await asyncio.create_subprocess_exec(
                *self.argv,
                stdin=asyncio.subprocess.PIPE,
                stdout=asyncio.subprocess.PIPE,
                stderr=errors,
                limit=_LONGEST_LINE,
                env={**os.environ, "PYTHONSAFEPATH": "1"},
                # Ctrl-C reaches the runner alone, which then ends its processes in order.
                start_new_session=True,
            )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        process = self._running
        if process.stdin is not None:
            process.stdin.close()
        try:
            await asyncio.wait_for(process.wait(), _STOP_S)
        except (TimeoutError, asyncio.CancelledError):
            with suppress(ProcessLookupError):
                process.kill()
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
            with suppress(ConnectionError):
                stdin.write(json.dumps(command).encode() + b"\n")
                await stdin.drain()

    async def hear(
        self, key: str, within_s: float, other: Callable[[Mapping[str, Any]], None] | None = None
    ) -> Any:
        """The next line that has a key.

        :param other: is given lines without it.
        :return: the whole line.
        :raises UnavailableError: if the process ends or is silent for so long; with its last words.
        """
        stdout = self._running.stdout
        assert stdout is not None  # noqa: S101 - it was started with a pipe
        while True:
            try:
                line = await asyncio.wait_for(stdout.readline(), within_s)
            except TimeoutError:
                raise UnavailableError(f"{self.name} said nothing for {within_s:.0f} s") from None
            if not line:
                await asyncio.wait_for(self._running.wait(), _STOP_S)
                raise UnavailableError(f"{self.name} ended; its last words: {self.last_words()}")
            found = json.loads(line)
            if key in found:
                return found
            if other is not None:
                other(found)

    async def clock(self, within_s: float = 10.0) -> ClockOffset:
        """By how much its clock differs from this process's: of several answers the fastest."""
        found = []
        for _ in range(_CLOCK_ASKS):
            before = time.time_ns()
            await self.tell({"ask": "clock"})
            answer = await self.hear("clock_ns", within_s)
            found.append(clock_offset(before, answer["clock_ns"], time.time_ns()))
        return min(found, key=lambda each: each.uncertainty_us)

    def last_words(self) -> str:
        """The last lines that it printed on standard error."""
        lines = self._log.read_text(errors="replace").strip().splitlines()
        return " | ".join(lines[-_LAST_LINES:]) or "(none)"
