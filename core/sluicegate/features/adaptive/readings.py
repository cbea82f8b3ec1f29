"""Readings of pressure sources. If a source is silent, slow or wrong, its last value stays in effect."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from math import isfinite
from typing import Any

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.engine.faults import error_text
from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.features.adaptive.logs import EVERY_NS
from sluicegate.pacing.log_throttle import LineLimiter

_LEAST_LIMIT_NS = 5 * SECOND_NS
_INTERVALS_BEFORE_GIVING_UP = 3


class SourceReading:
    """One source with its last reading.

    :param source: the source to read.
    """

    def __init__(self, source: PressureSource) -> None:
        self.source = source
        self.known = False
        """True if the last reading gave a value."""
        self.failures = 0
        """Readings without a value."""
        self.problem = ""
        """Why the last reading gave no value."""
        self.memory: float | None = None
        """The last value of a memory source; None before the first."""
        self.backlogs: Mapping[str, Backlog] = {}
        """The last values of a backlog source."""
        self._pending: asyncio.Task[Any] | None = None
        self._started_ns = 0

    async def refresh(self, patience_s: float, limit_ns: int, now_ns: int) -> None:
        """Start a reading, or continue to wait for a pending one; one that takes longer is used next time.

        :param patience_s: longest time to wait here.
        :param limit_ns: age at which a pending reading is cancelled.
        :param now_ns: monotonic time.
        """
        if self._pending is None:
            self._pending = asyncio.ensure_future(self._read())
            self._started_ns = now_ns
        await asyncio.wait((self._pending,), timeout=patience_s)
        if self._pending.done():
            self._end(self._pending)
            self._pending = None
        elif now_ns - self._started_ns >= limit_ns:
            self._pending.cancel()
            self._pending = None
            self._failed(f"no answer within {limit_ns / SECOND_NS:g} s")

    def _end(self, reading: "asyncio.Task[Any]") -> None:
        """Name what a source raised that `_read` cannot catch, as it might as well come from outside."""
        if reading.cancelled():
            self._failed("it cancelled itself")
        elif (error := reading.exception()) is not None:
            self._failed(error_text(error))

    async def _read(self) -> None:
        try:
            self._take(await self.source.read())
        # An exit or an interrupt would end the thread of all tasks.
        except (Exception, SystemExit, KeyboardInterrupt) as error:  # noqa: BLE001 - the last value stays
            self._failed(error_text(error))
        else:
            if self.known:
                self.problem = ""

    def _take(self, value: object) -> None:
        if self.source.kind == "backlog":
            if not isinstance(value, Mapping):
                raise TypeError(f"expected backlogs by topic, got {value!r}")
            self.backlogs = value
        else:
            if value is None:
                self._failed("unknown")
                return
            if not isinstance(value, int | float) or not isfinite(value) or value < 0:
                raise ValueError(f"expected a share of 0 or more, got {value!r}")
            self.memory = float(value)
        self.known = True

    def _failed(self, problem: str) -> None:
        self.known = False
        self.failures += 1
        self.problem = problem


class Readings:
    """The readings of all sources of one broker.

    :param sources: the plugins' sources.
    :param log: logs sources without a value, each at most once in 60 s.
    """

    def __init__(self, sources: Sequence[PressureSource], log: logging.Logger) -> None:
        self.all = tuple(SourceReading(source) for source in sources)
        self.of_backlogs = tuple(reading for reading in self.all if reading.source.kind == "backlog")
        self.of_memory = tuple(reading for reading in self.all if reading.source.kind == "memory")
        self._log = log
        self._line_limiter = LineLimiter(EVERY_NS)
        self._silent: set[str] = set()

    async def refresh(
        self, interval_ms: int, now_ns: int, some: "Sequence[SourceReading] | None" = None
    ) -> None:
        """Read sources concurrently, for at most half an interval.

        :param some: which ones; None for all.
        """
        some = self.all if some is None else some
        if not some:
            return
        limit_ns = max(_LEAST_LIMIT_NS, _INTERVALS_BEFORE_GIVING_UP * interval_ms * 1_000_000)
        patience_s = interval_ms / 2000
        await asyncio.gather(*(each.refresh(patience_s, limit_ns, now_ns) for each in some))
        for reading in some:
            self._log_change(reading, now_ns)

    @property
    def memory(self) -> float:
        """The highest memory usage of all sources as a fraction of its limit; 0 if none is known."""
        return max((reading.memory or 0.0 for reading in self.of_memory), default=0.0)

    def backlog(self, names: Sequence[str]) -> Backlog | None:
        """The backlog of a topic that is closest to its quota; None if no source knows the topic.

        :param names: the topic's names, the full one first; of each source the first known name counts.
        """
        worst: Backlog | None = None
        for reading in self.of_backlogs:
            for name in names:
                backlog = reading.backlogs.get(name)
                if backlog is None:
                    continue
                if worst is None or _share(backlog) > _share(worst):
                    worst = backlog
                break
        return worst

    def _log_change(self, reading: SourceReading, now_ns: int) -> None:
        name = reading.source.name
        if reading.problem:
            self._silent.add(name)
            if self._line_limiter.passes(name, now_ns) is not None:
                has_value = reading.memory is not None or bool(reading.backlogs)
                effect = "its last value stays in effect" if has_value else "it counts as no pressure"
                self._log.warning("pressure source %s is unknown, %s: %s", name, effect, reading.problem)
        elif name in self._silent and reading.known:
            self._silent.discard(name)
            self._log.info("pressure source %s is known again", name)


def _share(backlog: Backlog) -> float:
    return backlog.bytes / backlog.quota_bytes if backlog.quota_bytes > 0 else 0.0
