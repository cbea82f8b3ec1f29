"""Wait for what another thread, task or process does.

The bound ends what never comes. It says nothing about speed: no test fails because a machine is slow.
"""

import asyncio
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

T = TypeVar("T")
LONG_S = 600
"""For every time-out that a test must name and that must never be reached. A shorter wait costs no more."""
AIOKAFKA_SESSION_MS = 60_000
"""Of members of groups: aiokafka's own 10 s end while a busy machine runs something else."""
_FIRST_PAUSE_S, _LONGEST_PAUSE_S = 0.005, 0.05
"""Looking costs time, too: what has not happened for long is looked for less often, and at most a third
of the time goes into it, as a slow machine needs the rest for what is waited for."""


def until(
    holds: Callable[[], T],
    what: str = "it did not come",
    timeout_s: float = LONG_S,
    tell: Callable[[], str] = lambda: "",
) -> T:
    """Return once something holds: what it gave, which is true.

    :param what: what that is, for the error.
    :param tell: gives more text for the error.
    :raises TimeoutError: if it does not hold in time.
    """
    began = time.monotonic()
    deadline, pause_s = began + timeout_s, _FIRST_PAUSE_S
    while not (held := holds()):
        looked = time.monotonic()
        if looked > deadline:
            raise TimeoutError(f"not within {timeout_s:g} s: {what}\n{tell()}".rstrip())
        time.sleep(max(pause_s, 2 * (looked - began)))
        pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)
        began = time.monotonic()
    return held


async def until_so(holds: Callable[[], object]) -> None:
    """As `until`, while the loop runs.

    :raises TimeoutError: if it does not hold.
    """
    pause_s = 0.002
    async with asyncio.timeout(LONG_S):
        while not holds():
            await asyncio.sleep(pause_s)
            pause_s = min(1.5 * pause_s, _LONGEST_PAUSE_S)


async def until_answered(asks: Callable[[], Awaitable[T]], again: Callable[[Exception], bool]) -> T:
    """Ask until there is an answer, which is returned.

    :param again: whether an error means that asking again may do; others are raised.
    :raises TimeoutError: if there is no answer.
    """
    async with asyncio.timeout(LONG_S):
        while True:
            try:
                return await asks()
            except Exception as error:
                if not again(error):
                    raise
            await asyncio.sleep(_FIRST_PAUSE_S)


async def elsewhere(call: Callable[[], Awaitable[T]]) -> T:
    """Make a call in an event loop of another thread.

    :raises TimeoutError: if it does not return.
    """

    async def made() -> T:
        return await asyncio.wait_for(call(), LONG_S)

    return await asyncio.to_thread(asyncio.run, made())
