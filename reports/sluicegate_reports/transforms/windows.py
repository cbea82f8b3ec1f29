"""Rates over windows: what each second admitted, and how far windows are from the limit."""

from collections.abc import Mapping
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sluicegate_reports.transforms.flows import CLIENTS
from sluicegate_reports.transforms.lag import Lag
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.packed import Flags, Numbers
from sluicegate_reports.transforms.pressure import Pressure
from sluicegate_reports.transforms.slots import LATER, Slots
from sluicegate_reports.transforms.totals import largest

Reals: TypeAlias = np.ndarray[tuple[Any, ...], np.dtype[np.float64]]

_SETTLED_S = 2.0
"""Seconds from a lane's start after which a full bucket of one second is taken to be spent, where nothing
tells: enough for clients that ask for half as much again as the limit."""
_NOTHING = float("-inf")


def per_second(slots: Slots) -> list[dict[str, Any]]:
    """What each second of a lane admitted, was asked for and limited, all clients together.

    :return: `second`, `admitted`, `offered`, `limited`; of seconds in which there was anything.
    """
    second = np.arange(len(slots)) * slots.width_us // 1_000_000
    sums = {
        name: np.bincount(second, getattr(slots, name)).astype(np.int64)
        for name in ("rows", "admitted", "offered", "limited")
    }
    return [
        {"second": at, **{name: int(sums[name][at]) for name in ("admitted", "offered", "limited")}}
        for at in np.flatnonzero(sums["rows"]).tolist()
    ]


def spent(slots: Mapping[str, Slots]) -> dict[str, int | None]:
    """The slot in which something was limited for the first time, as each source tells.

    Clients that are held see no refusal: the log tells then.
    """
    first = {source: _first(each.limited > 0) for source, each in slots.items()}
    told = [slot for slot in first.values() if slot is not None]
    return {source: min(told, default=None) if slot is None else slot for source, slot in first.items()}


def rate_error(
    slots: Slots,
    lane: Lane,
    window_s: int,
    limited_slot: int | None,
    pressure: Pressure | None = None,
    lag: Lag | None = None,
) -> dict[str, Any] | None:
    """The windows that are furthest from the rate, among all of one length, each a slot after the one before.

    Windows begin when the burst is spent: after the slot in which something was limited for the first time.
    They end with the lane. Slots in which nothing happened count as 0.

    A window counts for `below` if its clients were under pressure for half of it. It is then compared with
    what they could have got: what a full bucket lost while they were not, and what was left in it for them at
    the window's end, is no error of the gateway's.

    :param window_s: length of a window in s.
    :param limited_slot: see `spent`.
    :param pressure: without it clients are taken to have always asked for more.
    :param lag: without it clients are taken to have seen everything at once.
    :return: `windows` (how many), `above`, `below` (largest and smallest relative error, 0.01 for one
        percent; `below` is of the windows under pressure, None if there is none), `above_net` and `below_net`
        (likewise, less the one operation that each window may have cut, and less what the clients caught up
        with in it, or fell behind), `above_burst` (the former of all windows from the lane's start on, less a
        full bucket or such an operation), `pressed` (windows under pressure), `unused` (largest share of such
        a window that its clients did not ask for), `largest` (amount admitted at once). None of a lane
        that is shorter than a window.
    """
    count, length = lane.length_us // slots.width_us, window_s * 1_000_000 // slots.width_us
    if count < length:
        return None
    steady = limited_slot + 1 if limited_slot is not None else _settled(lane, slots.width_us)
    pressed = pressure.pressed if pressure else np.ones(count, np.bool_)
    idle_us = pressure.idle_us if pressure else np.zeros(count, np.int64)
    bucket = _unused(slots, lane, steady, pressed, idle_us)
    caught_up = _caught_up(lag, length) if lag and slots.source == CLIENTS else np.zeros(count - length + 1)
    told = _errors(slots, lane, window_s, bucket, caught_up)
    under = 2 * _rolling(pressed.astype(np.int64), length) >= length
    return _furthest(told, np.arange(count - length + 1) >= steady, under) | {
        "largest": largest(slots.largest[length - 1 : count])
    }


class _Bucket(NamedTuple):
    """What clients let go by: `spilt` from a full bucket in a slot, and `left` in it at the slot's end."""

    spilt: Reals
    left: Reals


