"""Refusals against a perfect gate: each decision is judged in order of time."""

from dataclasses import asdict
from typing import Any

import numpy as np

from sluicegate_reports.transforms.ideal import judge
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.requests import Requests

_SLACK_US = 2
"""A gate decides to the nanosecond and the log tells the microsecond: a refill may fall on either side."""


def refusals(log: Requests, lane: Lane, within_us: int) -> dict[str, Any] | None:
    """Judge the log of a lane with a row for each decision.

    What a gateway holds is not judged: it waits for its turn behind others, however much the bucket holds.

    :param log: of the log.
    :param within_us: from the lane's start.
    :return: `admitted`, `refused`, `wrongly_admitted`, `wrongly_refused`, `ideal_refused`; None if there is
        nothing to judge, or allows are summed up.
    """
    admitted = log.admitted.at_us < within_us
    refused = log.refused.at_us < within_us
    at_us = np.concatenate([log.admitted.at_us[admitted], log.refused.at_us[refused]])
    if log.window_ms or not len(at_us):
        return None
    amount = np.concatenate([log.admitted.amount[admitted], log.refused.amount[refused]])
    passed = np.arange(len(at_us)) < np.count_nonzero(admitted)
    # Within a microsecond: admitted first, then largest first.
    order = np.lexsort((-amount, ~passed, at_us))
    asked = zip(at_us[order].tolist(), amount[order].tolist(), passed[order].tolist(), strict=True)
    return asdict(judge(asked, lane.rate, lane.burst, _SLACK_US, full=lane.full))
