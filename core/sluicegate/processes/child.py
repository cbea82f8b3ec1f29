"""The supervisor's end of one worker process: starts it, exchanges messages, restarts it."""

import asyncio
import logging
import signal
import socket
from collections.abc import Callable, Mapping
from contextlib import ExitStack, suppress
from time import monotonic
from typing import Any

from sluicegate.host.children import python_command
from sluicegate.net.listening import descriptors
from sluicegate.net.listening.held_listeners import HeldListeners
from sluicegate.net.listening.latch import Term
from sluicegate.processes import budget_line, messages
from sluicegate.processes.budget_line import BudgetServer
from sluicegate.processes.liveness import end_stuck, next_message
from sluicegate.processes.merging import Snapshot, what_it_counted
from sluicegate.processes.shared_by_workers import Sibling

log = logging.getLogger(__name__)

_FIRST_DELAY_S = 0.1
_LONGEST_DELAY_S = 10.0
_STEADY_S = 5.0
"""A worker that served for this long restarts without delay."""
_SILENT_S = 5.0
"""A worker without a report for this long does not count as ready."""
_UNREAD_LIMIT = 4 * 1024 * 1024
"""Bytes that may wait for a process, of what other workers tell it."""
_START_S = 120.0
"""A process may be silent for this long before its first message: it imports the product and plugins."""


class WorkerFailedError(Exception):
    """A worker could not begin to serve; the message says why."""