def _unused(slots: Slots, lane: Lane, steady: int, pressed: Flags, idle_us: Numbers) -> _Bucket:
    """What a bucket loses that is empty at the start of slot `steady`.

    What was admitted is charged to it. Its loss so far is the largest excess of rate x time over that sum,
    less its capacity.
    """
    count, begin_us = len(pressed), steady * slots.width_us
    slot = np.arange(count)
    own = np.where(slot >= steady, slots.admitted[:count], 0)
    up_to = np.cumsum(own)
    at_end = lane.rate * ((slot + 1) * slots.width_us - begin_us) / 1e6 - up_to
    # It is fullest at the end of a slot, or just before something is admitted in it.
    first_us = slots.first_us[:count]
    known = first_us != LATER
    at_first = lane.rate * (np.where(known, first_us, 0) - begin_us) / 1e6 - (up_to - own)
    fullest = np.maximum(at_end, np.where(known, at_first, at_end)) - lane.burst
    lost = np.maximum(np.maximum.accumulate(np.where(slot >= steady, fullest, _NOTHING)), 0.0)
    now = np.diff(lost, prepend=0.0)
    since = lane.rate * idle_us / 1e6
    left = np.maximum(np.minimum(at_end - lost, since), 0.0)
    return _Bucket(np.where(pressed, 0.0, now), left)


def _caught_up(lag: Lag, length: int) -> Reals:
    """What clients caught up with in each window; below 0, how much they fell behind."""
    found = lag.behind[: len(lag.behind) - length + 1] - lag.after[length - 1 :]
    kept: Reals = np.clip(found, -lag.most_behind, lag.most_behind)
    return kept


def _errors(slots: Slots, lane: Lane, window_s: int, bucket: _Bucket, caught_up: Reals) -> dict[str, Reals]:
    """The errors of each window; see `rate_error`. Not a number: it is compared with nothing."""
    count, length = len(bucket.left), len(bucket.left) - len(caught_up) + 1
    total, of_window = _rolling(slots.admitted[:count], length), lane.rate * window_s
    unused = _rolling(bucket.spilt, length) + bucket.left[length - 1 :]
    could = np.where(unused < of_window, of_window - unused, np.nan)
    # A window may begin or end in the middle of one operation: of one within it, or of the next.
    most = np.maximum(slots.largest[:count], 0)
    ends = _highest(most, length)
    cut = _highest(np.concatenate([most, np.zeros(length, np.int64)]), 2 * length)
    seen_late, seen_later = np.maximum(caught_up, 0.0), np.maximum(-caught_up, 0.0)
    return {
        "above": total / of_window - 1,
        "above_net": (total - ends - seen_late) / of_window - 1,
        "below": total / could - 1,
        "below_net": (total + cut + seen_later) / could - 1,
        "unused": unused / of_window,
        "above_burst": (total - np.maximum(lane.burst, ends) - seen_late) / of_window - 1,
    }


def _furthest(errors: Mapping[str, Reals], steady: Flags, under: Flags) -> dict[str, Any]:
    """The figures of a lane out of its windows; see `rate_error`."""
    pressed = under & steady

    def most(name: str, rows: Flags, sign: int = 1) -> float | None:
        told = errors[name][rows]
        told = sign * told[~np.isnan(told)]
        return sign * float(told.max()) if len(told) else None

    return {
        "windows": int(np.count_nonzero(steady)),
        "above": most("above", steady),
        "below": most("below", pressed, -1),
        "above_net": most("above_net", steady),
        "above_burst": most("above_burst", steady | ~steady),
        "below_net": most("below_net", pressed, -1),
        "pressed": int(np.count_nonzero(pressed)),
        "unused": most("unused", pressed),
    }


def _rolling(values: Any, length: int) -> Any:
    """Sums of so many neighbours, one after the other: so their last digits depend on nothing before them."""
    count = len(values) - length + 1
    sums = np.zeros(count, values.dtype)
    for place in range(length):
        sums += values[place : place + count]
    return sums


def _highest(values: Numbers, length: int) -> Numbers:
    """The highest of so many neighbours."""
    found: Numbers = np.lib.stride_tricks.sliding_window_view(values, length).max(axis=1)
    return found


def _settled(lane: Lane, width_us: int) -> int:
    return int(np.ceil(_SETTLED_S * 1_000_000 * lane.burst / lane.rate / width_us))


def _first(rows: Flags) -> int | None:
    found = np.flatnonzero(rows)
    return int(found[0]) if len(found) else None
