"""Starts the next version of this program, which replaces this process."""

import asyncio
import logging
import os
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path

from sluicegate.host.children import python_command

log = logging.getLogger(__name__)

TAKE_OVER = "--take-over"
_POLL_S = 0.25


def command(argv: Sequence[str]) -> list[str]:
    """The command line of this process with `--take-over`.

    A program that was started by its path is started by the same path, and so with the version and the
    interpreter that are installed there now.
    """
    program, *arguments = argv
    is_module = program.endswith(".py") or not os.access(program, os.X_OK)
    start = python_command("sluicegate") if is_module else [str(Path(program).absolute())]
    return [*start, *arguments, *(() if TAKE_OVER in arguments else (TAKE_OVER,))]


class Successor:
    """Starts the next version on demand, one at a time."""

    def __init__(self) -> None:
        self._watching: asyncio.Task[None] | None = None

    def start(self) -> None:
        """Start it. If it ends before it serves, this process continues."""
        if self._watching is not None and not self._watching.done():
            log.warning("the next version is already starting")
            return
        line = command(sys.argv)
        environ = {name: value for name, value in os.environ.items() if not name.startswith("LISTEN_")}
        log.info("starting the next version", extra={"command": " ".join(line)})
        try:
            process = subprocess.Popen(line, env=environ, stdin=subprocess.DEVNULL)  # noqa: S603
        except OSError as error:
            log.error("the next version cannot be started, continuing: %s", error)
            return
        self._watching = asyncio.get_running_loop().create_task(self._watch(process))

    async def _watch(self, process: "subprocess.Popen[bytes]") -> None:
        while process.poll() is None:  # noqa: ASYNC110 - asyncio would kill it when this process ends
            await asyncio.sleep(_POLL_S)
        log.error("the next version has ended, continuing", extra={"exit_code": process.returncode})

    def close(self) -> None:
        """Stop watching; the process keeps running."""
        if self._watching is not None:
            self._watching.cancel()
