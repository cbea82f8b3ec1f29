"""The law from below: what a lane owed while somebody waited, and what it gave of that.

Somebody waits while a gateway holds something, and when it refuses something. A bucket that is empty loses
nothing until it is full: refusals that are no further apart belong to one time. In it the bucket owes what
it held at its begin and what the rate gave; one operation that was about to pass at the end is not owed.
"""

from collections.abc import Iterable
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


def waits(slices: Iterable[Requests], lane: Lane) -> Waited:
    """When somebody waited by what a gateway held and refused.

    :param slices: of one time after the other.
    """
    lasts_us = _lasts_us(lane)
    parts = [_joined(each.limited, lasts_us, lane.length_us) for each in slices]
    both = Waited(*(np.concatenate(each) for each in zip(*parts, strict=True)))
    return _joined(both, lasts_us, lane.length_us)


def _lasts_us(lane: Lane) -> int:
    """Time in which an empty bucket becomes full, until which it loses nothing."""
    return int(lane.burst / lane.rate * 1e6)


def shortfall(
    moments: Iterable[Moments], lane: Lane, limited: Waited, asked: Waited | None = None
) -> dict[str, Any] | None:
    """What was owed while somebody waited, and given.

    :param moments: when something was admitted, as for `excess.excess`.
    :param limited: see `waits`.
    :param asked: see `waits_of_clients`; without it nobody else waited.
    :return: `waited_s`, `owed` and `given` in what the lane counts, `fell_at_s` and `fell`: the time in which
        most of it was not given, and how much; None if nobody waited so long that an operation was owed.
    """
    waits = _together(limited, asked, lane)
    if not len(waits.from_us):
        return None
    grain = float(max((part.amount.max(initial=1) for part in moments), default=1))
    rate = lane.rate / 1e6
    level = _level(moments, lane, waits.from_us)
    # Debts are paid back first.
    level = np.where(waits.held, level, np.minimum(level, 0.0))
    owed = np.maximum(level + rate * (waits.to_us - waits.from_us) - grain, 0.0)
    if not owed.any():
        return None
    given = np.minimum(_given(moments, waits), owed)
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
    held = np.ones(len(limited.from_us), np.bool_)
    if asked is None or not len(asked.from_us):
        return _Waits(*limited, held)
    others = _joined(asked, 0, lane.length_us)
    both = Waited(*(np.concatenate(each) for each in zip(limited, others, strict=True)))
    joined = _joined(Waited(*_in_order(both)), 0, lane.length_us)
    return _Waits(*joined, np.isin(joined.from_us, limited.from_us))


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


def _level(moments: Iterable[Moments], lane: Lane, at_us: Numbers) -> Reals:
    """The least that a bucket may have held at some moments, charged with all that was admitted."""
    rate = lane.rate / 1e6
    x = _possible(moments, at_us) - rate * at_us
    # A bucket of which it is not known to be full at the begin is taken to be empty.
    low = np.full(len(at_us), 0.0 if lane.full else -lane.burst)
    total = 0
    for part in moments:
        before = total + np.cumsum(part.amount) - part.amount - rate * part.latest_us
        lowest = np.minimum.accumulate(np.append(np.inf, before))
        low = np.minimum(low, lowest[np.searchsorted(part.latest_us, at_us, "right")])
        total += int(part.amount.sum())
    level: Reals = lane.burst - np.maximum(x - low, 0.0)
    return level


def _given(moments: Iterable[Moments], waits: _Waits) -> Reals:
    """The most that may have been admitted in each time."""
    possible = _possible(moments, waits.to_us)
    certain = sum(_so_far(part.latest_us, part.amount, waits.from_us, "left") for part in moments)
    given: Reals = np.maximum(possible - certain, 0).astype(np.float64)
    return given


def _possible(moments: Iterable[Moments], at_us: Numbers) -> Numbers:
    """What may have been admitted up to some moments."""
    sums = np.zeros(len(at_us), np.int64)
    for part in moments:
        order = np.argsort(part.earliest_us, kind="stable")
        sums += _so_far(part.earliest_us[order], part.amount[order], at_us, "right")
    return sums


def _so_far(times_us: Numbers, amount: Numbers, at_us: Numbers, side: Literal["left", "right"]) -> Numbers:
    """Sum of what is up to some moments, or before them."""
    sums = np.append(0, np.cumsum(amount))
    return sums[np.searchsorted(times_us, at_us, side)]
