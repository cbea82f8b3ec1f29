"""Runs a client's work on an event loop."""

import asyncio
from collections.abc import Callable
from time import monotonic_ns
from typing import TypeVar

from sluicegate.client.policed_client import Engine
from sluicegate.sessions.work import Running, Turn, Until, Work

Result = TypeVar("Result")


async def finish(engine: Engine, work: Callable[[Turn], Work[Result]]) -> Result:
    """Wait until work is done; if the task is cancelled, it gives back what it has taken."""
    running: Running[Result] = Running(monotonic_ns())
    try:
        with engine.lock:
            made = running.begin(work(running))
        while isinstance(made, Running):
            await _awaited(running)
            with engine.lock:
                made = running.go_on(monotonic_ns(), None)
        return made
    finally:
        with engine.lock:
            running.close(monotonic_ns())


def require_loop(own: asyncio.AbstractEventLoop) -> None:
    """Refuse calls of a client whose library works in one event loop only.

    :param own: the loop that the client was made in.
    :raises RuntimeError: in another one.
    """
    if asyncio.get_running_loop() is not own:
        raise RuntimeError(
            "this client belongs to another event loop: open one in each loop, or call it by "
            "asyncio.run_coroutine_threadsafe"
        )


async def _awaited(running: Running[Result]) -> None:
    waits = running.waits
    # A question for the broker's subscriptions has no answer in a client: the work goes on at once.
    at_ns = waits.at_ns if isinstance(waits, Until) else 0
    await asyncio.sleep(max(0, at_ns - monotonic_ns()) / 1e9)
