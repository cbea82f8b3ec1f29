"""Processes of the runner: child processes whose clocks are compared with its own."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from sluicegate.host.children import Child, ChildError, say
from sluicegate_reports.runner.brokers.processes import UnavailableError

_CLOCK_ASKS = 7


@dataclass(frozen=True, slots=True)
class ClockOffset:
    """Offset of a process's clock from the runner's."""

    offset_us: float
    """Its clock minus the runner's, in microseconds."""
    uncertainty_us: float
    """Largest error of the offset, in microseconds."""


def clock_offset(before_ns: int, theirs_ns: int, after_ns: int) -> ClockOffset:
    """The offset by one question for the time, answered between sending and receiving."""
    middle = (before_ns + after_ns) / 2
    return ClockOffset((theirs_ns - middle) / 1000, (after_ns - before_ns) / 2000)


class Talker(Child):
    """A child process of the runner; its early end makes its arm unavailable."""

    async def hear(
        self, key: str, within_s: float, other: Callable[[Mapping[str, Any]], None] | None = None
    ) -> Any:
        """The next line that has a key.

        :param within_s: longest silence, in seconds.
        :param other: is given lines without the key.
        :return: the whole line.
        :raises UnavailableError: if the process ends or is silent for so long; with its last words.
        """
        try:
            return await super().hear(key, within_s, other)
        except ChildError as error:
            raise UnavailableError(str(error)) from None

    async def clock(self, within_s: float = 60.0) -> ClockOffset:
        """Offset of its clock from this process's, by the fastest of several answers."""
        offsets = []
        for _ in range(_CLOCK_ASKS):
            before = time.time_ns()
            await self.tell({"ask": "clock"})
            response = await self.hear("clock_ns", within_s)
            offsets.append(clock_offset(before, response["clock_ns"], time.time_ns()))
        # A slow answer may have waited on one of its two ways.
        return min(offsets, key=lambda each: each.uncertainty_us)


def ask_clock(command: Mapping[str, Any]) -> bool:
    """Report this process's clock if the runner asks for it; called in the child.

    :return: False if it is something else.
    """
    if command.get("ask") != "clock":
        return False
    say({"clock_ns": time.time_ns()})
    return True
