"""Scenes whose limit follows the state of the brokers while a client publishes continuously.

The client's process changes that state and records when each state was in effect. The judge takes the limits
from the decision log, so the result is right even if other programs change the state too.
"""

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager, suppress
from dataclasses import dataclass, field
from time import monotonic
from typing import Any

from sluicegate.demo.clients import DemoProducer, RefusedError
from sluicegate.demo.law import ENOUGH_S, Admitted, Held, Limit
from sluicegate.demo.scene import Observation, Seen, Stage, Verdict
from sluicegate.demo.topic_log import TopicLog

_LOOK_S = 0.1
_BEFORE_S = 0.3
"""Also look for a segment's limit this long before it, because a limit applies until a row has another."""


class NeverCameError(Exception):
    """An expected state was not reached; the message says which."""


@asynccontextmanager
async def publishing(
    producer: DemoProducer, size: int, at_once: int, pace_s: float = 0.0
) -> AsyncIterator[list[str]]:
    """Publish continuously within the block, as fast as the gateway and the pace allow.

    :param at_once: number of concurrent messages.
    :param pace_s: shortest pause after each message, in seconds.
    :return: a list that receives the client's own errors.
    """
    errors: list[str] = []

    async def publish() -> None:
        while True:
            try:
                await producer.publish(size)
            except RefusedError as error:
                errors.append(str(error))
            await asyncio.sleep(pace_s)

    working = [asyncio.ensure_future(publish()) for _ in range(at_once)]
    try:
        yield errors
    finally:
        for task in working:
            task.cancel()
        with suppress(asyncio.CancelledError):
            await asyncio.gather(*working)


@dataclass(slots=True)
class Course:
    """The segments of a scene, in each of which one state was in effect."""

    stage: Stage
    began: float = field(default_factory=lambda: time.time_ns() / 1e9)
    segments: list[dict[str, Any]] = field(default_factory=list)

    async def until(self, condition: Callable[[], Awaitable[bool]], what: str) -> None:
        """Wait for a state.

        :raises NeverCameError: if it does not come.
        """
        until = monotonic() + self.stage.patience_s
        while not await condition():
            if monotonic() > until:
                raise NeverCameError(f"{what} did not come")
            await asyncio.sleep(_LOOK_S)

    async def hold(self, name: str, seconds: float, still: Callable[[], Awaitable[bool]]) -> None:
        """Keep a state for some time, and record it as a segment.

        :param still: whether it is still in effect; called at the end.
        """
        begin = time.time_ns() / 1e9
        await asyncio.sleep(seconds)
        end = time.time_ns() / 1e9
        self.segments.append({"name": name, "begin": begin, "end": end, "held": await still()})

    def seen(self, met: bool, text: str, error: str = "") -> Seen:
        """Create the report for the judge."""
        facts = {"began": self.began, "ended": time.time_ns() / 1e9, "segments": self.segments}
        return Seen(met, text, error, facts)


@dataclass(frozen=True, slots=True)
class Segment:
    """The decision log of one segment.

    :param burst_s: capacity of a bucket in seconds of its rate.
    :param at_once: messages that can wait together.
    """

    log: TopicLog
    report: Mapping[str, Any]
    burst_s: float
    at_once: int

    @property
    def admitted(self) -> list[Admitted]:
        """Messages admitted in it."""
        return [each for each in self.log.admitted("publish", "messages") if self._has(each.at)]

    def holds(self, policy: str | None = None, before_s: float = 0.0) -> list[Mapping[str, Any]]:
        """Rows of messages held in it.

        :param before_s: also include rows up to this time before its start.
        """
        rows = self.log.of("publish", "delay", policy)
        return [row for row in rows if self._has(row["time"].timestamp(), before_s)]

    def _has(self, at: float, before_s: float = 0.0) -> bool:
        is_within: bool = self.report["begin"] - before_s <= at <= self.report["end"]
        return is_within

    def judge(self) -> Observation:
        """Compare its messages with the limits that were in effect."""
        rows = self.holds(before_s=_BEFORE_S)
        name, admitted = self.report["name"], self.admitted
        seconds = self.report["end"] - self.report["begin"]
        rate = sum(each.amount for each in admitted) / seconds
        if not rows:
            return Observation(Verdict.UNSATURATED, f"{name}: {rate:.0f}/s, nothing was held back")
        limits = [row["limit"] for row in rows]
        text = f"{name}: {rate:.0f}/s at a limit of {_range(limits)}"
        if (surplus := Limit(max(limits), max(limits) * self.burst_s).surplus(admitted)) > 0:
            return Observation(Verdict.DIFFERENT, f"{text}, {surplus:.0f} messages too many")
        waited, missing = self._shortfall(min(limits))
        if missing > 0:
            return Observation(Verdict.DIFFERENT, f"{text}, {missing:.0f} messages too few")
        enough = waited >= min(ENOUGH_S, seconds / 4)
        return Observation(Verdict.RIGHT if enough else Verdict.UNSATURATED, text)

    def _shortfall(self, rate: float) -> tuple[float, float]:
        held = [Held(row["time"].timestamp(), row["delay"] / 1e9, row["messages"]) for row in self.holds()]
        if len(held) < 2:
            return 0.0, 0.0
        waited = _union(held, self.burst_s)
        first, last = held[0].at, held[-1].at
        given = sum(each.amount for each in self.admitted if first <= each.at <= last)
        return waited, rate * (waited - held[-1].wait) - given - self.at_once - 0.01 * given


def _union(held: Sequence[Held], longest: float) -> float:
    """Total time within the required waits, each capped at `longest`."""
    total, until = 0.0, 0.0
    for each in held:
        begin, end = max(each.at, until), each.at + min(each.wait, longest)
        if end > begin:
            total, until = total + end - begin, end
    return total


def _range(values: Sequence[float]) -> str:
    low, high = f"{min(values):.0f}", f"{max(values):.0f}"
    return f"{low}/s" if low == high else f"{low} to {high}/s"
