"""Overload protection by a worker's memory: stop accepting, then shrink caches, then close clients."""

import asyncio
import ctypes
import logging
from collections.abc import Callable, Iterator
from time import monotonic_ns
from typing import Final

from sluicegate.config.overload import OverloadConfig
from sluicegate.engine.budget import Budget
from sluicegate.features.pressure.process import ProcessError, ProcessMemory
from sluicegate.model import ConnectionClose
from sluicegate.net.connections import Connections
from sluicegate.pacing.log_throttle import LineLimiter

log = logging.getLogger(__name__)

NORMAL: Final = 0
NOT_ACCEPTING: Final = 1
SHRINKING: Final = 2
CLOSING: Final = 3
_NAMES = ("normal", "not accepting", "shrinking", "closing")
_HYSTERESIS = 0.03
"""A level is left only this share below where it began, so that it does not flap."""
_SHRUNK_PART = 2
"""Divisor of `buffer_budget` while the worker shrinks."""


class Overload:
    """Monitors the resident memory of this worker, and acts on it.

    :param config: thresholds.
    :param budget: what sessions may hold; halved while the worker shrinks.
    :param drop_idle: drops what can be rebuilt, such as idle gates; yields between slices of that work.
    """

    def __init__(
        self, config: OverloadConfig, budget: Budget, drop_idle: Callable[[], Iterator[None]]
    ) -> None:
        self._starts = (0.0, config.stop_accepting, config.shrink, config.close)
        self._memory = ProcessMemory(limit=config.memory_limit)
        self._budget = budget
        self._full_budget = budget.limit
        self._drop_idle = drop_idle
        self._line_limiter = LineLimiter()
        self.level = NORMAL
        self.resident = 0
        """Bytes at the last look."""
        self.limit = 0
        """Bytes; 0 if not known: then nothing is done."""

    async def look(self, connections: Connections) -> None:
        """Read the resident memory and apply the level that it calls for; once a second."""
        try:
            self.resident, self.limit = await self._memory.usage()
        except ProcessError:  # not Linux: the budget alone protects
            return
        if self.limit <= 0:
            return
        self._change(self.resident / self.limit)
        connections.admission.is_overloaded = self.level >= NOT_ACCEPTING
        if self.level >= SHRINKING:
            for _ in self._drop_idle():
                await asyncio.sleep(0)
            # In a thread: for a large heap it takes long, and ctypes lets others have the interpreter
            # meanwhile.
            await asyncio.to_thread(_give_back_free_memory)
        if self.level >= CLOSING:
            excess = self.resident - int(self._starts[CLOSING] * self.limit)
            await connections.relieve(excess, ConnectionClose.OVERLOAD_CLOSED)

    def gauges(self) -> dict[str, int]:
        """Gauges for the metrics."""
        return {
            "overload_level": self.level,
            "overload_memory_bytes": self.resident,
            "overload_memory_limit_bytes": self.limit,
        }

    def _change(self, share: float) -> None:
        before = self.level
        while self.level < CLOSING and share >= self._starts[self.level + 1]:
            self.level += 1
        while self.level > NORMAL and share < self._starts[self.level] - _HYSTERESIS:
            self.level -= 1
        if self.level == before:
            return
        part = _SHRUNK_PART if self.level >= SHRINKING else 1
        self._budget.limit = self._full_budget // part
        if (left_out := self._line_limiter.passes("level", monotonic_ns())) is not None:
            log.warning(
                "memory: %s (was %s) at %.0f %% of %d bytes",
                _NAMES[self.level],
                _NAMES[before],
                100 * share,
                self.limit,
                extra={"left_out": left_out},
            )


def _give_back_free_memory() -> None:
    """Have the C library return free pages to the system; where there is no glibc, it does so by itself."""
    try:
        ctypes.CDLL(None).malloc_trim(0)
    except (OSError, AttributeError):
        return
