"""What pressure sources said last: a source that is silent, slow or wrong leaves its last value in place."""

import asyncio
import logging
from collections.abc import Mapping, Sequence
from contextlib import suppress
from math import isfinite
from typing import Any

from sluicegate.engine.bucket import SECOND_NS
from sluicegate.engine.pressure import Backlog, PressureSource
from sluicegate.features.adaptive.logs import OncePerMinute

_LEAST_LIMIT_NS = 5 * SECOND_NS
_INTERVALS_BEFORE_GIVING_UP = 3


class SourceReading:
    """One source, and what it said last.

    :param source: what is read.
    """

    def __init__(self, source: PressureSource) -> None:
        self.source = source
        self.known = False
        """True if the last reading gave a value."""
        self.failures = 0
        """Readings that gave none."""
        self.problem = ""
        """Why the last one gave none."""
        self.memory: float | None = None
        """The last value of a memory source; None before the first."""
        self.backlogs: Mapping[str, Backlog] = {}
        """The last values of a backlog source."""
        self._asking: asyncio.Task[Any] | None = None
        self._asked_ns = 0

    async def refresh(self, patience_s: float, limit_ns: int, now_ns: int) -> None:
        """Ask, or go on waiting for the last answer; an answer that takes longer is taken next time.

        :param patience_s: longest time to wait here.
        :param limit_ns: age at which a question is given up.
        :param now_ns: monotonic time.
        """
        if self._asking is None:
            self._asking = asyncio.ensure_future(self._read())
            self._asked_ns = now_ns
        await asyncio.wait((self._asking,), timeout=patience_s)
        if self._asking.done():
            self._asking = None
        elif now_ns - self._asked_ns >= limit_ns:
            self._asking.cancel()
            self._asking = None
            self._failed(f"no answer within {limit_ns / SECOND_NS:g} s")

    async def _read(self) -> None:
        try:
            self._take(await self.source.read())
        except Exception as error:  # noqa: BLE001 - whatever a source raises, its last value stays
            self._failed(f"{type(error).__name__}: {error}")
        else:
            if self.known:
                self.problem = ""

    def _take(self, found: object) -> None:
        if self.source.kind == "backlog":
            if not isinstance(found, Mapping):
                raise TypeError(f"expected backlogs by topic, got {found!r}")
            self.backlogs = found
        else:
            if found is None:
                self._failed("not known")
                return
            if not isinstance(found, int | float) or not isfinite(found) or found < 0:
                raise ValueError(f"expected a share of 0 or more, got {found!r}")
            self.memory = float(found)
        self.known = True

    def _failed(self, problem: str) -> None:
        self.known = False
        self.failures += 1
        self.problem = problem

    async def close(self) -> None:
        """Give up the question that is open."""
        if self._asking is not None:
            self._asking.cancel()
            with suppress(asyncio.CancelledError):
                await self._asking
            self._asking = None


class Readings:
    """All sources of one broker.

    :param sources: what plugins gave.
    :param log: where silent sources are told of, at most once in 60 s each.
    """

    def __init__(self, sources: Sequence[PressureSource], log: logging.Logger) -> None:
        self.all = tuple(SourceReading(source) for source in sources)
        self._backlogs = tuple(reading for reading in self.all if reading.source.kind == "backlog")
        self._memory = tuple(reading for reading in self.all if reading.source.kind == "memory")
        self._log = log
        self._once = OncePerMinute()
        self._silent: set[str] = set()

    async def refresh(self, interval_ms: int, now_ns: int) -> None:
        """Ask all sources at the same time, for at most half an interval."""
        if not self.all:
            return
        limit_ns = max(_LEAST_LIMIT_NS, _INTERVALS_BEFORE_GIVING_UP * interval_ms * 1_000_000)
        patience_s = interval_ms / 2000
        await asyncio.gather(*(each.refresh(patience_s, limit_ns, now_ns) for each in self.all))
        for reading in self.all:
            self._tell(reading, now_ns)

    @property
    def memory(self) -> float:
        """Used memory as a part of its limit, of the source that is fullest; 0 where none ever said."""
        return max((reading.memory or 0.0 for reading in self._memory), default=0.0)

    def backlog(self, names: Sequence[str]) -> Backlog | None:
        """The backlog of a topic that is nearest to its quota; None where no source knows the topic.

        :param names: the topic's names, the full one first; the first that a source knows counts.
        """
        worst: Backlog | None = None
        for reading in self._backlogs:
            for name in names:
                found = reading.backlogs.get(name)
                if found is None:
                    continue
                if worst is None or _share(found) > _share(worst):
                    worst = found
                break
        return worst

    def _tell(self, reading: SourceReading, now_ns: int) -> None:
        name = reading.source.name
        if reading.problem:
            self._silent.add(name)
            if self._once.passes(name, now_ns):
                told = reading.memory is not None or bool(reading.backlogs)
                stays = "what it said last stays" if told else "it counts as no pressure"
                self._log.warning("pressure source %s is unknown, %s: %s", name, stays, reading.problem)
        elif name in self._silent and reading.known:
            self._silent.discard(name)
            self._log.info("pressure source %s is known again", name)

    async def close(self) -> None:
        """Give up all questions that are open."""
        for reading in self.all:
            await reading.close()


def _share(backlog: Backlog) -> float:
    return backlog.bytes / backlog.quota_bytes if backlog.quota_bytes > 0 else 0.0
