"""Scales and their ticks: linear, logarithmic, and by nines for quantiles. Positions are 0.0 to 1.0."""

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

_STEPS = (1.0, 2.0, 2.5, 5.0, 10.0)
_NEARLY = 1e-9
"""Rounding error of divisions that must not add or drop a tick."""
_NOTHING = 1e-300
"""Smaller values count as 0: a float could not hold their steps."""
_MOST_NINES = 5.0
"""99.999 %, where finer quantiles are drawn too."""
_QUANTILES = (
    (0.0, "min"),
    (0.5, "50 %"),
    (0.9, "90 %"),
    (0.99, "99 %"),
    (0.999, "99.9 %"),
    (0.9999, "99.99 %"),
)


@dataclass(frozen=True, slots=True)
class Tick:
    """A position on an axis with a line and usually a text."""

    value: float
    text: str = ""
    """Empty if the axis writes the value itself."""


class Scale(Protocol):
    """Maps values to positions."""

    @property
    def ticks(self) -> Sequence[Tick]:
        """Ticks in order."""

    def position(self, value: float) -> float:
        """The position of a value, from 0.0 to 1.0 along the axis; values outside are clamped."""


def _stepped(low: float, high: float, count: int) -> tuple[float, float, float]:
    """Ends that differ, and the size of steps between them."""
    if high - low <= max(_NEARLY * max(abs(low), abs(high)), _NOTHING):
        low, high = (low - abs(low) * 0.5, high + abs(high) * 0.5) if abs(low) > _NOTHING else (0.0, 1.0)
    rough = (high - low) / count
    power = 10.0 ** math.floor(math.log10(rough))
    return low, high, next(size * power for size in _STEPS if size * power >= rough * (1 - _NEARLY))


def _clamp(position: float) -> float:
    return min(1.0, max(0.0, position))


@dataclass(frozen=True, slots=True)
class Linear:
    """Even steps of 1, 2, 2.5 or 5 times a power of ten."""

    start: float
    end: float
    step: float

    @classmethod
    def over(cls, low: float, high: float, count: int = 5) -> "Linear":
        """A scale that holds both values, and ends on ticks.

        :param count: ticks that are aimed at; there are at most two more.
        """
        low, high, step = _stepped(low, high, count)
        return cls(math.floor(low / step + _NEARLY) * step, math.ceil(high / step - _NEARLY) * step, step)

    @classmethod
    def within(cls, low: float, high: float, count: int = 6) -> "Linear":
        """A scale from one value to the other, with the ticks that lie between."""
        return cls(*_stepped(low, high, count))

    @property
    def ticks(self) -> Sequence[Tick]:
        """Multiples of the step."""
        first = math.ceil(self.start / self.step - _NEARLY)
        last = math.floor(self.end / self.step + _NEARLY)
        # Rounding removes the error of the multiplication: 0.30000000000000004.
        return [Tick(float(f"{self.step * index:.12g}")) for index in range(first, last + 1)]

    def position(self, value: float) -> float:
        """See Scale."""
        return _clamp((value - self.start) / (self.end - self.start))


@dataclass(frozen=True, slots=True)
class Log:
    """Powers of ten, and 2 and 5 times them where there are few."""

    first: int
    """Exponent of the start."""
    last: int

    @classmethod
    def over(cls, low: float, high: float) -> "Log":
        """A scale that holds both values; both are above 0."""
        first = math.floor(math.log10(low) + 1e-9)
        return cls(first, max(first + 1, math.ceil(math.log10(high) - 1e-9)))

    @property
    def ticks(self) -> Sequence[Tick]:
        """At most about ten."""
        span = self.last - self.first
        every = max(1, math.ceil(span / 7))
        between = (1.0, 2.0, 5.0) if span <= 2 else (1.0,)
        values = [
            factor * 10.0**exponent
            for exponent in range(self.first, self.last + 1, every)
            for factor in between
            if exponent < self.last or factor == 1.0
        ]
        return [Tick(float(f"{value:.12g}")) for value in values]

    def position(self, value: float) -> float:
        """See Scale; 0 and below are at the start."""
        if value <= 0:
            return 0.0
        return _clamp((math.log10(value) - self.first) / (self.last - self.first))


@dataclass(frozen=True, slots=True)
class Nines:
    """Quantiles by -log10(1 - q): each further nine has the same width. The largest value is the end."""

    most: float
    """Nines at the end."""
    whole: bool
    """Whether the end is the largest value of all, q = 1."""

    @classmethod
    def over(cls, quantiles: Sequence[float]) -> "Nines":
        """A scale for these quantiles; half a nine is added for the largest value of all, q = 1."""
        finite = [-math.log10(1 - q) for q in quantiles if q < 1]
        most = min(_MOST_NINES, max([1.0, *finite]))
        whole = any(q >= 1 for q in quantiles)
        return cls(most + 0.5 if whole else most, whole)

    @property
    def ticks(self) -> Sequence[Tick]:
        """The usual quantiles, and `max` at the end."""
        last = self.most - 0.25 if self.whole else self.most + _NEARLY
        shown = [Tick(q, text) for q, text in _QUANTILES if -math.log10(1 - q) <= last]
        return [*shown, Tick(1.0, "max")] if self.whole else shown

    def position(self, value: float) -> float:
        """See Scale."""
        if value >= 1:
            return 1.0  # also if the scale has no such end: the value is beyond it
        return _clamp(-math.log10(1 - max(0.0, value)) / self.most)
