"""Pressure: when the clients of a lane asked for more than its limit, as observed and not as planned."""

from collections.abc import Mapping
from typing import NamedTuple

import numpy as np

from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.packed import NEVER, Flags, Numbers
from sluicegate_reports.transforms.slots import Slots

_STALLED_US = 1_000_000


class Pressure(NamedTuple):
    """How long each slot of a lane was without pressure."""

    idle_us: Numbers
    """Time at its end since the clients were held back last, or since the lane began."""
    pressed: Flags


def pressure(slots: Mapping[str, Slots], lane: Lane) -> Pressure:
    """When the clients of a lane were under pressure.

    A gateway's clients are under pressure while it refuses or holds what they ask for, and while they wait
    and nothing is admitted. Where there is no log, waiting is all that is seen: producers that wait for any
    answer are taken to be held back, and consumers always, since what waits for them is not seen.

    Clients that are not planned to ask for more are under pressure only while they are refused or held: by
    the log where there is one, as a broker may refuse for reasons of its own.

    It goes on after a refusal or the end of a hold for as long as a full bucket lasts: a bucket that was
    empty loses nothing until it is full, so a client that asks again by then gets all that there is.

    :param slots: by source, of at least one.
    """
    width_us = next(iter(slots.values())).width_us
    count = lane.length_us // width_us
    begin_us = np.arange(count) * width_us
    asked, answered, admitted = (np.zeros(count, np.int64) for _ in range(3))
    until_us = np.full(count, NEVER)
    for source, each in slots.items():
        asked += each.asked[:count]
        answered += each.answered[:count]
        admitted += each.admitted[:count] if source == CLIENTS else 0
        if lane.saturated or source == LOG or LOG not in slots:
            until_us = np.maximum.reduce([until_us, each.until_us[:count], each.last_limited_us[:count]])
    until_us = np.maximum.accumulate(until_us)
    waiting = np.cumsum(asked) > np.cumsum(answered)
    so_far = np.cumsum(admitted)
    second = max(1, _STALLED_US // width_us)
    a_second_ago = np.concatenate([np.zeros(second, np.int64), so_far])[:count]
    stalled = waiting & (so_far == a_second_ago)
    held = lane.saturated & (stalled if LOG in slots else waiting | (lane.operation != "publish"))
    known, ended_us = until_us != NEVER, begin_us + width_us
    # Of clients that seldom come to the limit, a slot that is pressed in part would make much of little.
    as_long = begin_us if lane.saturated else ended_us - 1
    limited = known & (as_long < until_us + lane.burst / lane.rate * 1e6)
    idle_us = np.maximum(ended_us - np.where(known, until_us, 0), 0)
    return Pressure(np.where(held, 0, idle_us), held | limited)
