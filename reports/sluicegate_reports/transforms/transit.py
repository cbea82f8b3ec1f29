"""Transit: how long messages took that nothing keeps back, the yardstick for those that wait.

Where a whole machine stands still, everything comes late. What a policy does to a message is what comes on
top of that. Messages of topics without a rate, a delay or a bound on unacknowledged messages tell it. If none
of them was under way, a pause in all that the clients of an arm saw tells it too.
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.transforms.packed import NEVER, Numbers, Part, Topic
from sluicegate_reports.transforms.throttle import nearest_rank

SLOT_US = 100_000
AROUND = 2
"""Slots before and after one that count as the same moment."""
_KEEPING = (Family.RATE, Family.DELAY, Family.ASKED_DELAY, Family.UNACKED)
_MOST, _TIMES = 0.9, 3
"""A gap is a pause if it is 3 times as long as 90 % of the arm's gaps: else clients that seldom do anything
would always pause."""
_BySlot: TypeAlias = tuple[Numbers, Numbers]
"""Slots of `SLOT_US` since 1970, sorted, and a value of each."""


class Transit(NamedTuple):
    """How long messages of an arm took."""

    slots: Numbers
    """Slots with evidence, of `SLOT_US` since 1970, sorted."""
    transit_us: Numbers
    """The longest: of what was sent or came within `AROUND` slots, or of a pause that ended there."""
    soonest_us: int | None
    """The shortest of any message; None if none came."""

    def at(self, moments_us: Numbers) -> Numbers:
        """The longest when something was sent or came; NEVER where nothing tells."""
        index = np.searchsorted(self.slots, moments_us // SLOT_US)
        known = np.append(self.slots, NEVER)[index] == moments_us // SLOT_US
        return np.where(known, np.append(self.transit_us, NEVER)[index], NEVER)


class _Seen(NamedTuple):
    """Evidence of some rows of a topic."""

    took: _BySlot
    """The longest transit of messages that nothing keeps back."""
    first_us: _BySlot
    """When anything was seen, below 0: the greatest is the first."""
    last_us: _BySlot
    soonest_us: int | None


def keeping(trials: Sequence[Trial]) -> dict[tuple[str, str], frozenset[str]]:
    """The topics on which a policy keeps messages back, of the arms with fixed delays."""
    kept: dict[tuple[str, str], frozenset[str]] = {
        (each.system, each.door): frozenset() for each in trials if measured_as(each).family is Family.DELAY
    }
    for each in trials:
        arm = each.system, each.door
        if arm in kept and measured_as(each).family in _KEEPING:
            kept[arm] |= {each.topic}
    return kept


def transit(topic: Topic, kept: Mapping[tuple[str, str], frozenset[str]]) -> Iterator[Part]:
    """What a topic tells of an arm's transit.

    :param kept: see `keeping`; arms that it lacks are not looked at.
    """
    if topic.arm not in kept:
        return
    for piece in topic.observations("time_us", "event", "published_us"):
        at_us, sent_us = piece.number("time_us"), piece.number("published_us", NEVER)
        came = piece.text("event").among("received") & piece.known("published_us")
        took_us = at_us[came] - sent_us[came]
        slots = at_us // SLOT_US
        ends = np.concatenate([sent_us[came], at_us[came]]) // SLOT_US
        free = slice(None) if topic.name not in kept[topic.arm] else slice(0)
        soonest_us = int(took_us.min()) if len(took_us) else None
        took = _longest(ends[free], np.tile(took_us, 2)[free])
        yield topic.arm, _Seen(took, _longest(slots, -at_us), _longest(slots, at_us), soonest_us)


def transit_together(key: tuple[str, str], parts: Sequence[_Seen]) -> Iterator[dict[str, Any]]:
    """The transit of an arm at each moment: `system`, `door`, `transit`, as `Transit`."""
    took, first_us, last_us = (
        _longest(*map(np.concatenate, zip(*several, strict=True)))
        for several in list(zip(*parts, strict=True))[:3]
    )
    gaps_us = -first_us[1][1:] - last_us[1][:-1]
    long = gaps_us > _TIMES * (nearest_rank(np.sort(gaps_us), _MOST) if len(gaps_us) else 0)
    known = (np.concatenate([took[0], last_us[0][1:][long]]), np.concatenate([took[1], gaps_us[long]]))
    near = known[0][:, None] + np.arange(-AROUND, AROUND + 1)
    longest = _longest(near.ravel(), np.repeat(known[1], near.shape[1]))
    soonest_us = min((part.soonest_us for part in parts if part.soonest_us is not None), default=None)
    yield {"system": key[0], "door": key[1], "transit": Transit(*longest, soonest_us)}


def _longest(slots: Numbers, values: Numbers) -> _BySlot:
    """The greatest value of each slot."""
    own, index = np.unique(slots, return_inverse=True)
    greatest = np.full(len(own), NEVER)
    np.maximum.at(greatest, index, values)
    return own, greatest
