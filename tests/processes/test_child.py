"""A worker's process, managed by the supervisor."""

import asyncio
import errno
import signal
import socket
import sys
from functools import partial
from typing import Any

import pytest
from tests.waiting import LONG_S, until_so

from sluicegate.processes.child import WorkerFailedError, WorkerProcess


class _Slow(WorkerProcess):
    """Takes its time to start a process."""

    def __init__(self) -> None:
        super().__init__("b", dict, lambda key, value: value)
        self.starts = asyncio.Event()
        self.may_start = asyncio.Event()
        self.process: asyncio.subprocess.Process | None = None

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        self.starts.set()
        await self.may_start.wait()
        self.process, line = await super()._start()
        return self.process, line


@pytest.mark.parametrize("already_runs", [False, True])
async def test_a_child_that_starts_during_shutdown_is_ended(
    monkeypatch: pytest.MonkeyPatch, already_runs: bool
) -> None:
    """Before its process runs, or before the process can be told anything."""
    worker, connects, may_connect = _Slow(), asyncio.Event(), asyncio.Event()

    async def connected(connect: Any, **line: socket.socket) -> Any:
        connects.set()
        await may_connect.wait()
        return await connect(**line)

    monkeypatch.setattr(asyncio, "open_connection", partial(connected, asyncio.open_connection))
    running = asyncio.ensure_future(worker.keep_running())
    try:
        async with asyncio.timeout(LONG_S):
            await worker.starts.wait()
            if already_runs:
                worker.may_start.set()
                await connects.wait()
            ending = asyncio.ensure_future(worker.end(2 * LONG_S))
            await asyncio.sleep(0)
            worker.may_start.set()
            may_connect.set()
            await ending
            await running
        assert worker.process is not None
        assert worker.process.returncode == -signal.SIGKILL
    finally:
        worker.kill()


def note_lines(monkeypatch: pytest.MonkeyPatch) -> list[socket.socket]:
    """Returns all ends of the sockets between the supervisor and its workers, as they are opened."""
    opened: list[socket.socket] = []
    pair = socket.socketpair

    def noted(*kind: int) -> tuple[socket.socket, socket.socket]:
        ends = pair(*kind)
        opened.extend(ends)
        return ends

    monkeypatch.setattr(socket, "socketpair", noted)
    return opened


def start_fails(monkeypatch: pytest.MonkeyPatch, times: int) -> list[int]:
    """Have so many starts of a process fail, and later ones not end; returns the number of starts."""
    starts = [0]

    async def start(*_: str, **__: object) -> None:
        starts[0] += 1
        if starts[0] <= times:
            raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")
        await asyncio.Event().wait()

    monkeypatch.setattr(asyncio, "create_subprocess_exec", start)
    return starts


async def test_a_start_that_fails_is_tried_again(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    lines = note_lines(monkeypatch)
    worker, starts = WorkerProcess("b", dict, lambda key, value: value), start_fails(monkeypatch, times=2)
    worker.began.set_result(None)  # it served before
    running = asyncio.ensure_future(worker.keep_running())
    await until_so(lambda: starts[0] == 3 or running.done())
    assert not running.done()
    assert worker.restarts == 2
    assert [vars(record)["reason"] for record in caplog.records] == [
        "no process can be started: Resource temporarily unavailable"
    ] * 2
    assert [vars(record)["exit_code"] for record in caplog.records] == [None] * 2
    *failed, ours, _, heard, _ = lines
    assert [line.fileno() for line in failed] == [-1] * 8
    assert -1 not in (ours.fileno(), heard.fileno())
    running.cancel()
    await asyncio.wait([running])
    assert (ours.fileno(), heard.fileno()) == (-1, -1)


async def test_without_a_first_process_the_worker_has_failed(monkeypatch: pytest.MonkeyPatch) -> None:
    lines = note_lines(monkeypatch)
    worker, starts = WorkerProcess("b", dict, lambda key, value: value), start_fails(monkeypatch, times=1)
    running = asyncio.ensure_future(worker.keep_running())
    await asyncio.wait((running, worker.began), return_when=asyncio.FIRST_COMPLETED)
    assert worker.began.done()
    with pytest.raises(WorkerFailedError, match="be started: Resource temporarily unavailable"):
        await worker.began
    await running
    assert starts == [1]
    assert [line.fileno() for line in lines] == [-1] * 4


async def test_a_worker_that_has_ended_has_no_process_and_no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    start, starts = asyncio.create_subprocess_exec, [0]

    async def ends(*_: str, **options: Any) -> asyncio.subprocess.Process:
        starts[0] += 1
        if starts[0] > 1:
            await asyncio.Event().wait()
        return await start(sys.executable, "-c", "", stdin=options["stdin"])

    monkeypatch.setattr(asyncio, "create_subprocess_exec", ends)
    worker = WorkerProcess("b", dict, lambda key, value: value)
    worker.began.set_result(None)  # it served before
    worker.snapshot = {"gauges": {"connections": 500, "broker_up": 1}}
    running = asyncio.ensure_future(worker.keep_running())
    await until_so(lambda: starts[0] == 2)
    assert not worker.snapshot
    assert worker.pid is None
    running.cancel()
    await asyncio.wait([running])
