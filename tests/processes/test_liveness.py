"""What a supervisor makes of a worker that is silent."""

import asyncio
import signal
import socket
import sys
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.waiting import LONG_S

from sluicegate.processes import liveness, messages
from sluicegate.processes.child import WorkerProcess
from sluicegate.processes.liveness import end_stuck, next_message

_STUCK = """
import sys, threading, time
from sluicegate.processes.liveness import show_stack_when_asked

def spins():
    print(flush=True)
    while True:
        pass

def waits():
    lock = threading.Lock()
    lock.acquire()
    print(flush=True)
    lock.acquire()

threading.Thread(target=time.sleep, args=(600,), daemon=True).start()
show_stack_when_asked(int(sys.argv[1]))
globals()[sys.argv[2]]()
"""


def framed(kind: str) -> bytes:
    data = messages.encode(kind)
    return len(data).to_bytes(4) + data


async def test_messages_are_read_until_the_worker_ends() -> None:
    reader = asyncio.StreamReader()
    reader.feed_data(framed("beat") + framed("ready"))
    reader.feed_eof()
    assert await next_message(reader, 0) == {"kind": "beat"}
    assert await next_message(reader, LONG_S) == {"kind": "ready"}
    assert await next_message(reader, LONG_S) is None


async def test_silence_ends_the_wait_and_leaves_the_rest_to_be_read() -> None:
    reader = asyncio.StreamReader()
    with pytest.raises(TimeoutError):
        await next_message(reader, 0.03)
    reader.feed_data(b"its stack")
    assert await reader.read(100) == b"its stack"


async def test_time_in_which_the_supervisor_did_not_run_does_not_count() -> None:
    """As that of a suspended machine: the worker could say nothing, or what it said is still to be read."""
    reader = asyncio.StreamReader()
    receiving = asyncio.ensure_future(next_message(reader, 0.3))
    await asyncio.sleep(0)
    time.sleep(1)  # noqa: ASYNC251 - the loop is to stand still
    reader.feed_data(framed("beat"))
    assert await receiving == {"kind": "beat"}


@asynccontextmanager
async def stuck(
    how: str,
) -> AsyncIterator[tuple[asyncio.subprocess.Process, asyncio.StreamReader, asyncio.StreamWriter]]:
    """A process that is stuck in a function, and its supervisor's line to it."""
    ours, theirs = socket.socketpair()
    with theirs:
        theirs.setblocking(False)
        process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-P", "-c", _STUCK, str(theirs.fileno()), how),
            stdout=asyncio.subprocess.PIPE,
            pass_fds=(theirs.fileno(),),
        )
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        assert process.stdout is not None
        await asyncio.wait_for(process.stdout.readline(), LONG_S)
        yield process, reader, writer
    finally:
        writer.close()
        if process.returncode is None:
            process.kill()
        await process.wait()


@pytest.mark.parametrize("how", ["spins", "waits"])
async def test_the_stack_of_a_stuck_worker_is_shown_and_it_ends(
    monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(liveness, "_ANSWER_S", LONG_S)
    async with stuck(how) as (process, reader, writer):
        writer.write(b"it never reads this")
        stack = await end_stuck(process, reader)
        innermost, outermost = stack.split(", ")
        assert innermost.startswith("<string>:")
        assert innermost.endswith(f" {how}")
        assert outermost.endswith(" <module>")
        assert await process.wait() != 0


async def test_a_stopped_worker_ends_without_its_stack(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(liveness, "_ANSWER_S", 0.1)
    async with stuck("spins") as (process, reader, _):
        process.send_signal(signal.SIGSTOP)
        assert "wrote none" in await end_stuck(process, reader)
        assert await process.wait() == -signal.SIGKILL


async def test_a_worker_that_is_stuck_while_it_drains_is_ended(caplog: pytest.LogCaptureFixture) -> None:
    worker = WorkerProcess("b", dict, lambda key, value: value, timeout_s=0.03)
    async with stuck("waits") as (process, reader, writer):
        leaving = asyncio.ensure_future(worker._see_off(process, reader, writer))
        worker._leaving[process] = leaving
        await leaving
        assert process.returncode is not None
    assert caplog.messages == ["worker does not respond, ending it"]
    assert not worker._leaving
