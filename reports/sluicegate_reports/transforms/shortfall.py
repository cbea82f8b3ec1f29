"""The law from below: what a lane owed while somebody waited, and what it gave of that.

Somebody waits while a gateway holds something, and when it refuses something. A bucket that is empty loses
nothing until it is full: refusals that are no further apart belong to one time. In it the bucket owes what
it held at its begin and what the rate gave; one operation that was about to pass at the end is not owed.
"""

from typing import Any, Literal, NamedTuple, TypeAlias

import numpy as np

from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.law import Moments
from sluicegate_reports.transforms.packed import Flags, Numbers
from sluicegate_reports.transforms.requests import Requests, Waited

Reals: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]


class _Waits(NamedTuple):
    """Times in which somebody waited, in order and apart from each other."""

    from_us: Numbers
    to_us: Numbers
    held: Flags
    """Whether it is known that something could not pass at the begin."""


class _Early(NamedTuple):
    """What was admitted, in order of the earliest moment."""

    at_us: Numbers
    amount: Numbers

    @classmethod
    def of(cls, moments: Moments) -> "_Early":
        """Of moments in order of the latest."""
        order = np.argsort(moments.earliest_us, kind="stable")
        return cls(moments.earliest_us[order], moments.amount[order])


def shortfall(
    moments: Moments, lane: Lane, limited: Waited, asked: Waited | None = None
) -> dict[str, Any] | None:
    """What was owed while somebody waited, and given.

    :param moments: when something was admitted.
    :param limited: what was held and refused.
    :param asked: see `waits_of_clients`; without it nobody else waited.
    :return: `waited_s`, `owed` and `given` in what the lane counts, `fell_at_s` and `fell`: the time in which
        most of it was not given, and how much; None if nobody waited so long that an operation was owed.
    """
    waits = _together(limited, asked, lane)
    if not len(waits.from_us):
        return None
    grain = float(moments.amount.max(initial=1))
    rate = lane.rate / 1e6
    early = _Early.of(moments)
    level = _level(moments, early, lane, waits.from_us)
    # Debts are paid back first.
    level = np.where(waits.held, level, np.minimum(level, 0.0))
    owed = np.maximum(level + rate * (waits.to_us - waits.from_us) - grain, 0.0)
    if not owed.any():
        return None
    given = np.minimum(_given(moments, early, waits), owed)
    worst = int(np.argmax(owed - given))
    return {
        "waited_s": float((waits.to_us - waits.from_us).sum()) / 1e6,
        "owed": float(owed.sum()),
        "given": float(given.sum()),
        "fell": float(owed[worst] - given[worst]),
        "fell_at_s": float(waits.from_us[worst]) / 1e6,
    }


def waits_of_clients(seen: Requests, lane: Lane) -> Waited:
    """When clients of a system without a log waited, if they are planned to ask for more than the limit.

    Producers wait while any question has no answer. Consumers always do: what waits for them is not seen.
    """
    if not lane.saturated:
        return Waited(*(np.zeros(0, np.int64) for _ in Waited._fields))
    if lane.operation == "dispatch":
        first_us = seen.admitted.at_us[:1]
        return Waited(first_us, np.full(len(first_us), lane.length_us))
    at_us = np.concatenate([seen.asked.from_us, seen.asked.to_us])
    step = np.concatenate([np.ones(len(seen.asked.from_us), int), -np.ones(len(seen.asked.to_us), int)])
    order = np.argsort(at_us, kind="stable")
    at_us, known = at_us[order], np.cumsum(step[order])
    ends_us = np.append(at_us[1:], lane.length_us)[: len(at_us)]
    # Answers to what nobody asked in the lane: that was asked before.
    waiting = (known - known.min(initial=0) > 0) & (ends_us > at_us)
    return Waited(at_us[waiting], ends_us[waiting])


def _together(limited: Waited, asked: Waited | None, lane: Lane) -> _Waits:
    lasts_us = int(lane.burst / lane.rate * 1e6)
    of_limited = _joined(limited, lasts_us, lane.length_us)
    held = np.ones(len(of_limited.from_us), np.bool_)
    if asked is None or not len(asked.from_us):
        return _Waits(*of_limited, held)
    others = _joined(asked, 0, lane.length_us)
    both = Waited(*(np.concatenate(each) for each in zip(of_limited, others, strict=True)))
    joined = _joined(Waited(*_in_order(both)), 0, lane.length_us)
    return _Waits(*joined, np.isin(joined.from_us, of_limited.from_us))


def _in_order(waited: Waited) -> tuple[Numbers, ...]:
    order = np.argsort(waited.from_us, kind="stable")
    return tuple(column[order] for column in waited)


def _joined(waited: Waited, apart_us: int, length_us: int) -> Waited:
    """One of those that are no further apart, in order of their begins."""
    if not len(waited.from_us):
        return waited
    to_us = np.minimum(np.maximum.accumulate(waited.to_us), length_us)
    apart = waited.from_us[1:] > to_us[:-1] + apart_us
    begins = np.append(0, np.flatnonzero(apart) + 1)
    ends = np.append(begins[1:], len(to_us)) - 1
    return Waited(waited.from_us[begins], np.maximum(to_us[ends], waited.from_us[begins]))


def _level(moments: Moments, early: _Early, lane: Lane, at_us: Numbers) -> Reals:
    """The least that a bucket may have held at some moments, charged with all that was admitted."""
    rate = lane.rate / 1e6
    x = _so_far(early.at_us, early.amount, at_us, "right") - rate * at_us
    before = np.cumsum(moments.amount) - moments.amount - rate * moments.latest_us
    lowest = np.minimum.accumulate(np.append(np.inf, before))
    low = lowest[np.searchsorted(moments.latest_us, at_us, "right")]
    # A bucket of which it is not known to be full at the begin is taken to be empty.
    low = np.minimum(low, 0.0 if lane.full else -lane.burst)
    level: Reals = lane.burst - np.maximum(x - low, 0.0)
    return level


def _given(moments: Moments, early: _Early, waits: _Waits) -> Reals:
    """The most that may have been admitted in each time."""
    possible = _so_far(early.at_us, early.amount, waits.to_us, "right")
    certain = _so_far(moments.latest_us, moments.amount, waits.from_us, "left")
    given: Reals = np.maximum(possible - certain, 0).astype(np.float64)
    return given


def _so_far(times_us: Numbers, amount: Numbers, at_us: Numbers, side: Literal["left", "right"]) -> Numbers:
    """Sum of what is up to some moments, or before them."""
    sums = np.append(0, np.cumsum(amount))
    found: Numbers = sums[np.searchsorted(times_us, at_us, side)]
    return found
