"""When a producer sends: at rates that are constant for a while, or change linearly.

Open loop: a message that could not be sent on time is sent as soon as possible while its phase lasts. A slow
answer delays later messages only once as many are unanswered as the scenario allows (`in_flight`).
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Stretch:
    """A period in which a producer has a constant rate, or one that changes linearly."""

    phase: int
    """Index of the phase."""
    start_s: float
    """From the beginning of the run."""
    end_s: float
    rate: float
    """Messages a second at its end; infinite for as fast as answers come."""
    from_rate: float
    """Messages a second at its beginning; the same as `rate` unless it ramps."""

    @property
    def messages(self) -> float:
        """How many messages fall into it."""
        return (self.from_rate + self.rate) / 2 * (self.end_s - self.start_s)

    def due_s(self, number: int) -> float:
        """When its n-th message (from 0 on) is due, from the beginning of the run.

        The n-th message is due when the integral of the rate reaches n; with a linear rate that is the root
        of a quadratic.
        """
        slope = (self.rate - self.from_rate) / (self.end_s - self.start_s)
        if slope == 0:
            return self.start_s + number / self.rate
        # Rounding may take the last message of a ramp down to 0 below the root.
        under = max(self.from_rate**2 + 2 * slope * number, 0.0)
        return self.start_s + (math.sqrt(under) - self.from_rate) / slope


def due(stretch: Stretch) -> Iterator[float]:
    """When each message of a stretch with a finite rate is due, in seconds from the beginning of the run."""
    number = 0
    while number < stretch.messages:
        at = stretch.due_s(number)
        if at >= stretch.end_s:
            return
        yield at
        number += 1


def within(stretches: Sequence[Stretch], start_s: float, stop_s: float) -> list[Stretch]:
    """The intervals during which a client is present, cut at its arrival and departure.

    A cut ramp starts at the rate that it has at the cut.
    """
    present = []
    for each in stretches:
        start, end = max(each.start_s, start_s), min(each.end_s, stop_s)
        if end <= start:
            continue
        present.append(Stretch(each.phase, start, end, _rate_at(each, end), _rate_at(each, start)))
    return present


def _rate_at(stretch: Stretch, at_s: float) -> float:
    if stretch.rate == stretch.from_rate:
        return stretch.rate
    share = (at_s - stretch.start_s) / (stretch.end_s - stretch.start_s)
    return stretch.from_rate + share * (stretch.rate - stretch.from_rate)
