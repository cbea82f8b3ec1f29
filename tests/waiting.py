"""Wait for what another thread, task or process does.

The bound ends what never comes. It says nothing about speed: no test fails because a machine is slow.
"""

import asyncio
import time
from collections.abc import Callable

LONG_S = 100.0
"""For every time-out that a test must name and that must never be reached."""


def until(holds: Callable[[], object], what: str = "it did not come") -> None:
    """Return once something holds.

    :raises TimeoutError: if it does not; the text says what.
    """
    end = time.monotonic() + LONG_S
    while not holds():
        if time.monotonic() > end:
            raise TimeoutError(f"not within {LONG_S:g} s: {what}")
        time.sleep(0.005)


async def until_so(holds: Callable[[], object]) -> None:
    """As `until`, while the loop runs.

    :raises TimeoutError: if it does not hold.
    """
    async with asyncio.timeout(LONG_S):
        while not holds():  # noqa: ASYNC110 - what is waited for has no event
            await asyncio.sleep(0.002)