class WorkerProcess:
    """The process in front of one broker.

    :param broker: name of its entry.
    :param start_content: gives the first message to a new process.
    :param keep_fact: keeps a key and its value for the broker, and gives the value that is kept.
    :param held: keeps its listening sockets, so that clients wait during a restart.
    :param timeout_s: a process that is silent for longer is stuck, and ended; 0 for never.
    :param term: when it accepts clients; always if None.
    :param sibling: what it shares with other workers of the broker; None if it is the only one.
    """

    def __init__(
        self,
        broker: str,
        start_content: Callable[[], Mapping[str, object]],
        keep_fact: Callable[[str, str], str],
        held: HeldListeners | None = None,
        timeout_s: float = 0.0,
        term: Term | None = None,
        sibling: Sibling | None = None,
    ) -> None:
        self.broker = broker
        self._sibling = sibling
        self._timeout_s = timeout_s
        self._term = term or Term.begun()
        self.held = held or HeldListeners()
        self.restarts = 0
        self.snapshot: dict[str, Any] | None = None
        """What the process reported last; None until it did, and once it has ended."""
        self.counted_before: Snapshot | None = None
        """Of a worker with siblings: the totals of its processes that have ended."""
        self.addresses: dict[str, tuple[str, int]] = {}
        self.began: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """Done once clients can be accepted for the first time; fails with WorkerFailedError."""
        self._start_content = start_content
        self._keep_fact = keep_fact
        self._process: asyncio.subprocess.Process | None = None
        self._leaving: dict[asyncio.subprocess.Process, asyncio.Task[None]] = {}
        """Processes that drain while another one serves."""
        self._writer: asyncio.StreamWriter | None = None
        self._serving = False
        self._has_served = False
        self._drains = False
        self._reported_at = 0.0
        self._failure = ""
        self._handed: dict[str, int] = {}
        """Descriptors that the process was started with, by the name of the listener."""
        self._ending = asyncio.Event()
        self._stopped = asyncio.Event()
        """Set while no process is run or about to be."""
        self._stopped.set()

    @property
    def index(self) -> int | None:
        """Tells it from other workers of the broker; None if it is the only one."""
        return None if self._sibling is None else self._sibling.index

    @property
    def name(self) -> str:
        """The broker's name, and behind a slash its index if the broker has several workers."""
        return self.broker if self.index is None else f"{self.broker}/{self.index}"

    @property
    def labels(self) -> Mapping[str, object]:
        """What log lines about it carry."""
        return {"broker": self.broker, **({} if self.index is None else {"worker": self.index})}

    @property
    def ready(self) -> bool:
        """True while clients are accepted."""
        return self._serving and monotonic() - self._reported_at < _SILENT_S

    @property
    def trouble(self) -> str:
        """Why no clients are accepted; empty if they are."""
        if self.ready:
            return ""
        return "does not respond" if self._serving else "is down"

    @property
    def pid(self) -> int | None:
        """Process id; None while there is no process."""
        process = self._process
        return process.pid if process is not None and process.returncode is None else None

    def tell(self, kind: str, **content: object) -> None:
        """Send a message to the process, if there is one."""
        if self._writer is not None:
            messages.send(self._writer, kind, **content)

    def tell_soon(self, kind: str, **content: object) -> None:
        """Send a message that may be lost: nothing more is kept for a process that hangs."""
        if self._writer is not None and self._writer.transport.get_write_buffer_size() < _UNREAD_LIMIT:
            messages.send(self._writer, kind, **content)

    async def keep_running(self) -> None:
        """Run the process, and start it again whenever it ends, until `end` is called."""
        self._stopped.clear()
        try:
            await self._keep_running()
        finally:
            self._stopped.set()

    async def _keep_running(self) -> None:
        delay = _FIRST_DELAY_S
        while not self._is_over():
            began_at = monotonic()
            try:
                code = await self._run_once()
            except OSError as error:  # too many processes or open files; there may be room again soon
                code, self._failure = None, f"no process can be started: {error.strerror or error}"
            if self._is_over():
                return
            if not self.began.done():
                self.began.set_exception(WorkerFailedError(self._failure or f"exit code {code}"))
                return
            self.restarts += 1
            if self._drains:
                log.warning("worker drains, starting another one", extra=self.labels)
                continue
            if not self._has_served:
                self.held.let_go()  # no process serves for a while: refuse clients rather than let them wait
            if monotonic() - began_at > _STEADY_S:
                delay = _FIRST_DELAY_S
            log.error(
                "worker ended, starting it again",
                extra={**self.labels, "exit_code": code, "reason": self._failure, "delay_s": delay},
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
        self.held.let_go()
        if self._sibling is not None:
            self._sibling.close()
        self.tell("drain", deadline_s=deadline_s)
        processes = self._processes
        try:
            async with asyncio.timeout(deadline_s + 5):
                await asyncio.gather(*(process.wait() for process in processes))
                await self._stopped.wait()
        except TimeoutError:
            log.error("worker did not end in time, killing it", extra=self.labels)
            self.kill()
            await asyncio.gather(*(process.wait() for process in processes))
        await asyncio.gather(*self._leaving.values())

    def kill(self) -> None:
        """Kill the process."""
        self._ending.set()
        for process in self._processes:
            # It may have ended just now.
            with suppress(ProcessLookupError):
                process.send_signal(signal.SIGKILL)

    def _is_over(self) -> bool:
        """Whether no other process is to follow."""
        return self._ending.is_set() or self._term.ends.is_set

    @property
    def _processes(self) -> list[asyncio.subprocess.Process]:
        return [
            process
            for process in (self._process, *self._leaving)
            if process is not None and process.returncode is None
        ]

    async def _run_once(self) -> int | None:
        """Run one process to its end.

        :return: its exit code; negative for a signal; None if it drains without being asked to.
        :raises OSError: if it cannot be started.
        """
        self._failure = ""
        self._has_served = self._drains = False
        process, ours = await self._start()
        reader, writer = await asyncio.open_connection(sock=ours)
        # A signal to the process group ends the worker and its supervisor at once. Until here `end` could not
        # tell the process.
        if self._ending.is_set():
            writer.close()
            process.kill()
            return await process.wait()
        self._writer = writer
        latches = (self._term.begins.fileno(), self._term.ends.fileno())
        shared = {} if self._sibling is None else self._sibling.start_content
        self.tell("start", **self._start_content(), **shared, listeners=self._handed, term=latches)
        budgets = self._budget_server(process, writer)
        timeout_s = self._timeout_s and max(self._timeout_s, _START_S)
        try:
            while not self._drains and (message := await next_message(reader, timeout_s)) is not None:
                timeout_s = self._timeout_s
                if budgets is not None and message["kind"] == budget_line.KIND:
                    await budgets.answer(message)
                else:
                    self._take(message)
        except TimeoutError:
            self._failure = "it did not respond"
            await self._end_stuck(process, reader)
        except messages.BrokenMessageError as error:
            log.error("worker sent something that is no message", extra={**self.labels, "error": str(error)})
            process.kill()
        self._serving = False
        if self._sibling is not None and self.snapshot is not None:
            self.counted_before = what_it_counted(self.snapshot, self.counted_before)
        self._writer = self.snapshot = None
        if self._drains:
            seeing_off = self._see_off(process, reader, writer, budgets)
            self._leaving[process] = asyncio.ensure_future(seeing_off)
            return None
        return await _ended(process, writer, budgets)

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        """Start a process with its listening sockets; returns it and our end of the socket to it."""
        inherited = self.held.sockets
        self._handed = {name: bound.fileno() for name, bound in inherited.items()}
        with ExitStack() as opened:
            ours, theirs = map(opened.enter_context, socket.socketpair())
            heard, reports = map(opened.enter_context, descriptors.pair())
            heard.setblocking(False)
            self._process = process = await asyncio.create_subprocess_exec(
                *python_command(
                    "sluicegate.processes.worker_main", str(theirs.fileno()), str(reports.fileno())
                ),
                stdin=asyncio.subprocess.DEVNULL,
                pass_fds=(
                    theirs.fileno(),
                    reports.fileno(),
                    self._term.begins.fileno(),
                    self._term.ends.fileno(),
                    *self._handed.values(),
                    *(() if self._sibling is None else self._sibling.descriptors),
                ),
            )
            opened.pop_all()
        # Only the worker keeps its ends, so that ours notice when it is gone.
        theirs.close()
        reports.close()
        self.held.follow(heard)
        return process, ours

    async def _see_off(
        self,
        process: asyncio.subprocess.Process,
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        budgets: BudgetServer | None = None,
    ) -> None:
        """Wait for a draining process to end; its facts are kept."""
        try:
            while (message := await next_message(reader, self._timeout_s)) is not None:
                if message["kind"] == "fact":
                    self._learn(message)
                elif budgets is not None and message["kind"] == budget_line.KIND:
                    await budgets.answer(message)
        except TimeoutError:
            await self._end_stuck(process, reader)
        except messages.BrokenMessageError:
            pass
        await _ended(process, writer, budgets)
        del self._leaving[process]

    async def _end_stuck(self, process: asyncio.subprocess.Process, reader: asyncio.StreamReader) -> None:
        stack = await end_stuck(process, reader)
        log.error(
            "worker does not respond, ending it",
            extra={**self.labels, "pid": process.pid, "stack": stack},
        )

    def _take(self, message: Mapping[str, Any]) -> None:
        self._reported_at = monotonic()
        match message["kind"]:
            case "ready":
                self._serving = self._has_served = True
                self.addresses = {name: (host, port) for name, (host, port) in message["addresses"].items()}
                if not self.began.done():
                    self.began.set_result(None)
            case "snapshot":
                self.snapshot = message["snapshot"]
            case "fact":
                self._learn(message)
            case "told":
                if self._sibling is not None:
                    self._sibling.tell_others("told", of=message["of"], content=message["content"])
            case "failed":
                self._failure = message["reason"]
            case "draining":
                self._serving = False
                # One that was asked to drain is to have no successor.
                self._drains = not self._is_over()

    def _learn(self, message: Mapping[str, Any]) -> None:
        """Keep a fact, and let the other workers of the broker know it; or this one, if another was first."""
        key, value = message["key"], message["value"]
        kept = self._keep_fact(key, value)
        if kept != value:
            self.tell("fact", key=key, value=kept)
        elif self._sibling is not None:
            self._sibling.tell_others("fact", key=key, value=value)

    def _budget_server(
        self, process: asyncio.subprocess.Process, writer: asyncio.StreamWriter
    ) -> BudgetServer | None:
        return None if self._sibling is None else self._sibling.budget_server(process.pid, writer)


async def _ended(
    process: asyncio.subprocess.Process, writer: asyncio.StreamWriter, budgets: BudgetServer | None
) -> int:
    """The exit code of a process whose line has ended; it holds nothing any more."""
    if budgets is not None:
        await budgets.ended()
    writer.close()
    return await process.wait()
