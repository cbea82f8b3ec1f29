"""A worker's process, managed by the supervisor."""

import asyncio
import signal
import socket
from functools import partial
from typing import Any

import pytest
from tests.waiting import LONG_S

from sluicegate.processes.child import WorkerProcess


class _Slow(WorkerProcess):
    """Takes its time to start a process."""

    def __init__(self) -> None:
        super().__init__("b", dict, lambda key, value: None)
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
