"""A session's wake-up: one call at a monotonic time, never early."""

import asyncio
from collections.abc import Callable
from time import monotonic_ns


class WakeUp:
    """One pending call.

    :param loop: the running event loop.
    :param at_ns: monotonic time.
    :param call: what is called then.
    """

    __slots__ = ("_at_ns", "_call", "_loop", "_timer")

    def __init__(self, loop: asyncio.AbstractEventLoop, at_ns: int, call: Callable[[], None]) -> None:
        self._loop = loop
        self._at_ns = at_ns
        self._call = call
        self._timer = self._wait()

    def cancel(self) -> None:
        """Cancel the call."""
        self._timer.cancel()

    def _wait(self) -> asyncio.TimerHandle:
        # Event loops count whole milliseconds, so round up: a wake-up is never early.
        wait_ms = max(0, -((monotonic_ns() - self._at_ns) // 1_000_000))
        return self._loop.call_later(wait_ms / 1000, self._due)

    def _due(self) -> None:
        if monotonic_ns() < self._at_ns:
            self._timer = self._wait()
        else:
            self._call()
