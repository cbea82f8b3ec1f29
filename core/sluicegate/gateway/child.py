"""One worker process as the supervisor sees it: started, told, listened to, started again."""

import asyncio
import logging
import signal
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from time import monotonic
from typing import Any

from sluicegate.gateway import messages

log = logging.getLogger(__name__)

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 10.0
_STEADY_S = 30.0
"""A worker that served so long starts anew without delay."""
_SILENT_S = 5.0
"""A worker that has not reported for so long does not count as ready."""


class WorkerFailedError(Exception):
    """A worker could not begin to serve; the message says why."""


class WorkerProcess:
    """The process in front of one broker.

    :param broker: name of its entry.
    :param start_content: gives what a new process is to be told.
    :param keep_fact: keeps a key and its value for the broker.
    """

    def __init__(
        self,
        broker: str,
        start_content: Callable[[], Mapping[str, object]],
        keep_fact: Callable[[str, str], None],
    ) -> None:
        self.broker = broker
        self.restarts = 0
        self.snapshot: dict[str, Any] | None = None
        self.addresses: dict[str, tuple[str, int]] = {}
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once clients are accepted for the first time; fails with WorkerFailedError."""
        self._start_content = start_content
        self._keep_fact = keep_fact
        self._process: asyncio.subprocess.Process | None = None
        self._writer: asyncio.StreamWriter | None = None
        self._serving = False
        self._reported_at = 0.0
        self._failure = ""
        self._ending = asyncio.Event()

    @property
    def ready(self) -> bool:
        """True while clients are accepted."""
        return self._serving and monotonic() - self._reported_at < _SILENT_S

    @property
    def pid(self) -> int | None:
        """Process id; None while there is no process."""
        return self._process.pid if self._process is not None else None

    def tell(self, kind: str, **content: object) -> None:
        """Send a message to the process, if there is one."""
        if self._writer is not None:
            messages.send(self._writer, kind, **content)

    async def keep_running(self) -> None:
        """Run the process, and start it again whenever it ends, until `end` is called."""
        delay = _FIRST_DELAY_S
        while not self._ending.is_set():
            began_at = monotonic()
            code = await self._run_once()
            if self._ending.is_set():
                return
            if not self.began.done():
                self.began.set_exception(WorkerFailedError(self._failure or f"exit code {code}"))
                return
            self.restarts += 1
            if monotonic() - began_at > _STEADY_S:
                delay = _FIRST_DELAY_S
            log.error(
                "worker ended, starting it again",
                extra={"broker": self.broker, "exit_code": code, "reason": self._failure, "delay_s": delay},
            )
            with suppress(TimeoutError):
                async with asyncio.timeout(delay):
                    await self._ending.wait()
            delay = min(2 * delay, _LONGEST_DELAY_S)

    async def end(self, deadline_s: float) -> None:
        """Have the process drain and end; kill it if it takes too long.

        :param deadline_s: time for draining, in seconds.
        """
        self._ending.set()
        self.tell("drain", deadline_s=deadline_s)
        process = self._process
        if process is None or process.returncode is not None:
            return
        try:
            async with asyncio.timeout(deadline_s + 5):
                await process.wait()
        except TimeoutError:
            log.error("worker did not end in time, killing it", extra={"broker": self.broker})
            self.kill()
            await process.wait()

    def kill(self) -> None:
        """Kill the process."""
        self._ending.set()
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(signal.SIGKILL)

    async def _run_once(self) -> int:
        """Run one process to its end.

        :return: its exit code; negative for a signal.
        """
        self._failure = ""
        ours, theirs = socket.socketpair()
        with theirs:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-m",
                "sluicegate.gateway.worker_main",
                str(theirs.fileno()),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(theirs.fileno(),),
            )
        reader, self._writer = await asyncio.open_connection(sock=ours)
        self.tell("start", **self._start_content())
        try:
            while (message := await messages.receive(reader)) is not None:
                self._take(message)
        except messages.BrokenMessageError as error:
            log.error(
                "worker sent something that is no message", extra={"broker": self.broker, "error": str(error)}
            )
            self._process.kill()
        self._serving = False
        self._writer.close()
        self._writer = None
        return await self._process.wait()

    def _take(self, message: Mapping[str, Any]) -> None:
        self._reported_at = monotonic()
        match message["kind"]:
            case "ready":
                self._serving = True
                self.addresses = {name: (host, port) for name, (host, port) in message["addresses"].items()}
                if not self.began.done():
                    self.began.set_result(None)
            case "snapshot":
                self.snapshot = message["snapshot"]
            case "fact":
                self._keep_fact(message["key"], message["value"])
            case "failed":
                self._failure = message["reason"]
            case "draining":
                self._serving = False
