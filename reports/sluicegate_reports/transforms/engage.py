"""How soon a limit engages once clients exceed it, and how soon it releases again."""

from typing import Any

import numpy as np

from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.packed import NEVER
from sluicegate_reports.transforms.slots import LATER, Slots

_SECOND_US = 1_000_000


def engage(slots: Slots, lane: Lane) -> dict[str, Any]:
    """Time to engage and to release, to within a slot.

    An ideal bucket is spent when what was asked for since any moment exceeds rate x time + burst. The load
    has fallen when no later second asks for more than the rate.

    :return: `spent_us` (start of the slot in which an ideal bucket is spent; None if it never is),
        `first_limited_us`, `engage_ms` (from the one to the other; below 0: limited too early), `fell_us`
        (None if the load did not fall before the end), `last_limited_us`, `release_ms`.
    """
    seen = slots.rows > 0
    start_us = np.arange(len(slots)) * slots.width_us
    so_far = np.cumsum(slots.offered)
    x = so_far - lane.rate * start_us / 1e6
    low = np.minimum.accumulate(x - slots.offered)
    width = _SECOND_US // slots.width_us
    second = so_far - np.concatenate([np.zeros(width, np.int64), so_far])[: len(slots)]
    spent = start_us[seen & (x - low > lane.burst)]
    busy = start_us[seen & (second > lane.rate)] + slots.width_us
    spent_us = int(spent[0]) if len(spent) else None
    fell_us = int(busy[-1]) if len(busy) and busy[-1] + _SECOND_US <= lane.length_us else None
    first_us, last_us = int(slots.first_limited_us.min()), int(slots.last_limited_us.max())
    first, last = (None if first_us == LATER else first_us), (None if last_us == NEVER else last_us)
    return {
        "spent_us": spent_us,
        "first_limited_us": first,
        "engage_ms": None if first is None or spent_us is None else (first - spent_us) / 1000,
        "fell_us": fell_us,
        "last_limited_us": last,
        "release_ms": None if last is None or fell_us is None else max(last - fell_us, 0) / 1000,
    }
