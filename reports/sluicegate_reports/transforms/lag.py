"""Lag: what a gate had let pass and clients had not seen yet, which they see at once when they catch up.

On a machine that stalls, clients see more in a window than was let pass in it: what was on its way when the
window began, less what was when it ended. Beside a log both are known. Without one only a stand-still of the
clients tells that something came late: what the rate gave in that time may come at its end.
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sluicegate_reports.transforms.flows import CLIENTS, LOG
from sluicegate_reports.transforms.lanes import Lane
from sluicegate_reports.transforms.packed import NEVER, Numbers, Topic
from sluicegate_reports.transforms.slots import LATER, Slots

_CATCHING_UP = 2
"""Slots after a stand-still in which clients still see what came meanwhile."""


class Carried(NamedTuple):
    """What was on its way to the clients when a lane began."""

    amount: int = 0
    messages: int = 0


class Lag(NamedTuple):
    """What clients had yet to see, slot by slot, in what the lane counts."""

    came: Numbers
    """What they saw in each slot."""
    behind: Any
    """What they had yet to see when it began."""
    after: Any
    """Likewise when it ended."""
    most_behind: float
    """What counts of it at most."""
    carried: Carried


def lag(slots: Mapping[str, Slots], lane: Lane, carried: Carried, stall_s: float, transit_s: float) -> Lag:
    """What clients of a lane had yet to see.

    :param slots: by source, of at least one.
    :param carried: see `carried`.
    :param stall_s: without a log, the longest standstill that explains late messages.
    :param transit_s: beside a log, the seconds of the rate that may be in transit.
    """
    width_us = next(iter(slots.values())).width_us
    count = lane.length_us // width_us
    let_pass, came = (
        slots[source].admitted[:count] if source in slots else np.zeros(count, np.int64)
        for source in (LOG, CLIENTS)
    )
    if LOG in slots:
        owed = carried.amount + np.cumsum(let_pass - came)
        behind = np.maximum(np.concatenate([[carried.amount], owed]), 0).astype(np.float64)
    else:
        behind = lane.rate * _stalled(slots[CLIENTS], count) / 1e6
    most_behind = lane.rate * (transit_s if LOG in slots else stall_s)
    return Lag(came, behind[:-1], behind[1:], most_behind, carried)


def _stalled(seen: Slots, count: int) -> Numbers:
    """The longest time without anything that ended in each slot, or just before it; of one slot more too."""
    first_us, last_us = np.full(count + 1, LATER), np.full(count + 1, NEVER)
    told = min(len(seen), count + 1)
    first_us[:told], last_us[:told] = seen.seen_first_us[:told], seen.seen_last_us[:told]
    ended_us = (np.arange(count + 1) + 1) * seen.width_us
    first_us = np.where(first_us == LATER, ended_us, first_us)
    before = np.concatenate([[NEVER], np.maximum.accumulate(last_us)[:-1]])
    gap_us = np.where(before == NEVER, 0, first_us - np.where(before == NEVER, 0, before))
    found: Numbers = np.max(
        [np.concatenate([np.zeros(late, np.int64), gap_us])[: count + 1] for late in range(_CATCHING_UP + 1)],
        axis=0,
    )
    return found


def most(lag: Lag) -> dict[str, Any] | None:
    """The lag of a lane as a whole; None of one that is shorter than a slot.

    :return: `first_behind` (when clients saw the first; None if they saw nothing), `behind` (at most),
        `carried_messages`.
    """
    if not len(lag.behind):
        return None
    counted = np.minimum(lag.behind, lag.most_behind)
    seen = np.flatnonzero(lag.came > 0)
    return {
        "first_behind": float(counted[seen[0]]) if len(seen) else None,
        "behind": float(counted.max()),
        "carried_messages": lag.carried.messages,
    }


def carried(lanes: Sequence[tuple[Lane, Mapping[str, Slots]]]) -> dict[int, Carried]:
    """What was on its way when each lane began: let pass in earlier ones and not seen there.

    :param lanes: of one topic, with their slots by source.
    :return: by number of the lane; only of lanes that begin where another one of their place ends.
    """
    places: dict[tuple[str, str | None], list[tuple[Lane, Mapping[str, Slots]]]] = {}
    for lane, slots in lanes:
        if LOG in slots:
            places.setdefault((lane.policy, lane.subscription), []).append((lane, slots))
    found = {}
    for several in places.values():
        amount, messages, end_us = 0, 0, None
        for lane, slots in sorted(several, key=lambda each: each[0].begin_us):
            if end_us == lane.begin_us:
                found[lane.number] = Carried(max(amount, 0), max(messages, 0))
            for source, sign in ((LOG, 1), (CLIENTS, -1)):
                if source in slots:
                    amount += sign * int(slots[source].admitted.sum())
                    messages += sign * int(slots[source].admitted_messages.sum())
            end_us = lane.end_us
    return found


def unanswered(topic: Topic, lanes: Sequence[Lane]) -> dict[int, int]:
    """Messages that were sent before their lane's end and acknowledged after it.

    :return: by number of the lane, where there are any.
    """
    published = [lane for lane in lanes if lane.operation == "publish"]
    found: dict[int, int] = {}
    if not published:
        return found
    for piece in topic.observations("time_us", "role", "event", "messages", "latency_ns"):
        told = piece.text("role").among("producer") & piece.text("event").among("acknowledged")
        told &= piece.known("latency_ns")
        told_us, messages = piece.number("time_us")[told], piece.number("messages")[told]
        sent_us = told_us - piece.number("latency_ns")[told] / 1000
        for lane in published:
            late = (sent_us < lane.end_us) & (told_us >= lane.end_us)
            if late.any():
                found[lane.number] = found.get(lane.number, 0) + int(messages[late].sum())
    return found
