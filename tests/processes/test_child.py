"""A worker's process, managed by the supervisor."""

import asyncio
import socket

from tests.waiting import LONG_S

from sluicegate.processes.child import WorkerProcess


class _Slow(WorkerProcess):
    """Takes its time to start a process."""

    def __init__(self) -> None:
        super().__init__("b", dict, lambda key, value: None)
        self.may_start = asyncio.Event()
        self.process: asyncio.subprocess.Process | None = None

    async def _start(self) -> tuple[asyncio.subprocess.Process, socket.socket]:
        await self.may_start.wait()
        self.process, line = await super()._start()
        return self.process, line


async def test_a_child_that_starts_during_shutdown_is_ended() -> None:
    worker = _Slow()
    running = asyncio.ensure_future(worker.keep_running())
    await asyncio.sleep(0)
    ending = asyncio.ensure_future(worker.end(1))
    await asyncio.sleep(0)
    worker.may_start.set()
    try:
        async with asyncio.timeout(LONG_S):
            await ending
            assert worker.process is not None
            assert worker.process.returncode is not None
            await running
    finally:
        worker.kill()
