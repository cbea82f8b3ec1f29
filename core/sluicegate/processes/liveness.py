"""Tells a stuck worker from a busy one, and learns where it is stuck.

A worker's event loop sends a message LOOKS times in `worker_timeout`. Its supervisor counts its own looks
since the last one: a supervisor without a processor, or a machine that was suspended, counts one look,
however long that took.
"""

import asyncio
import faulthandler
import os
import signal
from asyncio.subprocess import Process
from contextlib import suppress
from typing import Any, Final

from sluicegate.processes import messages
from sluicegate.processes.stacks import frames_in

LOOKS: Final = 30
_ANSWER_S = 5.0
_NO_ANSWER: Final = "not known: it wrote none, as a stopped process"
_SHOW_STACK: Final = signal.SIGUSR1


async def next_message(reader: asyncio.StreamReader, timeout_s: float) -> dict[str, Any] | None:
    """The next message of a worker; None when it has ended.

    :param timeout_s: how long it may be silent, in seconds; 0 for ever.
    :raises TimeoutError: if nothing came in that time.
    :raises BrokenMessageError: if it is not a message.
    """
    loop, looks = asyncio.get_running_loop(), 0
    timer: asyncio.TimerHandle | None = None

    def look() -> None:
        nonlocal looks, timer
        looks += 1
        if looks == LOOKS:
            silence.reschedule(loop.time())
        else:
            timer = loop.call_later(timeout_s / LOOKS, look)

    if timeout_s:
        timer = loop.call_later(timeout_s / LOOKS, look)
    try:
        async with asyncio.timeout(None) as silence:
            return await messages.receive(reader)
    finally:
        if timer is not None:
            timer.cancel()


def show_stack_when_asked(line: int) -> None:
    """Have this process write its main thread's stack and end when `end_stuck` asks for it.

    faulthandler does that without the interpreter, so whatever the thread is busy with.

    :param line: descriptor of the socket to the supervisor; it must stay ours when the socket is closed.
    """
    faulthandler.register(_SHOW_STACK, file=os.dup(line), all_threads=False, chain=True)


async def end_stuck(process: Process, reader: asyncio.StreamReader) -> str:
    """End a worker that is silent.

    :param reader: of its messages; what is still to come is its stack.
    :return: the stack, innermost frame first, or why it is not known.
    """
    written = b""
    # The connection is reset if the process ends without having read all of its messages.
    with suppress(ProcessLookupError, ConnectionError):
        process.send_signal(_SHOW_STACK)
        try:
            async with asyncio.timeout(_ANSWER_S):
                while data := await reader.read(65_536):
                    written += data
        except TimeoutError:
            process.kill()
    frames = frames_in(written.decode(errors="replace"))
    return ", ".join(f"{file}:{line} {function}" for file, line, function in frames) or _NO_ANSWER
