"""An event loop with virtual time: it advances only when nothing is left to do."""

import asyncio
import selectors
from typing import Any

_TURN_S = 0.000_1
"""What each turn of the loop takes, so that what never rests comes to an end, too."""


class _Selector(selectors.EpollSelector):
    passed_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0 if timeout else timeout)
        self.passed_s += _TURN_S if ready or not timeout else timeout
        return ready


class VirtualLoop(asyncio.SelectorEventLoop):
    """A loop with a clock of its own; it also stands for the module `time`."""

    def __init__(self) -> None:
        self._ticking = _Selector()
        super().__init__(self._ticking)

    def time(self) -> float:
        return self._ticking.passed_s

    def monotonic(self) -> float:
        return self.time()

    def monotonic_ns(self) -> int:
        return round(self.time() * 1e9)

    time_ns = monotonic_ns

    def play(self, work: Any) -> None:
        """Run to the end, and close."""
        try:
            self.run_until_complete(work)
        finally:
            self.close()
