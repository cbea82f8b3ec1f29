"""The law of a rate: over every window, no more than rate x its length + burst.

With D(t) = what was admitted up to t - rate x t, the largest excess over every window is the largest rise
of D, from a moment just before something was admitted to a later one just after something was, less the
burst. A rise is summed up by four numbers that combine, so that any cut of any topic into pieces gives the
same, exactly: times are whole microseconds, and amounts and rates are whole numbers of one unit.

A moment may be known only as a range: a client knows when it sent a message and when it was acknowledged, a
summary tells a tenth of a second. What counts for a window is what was certainly admitted in it: all that
had been admitted at the latest by its end, less all that may have been admitted before it began.
"""

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import reduce
from operator import itemgetter
from typing import NamedTuple

import numpy as np

from sluicegate_reports.transforms.packed import Flags, Numbers, alike

_SECOND_US = 1_000_000
_FINER = 200
"""Parts of a message in the unit, so that shares of small rates are whole numbers too."""
_LARGE_RATE = 1_000_000
"""A share of such a rate is whole to a millionth without them."""
_MOST_DENOMINATOR = 1_000
_PIECE_US = 60 * _SECOND_US
"""Within a piece numbers stay far below 2^63, up to some 40,000 million messages or 9 TB."""
_FAR = np.iinfo(np.int64).max // 2
"""Sentinel beyond all sums of a piece."""
_NONE = 1 << 200
"""Sentinel of an empty piece: its lowest and, negated, its highest and its rise."""


@dataclass(frozen=True, slots=True)
class Unit:
    """Whole numbers for a rate."""

    of_one: int
    """A message, or a byte."""
    per_us: int
    """The rate."""

    @classmethod
    def of(cls, rate: float, share: Fraction = Fraction(1)) -> "Unit":
        """For a rate a second, or a share of it."""
        exact = Fraction(rate).limit_denominator(_MOST_DENOMINATOR)
        finer = 1 if exact.numerator >= _LARGE_RATE else _FINER
        return cls(_SECOND_US * exact.denominator * finer, round(exact.numerator * finer * share))

    def amount(self, value: int) -> float:
        """A number of this unit as an amount."""
        return value / self.of_one


class Moments(NamedTuple):
    """What was admitted, and when: in order of the latest moment; times in us."""

    earliest_us: Numbers
    latest_us: Numbers
    amount: Numbers


class Rise(NamedTuple):
    """The law of one piece of time, in a `Unit`."""

    early: int = 0
    """All of it that may have been admitted."""
    late: int = 0
    """All of it that was certainly admitted."""
    lowest: int = _NONE
    lowest_us: int = 0
    highest: int = -_NONE
    highest_us: int = 0
    rise: int = -_NONE
    """The largest; `-_NONE` of nothing."""
    from_us: int = 0
    to_us: int = 0

    def __bool__(self) -> bool:
        return self.rise > -_NONE

    def then(self, later: "Rise") -> "Rise":
        """One piece and the next; associative."""
        low = _shifted(later.lowest, self.early), later.lowest_us
        high = _shifted(later.highest, self.late), later.highest_us
        # In the later piece what is certain and what is possible begin apart.
        theirs = _shifted(later.rise, self.late - self.early), later.from_us, later.to_us
        rises = [(self.rise, self.from_us, self.to_us), theirs]
        if self.lowest < _NONE and high[0] > -_NONE:
            rises.append((high[0] - self.lowest, self.lowest_us, later.highest_us))
        return Rise(
            self.early + later.early,
            self.late + later.late,
            *min((self.lowest, self.lowest_us), low, key=itemgetter(0)),
            *max((self.highest, self.highest_us), high, key=itemgetter(0)),
            *max(rises, key=lambda each: (each[0], -each[2], -each[1])),
        )


def _shifted(value: int, by: int) -> int:
    return value if abs(value) == _NONE else value + by


def pieces(moments: Moments, piece_us: int = _PIECE_US) -> Iterator[Moments]:
    """A long time as several of it. One moment of them may reach into earlier ones.

    :param piece_us: at most so long, by the latest moments.
    """
    first = moments.latest_us // piece_us
    for begin, end in alike(first):
        yield Moments(*(column[begin:end] for column in moments))


def rise(moments: Iterable[Moments], unit: Unit) -> Rise:
    """The law of what was admitted.

    :param moments: of one time after the other; not necessarily of the whole time, see `Rise.then`. A range
        that reaches into another time must be in one piece with it.
    """
    return reduce(Rise.then, (rise_ for part in moments for rise_ in _rises(part, unit)), Rise())


def _rises(moments: Moments, unit: Unit) -> Iterator[Rise]:
    if np.array_equal(moments.earliest_us, moments.latest_us):
        yield from (_of_exact(piece, unit) for piece in pieces(moments))
    elif len(moments.amount):
        yield from _of_ranges(moments, unit)


def _of_exact(piece: Moments, unit: Unit) -> Rise:
    at_us, base_us = piece.latest_us, int(piece.latest_us[0])
    before = unit.per_us * base_us
    own = piece.amount * unit.of_one
    after = np.cumsum(own) - unit.per_us * (at_us - base_us)
    low = after - own
    lowest = np.minimum.accumulate(low)
    end = int(np.argmax(after - lowest))
    begin = int(np.argmin(low[: end + 1]))
    least, most, total = int(np.argmin(low)), int(np.argmax(after)), int(own.sum())
    return Rise(
        total,
        total,
        int(low[least]) - before,
        int(at_us[least]),
        int(after[most]) - before,
        int(at_us[most]),
        int(after[end] - lowest[end]),
        int(at_us[begin]),
        int(at_us[end]),
    )


def _of_ranges(moments: Moments, unit: Unit) -> Iterator[Rise]:
    """In pieces of the merged order: a moment begins in one and may end in a later one."""
    order = np.argsort(moments.earliest_us, kind="stable")
    count = len(order)
    at_us = np.concatenate([moments.earliest_us[order], moments.latest_us])
    ends = np.concatenate([np.zeros(count, np.bool_), np.ones(count, np.bool_)])
    amount = np.concatenate([moments.amount[order], moments.amount])
    merged = np.argsort(at_us, kind="stable")  # beginnings come first at the same time
    at_us, ends, amount = at_us[merged], ends[merged], amount[merged]
    for begin, end in alike(at_us // _PIECE_US):
        yield _of_merged(at_us[begin:end], ends[begin:end], amount[begin:end], unit)


def _of_merged(at_us: Numbers, ends: Flags, amount: Numbers, unit: Unit) -> Rise:
    base_us = int(at_us[0])
    before, passed = unit.per_us * base_us, unit.per_us * (at_us - base_us)
    own = amount * unit.of_one
    early, late = np.cumsum(np.where(ends, 0, own)), np.cumsum(np.where(ends, own, 0))
    low = np.where(ends, _FAR, early - own - passed)
    high = np.where(ends, late - passed, -_FAR)
    least, most = int(np.argmin(low)), int(np.argmax(high))
    lowest = np.minimum.accumulate(low)
    risen = np.where(ends & (lowest < _FAR), high - lowest, -_FAR)
    end = int(np.argmax(risen))
    rises = risen[end] > -_FAR
    begin = int(np.argmin(low[: end + 1]))
    return Rise(
        int(early[-1]),
        int(late[-1]),
        *((int(low[least]) - before, int(at_us[least])) if not ends[least] else (_NONE, 0)),
        *((int(high[most]) - before, int(at_us[most])) if ends[most] else (-_NONE, 0)),
        *((int(risen[end]), int(at_us[begin]), int(at_us[end])) if rises else (-_NONE, 0, 0)),
    )
