"""What a client gets over time while what it may publish changes: measured, and kept to be drawn."""

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass

_LOOK_S = 0.02
_SAMPLE_S = 0.1
_SMOOTHED = 3
"""Samples that a rate is taken over: one alone holds a few messages only."""
WITHIN_S = 10.0
"""Longest time to wait for something, unless told otherwise."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment."""

    at: float
    """Seconds since the beginning."""
    admitted: float
    """Messages per second that the client had acknowledged."""
    allowed: float
    """Messages per second that it might publish."""
    state: str
    """What the gate said of its state, in a word."""


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn of a scene."""

    title: str
    samples: tuple[Sample, ...]


@dataclass(frozen=True, slots=True)
class Rates:
    """Messages per second over some time."""

    admitted: float
    allowed: float

    def near(self, tolerance: float) -> bool:
        """True if what passed is what might pass.

        :param tolerance: the difference that is allowed for, as a share of what might pass.
        """
        return abs(self.admitted - self.allowed) <= tolerance * self.allowed


class NeverCameError(Exception):
    """Something that was waited for did not come; the message says what."""


class Course:
    """Watches one client. Whoever publishes counts `acknowledged`.

    :param look: gives what may be published now, messages per second, and the gate's state.
    """

    def __init__(self, look: Callable[[], tuple[float, str]]) -> None:
        self.acknowledged = 0
        """Messages so far; counted by one thread."""
        self.samples: list[Sample] = []
        self._look = look
        self._began = 0.0

    @asynccontextmanager
    async def watched(self) -> AsyncIterator[None]:
        """Take samples within the block."""
        self._began = time.monotonic()
        sampling = asyncio.ensure_future(self._sample())
        try:
            yield
        finally:
            sampling.cancel()
            with suppress(asyncio.CancelledError):
                await sampling

    async def until(self, condition: Callable[[], bool], what: str, within_s: float | None = None) -> float:
        """Wait for something.

        :param what: to say if it does not come.
        :return: how long it took, in seconds.
        :raises NeverCameError: if it does not come in time.
        """
        began, longest = time.monotonic(), within_s or WITHIN_S
        while not condition():
            if time.monotonic() - began > longest:
                raise NeverCameError(f"{what} did not come within {longest:.0f} s")
            await asyncio.sleep(_LOOK_S)
        return time.monotonic() - began

    async def settled(self, seconds: float) -> None:
        """Wait for the first message, and until what passed at once at the beginning is over.

        :raises NeverCameError: if no message is acknowledged.
        """
        await self.until(lambda: self.acknowledged > 0, "the first message")
        await asyncio.sleep(seconds)

    async def over(self, seconds: float) -> Rates:
        """Measure for some time."""
        began, before, allowed, looks = time.monotonic(), self.acknowledged, 0.0, 0
        while time.monotonic() - began < seconds:
            allowed += self._look()[0]
            looks += 1
            await asyncio.sleep(_LOOK_S)
        took = time.monotonic() - began
        return Rates((self.acknowledged - before) / took, allowed / looks)

    async def at_least(self, rate: float, seconds: float, attempts: int = 4) -> Rates:
        """Measure again as long as less passes than a client does when nothing holds it.

        A busy machine slows clients down as well, which says nothing of the gate.

        :param rate: messages per second.
        :return: the first rates that reach it, else the last.
        """
        found = await self.over(seconds)
        for _ in range(attempts - 1):
            if found.admitted >= rate:
                break
            found = await self.over(seconds)
        return found

    def chart(self, title: str) -> Chart:
        """All samples so far."""
        return Chart(title, tuple(self.samples))

    async def _sample(self) -> None:
        seen: deque[tuple[float, int]] = deque(((time.monotonic(), self.acknowledged),), _SMOOTHED + 1)
        while True:
            await asyncio.sleep(_SAMPLE_S)
            now, count = time.monotonic(), self.acknowledged
            first, before = seen[0]
            seen.append((now, count))
            self.samples.append(Sample(now - self._began, (count - before) / (now - first), *self._look()))
