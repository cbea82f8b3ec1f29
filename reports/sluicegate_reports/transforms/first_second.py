"""The first second, in which a full bucket admits at most rate + burst."""

from typing import Any

from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.requests import Requests

_SECOND_US = 1_000_000


def first_second(found: Requests, lane: Lane) -> dict[str, Any] | None:
    """What the second after the first admission let through.

    :return: `first_second`, `allowed` (rate + burst), both in what the lane counts, and `largest` (amount
        admitted at once, which may pass a full bucket even if it is more than that); None if nothing was
        admitted.
    """
    if not len(found.at_us):
        return None
    amount = found.amount[found.at_us < found.at_us[0] + _SECOND_US]
    return {
        "first_second": int(amount.sum()),
        "allowed": lane.rate + lane.burst,
        "largest": int(amount.max()),
    }
