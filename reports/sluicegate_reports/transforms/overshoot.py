"""Overshoot: how much more than a token bucket allows the worst window admitted.

With X(t) = admitted up to t - rate x t, the worst window up to t has admitted X(t) - min X(before s), over
s <= t, more than rate x its length; a bucket allows `burst`. X begins anew with each second, so that no
digits are lost, and the seconds are then joined by their sums, highest and lowest X, as the largest sum of a
subarray is joined from parts: the result is the same, to the rounding of a double.
"""

from typing import Any

import numpy as np

from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.requests import Requests

_SECOND_US = 1_000_000


def overshoot(found: Requests, lane: Lane) -> dict[str, Any] | None:
    """The worst window of a lane.

    :return: `overshoot` in what the lane counts (at most 0: the bucket was kept), `admitted`, `window_ms`
        (how exact the times were); None if nothing was admitted.
    """
    if not len(found.at_us):
        return None
    second = found.at_us // _SECOND_US
    passed = lane.rate * (found.at_us % _SECOND_US) / 1e6
    begins = np.flatnonzero(np.diff(second, prepend=-1))
    worst, before, lowest_before = float("-inf"), 0.0, float("inf")
    for begin, end in zip(begins.tolist(), [*begins[1:].tolist(), len(second)], strict=True):
        totals = np.cumsum(found.amount[begin:end])
        lowest = np.minimum.accumulate(totals - found.amount[begin:end] - passed[begin:end])
        x = totals - passed[begin:end]
        offset = before - lane.rate * float(second[begin])
        risen = max(float((x - lowest).max()), offset + float(x.max()) - lowest_before)
        worst = max(worst, risen - lane.burst)
        lowest_before = min(lowest_before, offset + float(lowest[-1]))
        before += float(totals[-1])
    return {"overshoot": worst, "admitted": before, "window_ms": found.window_ms}
