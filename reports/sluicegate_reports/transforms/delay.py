"""Delivery under a fixed delay: lateness of messages, and that none comes early."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from sluicegate_reports.transforms.lanes import Try, tried_at
from sluicegate_reports.transforms.packed import NEVER, Numbers, Part, Topic
from sluicegate_reports.transforms.transit import Transit
from sluicegate_reports.verdicts.thresholds import EARLY_MS

SHARES = (0.01, 0.1, 0.25, 0.5, 0.75, 0.9, 0.99, 0.999)
EDGES_MS = (
    *(-1000, -500, -200, -100, -50, -20, -10, -5, -2, -1),
    *(0, 1, 2, 5, 10, 20, 50, 100, 150, 200, 250, 300, 400, 500, 750),
    *(1000, 2000, 5000, 10_000, 30_000, 60_000),
)
"""Where the stretches of the distribution begin; the first has all that is earlier too."""


class _Counted(NamedTuple):
    """Times in us, sorted, and how many there are of up to each."""

    us: Numbers
    up_to: Numbers

    def quantiles(self, shares: Sequence[float]) -> list[float]:
        """In ms, by nearest rank."""
        ranks = [max(1, math.ceil(int(self.up_to[-1]) * share)) for share in shares]
        quantiles: list[float] = (self.us[np.searchsorted(self.up_to, ranks)] / 1000).tolist()
        return quantiles

    def below(self, edges_ms: Sequence[float]) -> list[int]:
        """How many are less than each of these."""
        before = np.searchsorted(self.us, np.array(edges_ms) * 1000)
        counts: list[int] = np.append(0, self.up_to)[before].tolist()
        return counts


def errors(topic: Topic, tried: Sequence[Try], transits: Mapping[tuple[str, str], Transit]) -> Iterator[Part]:
    """How much later than published + delay messages of a topic came, and how much of it others did not.

    :param tried: of fixed delays.
    :param transits: by system and door.
    """
    own = tried_at(topic.topic_key, tried)
    for piece in topic.observations("time_us", "phase", "event", "published_us") if own else ():
        came = piece.text("event").among("received") & piece.known("published_us")
        for each in own:
            rows = came & piece.text("phase").among(each.phase)
            if rows.any():
                came_us, sent_us = piece.number("time_us")[rows], piece.number("published_us", NEVER)[rows]
                late_us = came_us - sent_us - round(each.limit * 1000)
                others_us = np.maximum(*(transits[topic.arm].at(moment) for moment in (sent_us, came_us)))
                # Where no other message tells, nothing excuses lateness.
                beyond_us = np.maximum(late_us - np.where(others_us == NEVER, 0, others_us), 0)
                yield (
                    (*topic.arm, each.trial),
                    [np.unique(us, return_counts=True) for us in (late_us, beyond_us)],
                )


def errors_together(
    key: tuple[str, str, int],
    parts: Sequence[Sequence[tuple[Numbers, Numbers]]],
    transits: Mapping[tuple[str, str], Transit],
) -> Iterator[dict[str, Any]]:
    """Lateness in a trial; publishing and delivery are on one clock.

    :return: `trial`, `messages`, `soonest_ms` (from sending to arrival, of any message of the arm), `early`
        (more than EARLY_MS too early; None if clocks differ, as `soonest_ms` then shows), `least_ms`,
        `most_ms`, `quantiles` (in ms, one for each of SHARES), `up_to` (messages less late than each of
        EDGES_MS), `beyond` (as `quantiles`, of the lateness less the transit of others when the message was
        sent or when it came, whichever was longer; at least 0).
    """
    late, beyond = (_counted(several) for several in zip(*parts, strict=True))
    soonest_ms = (transits[key[0], key[1]].soonest_us or 0) / 1000
    yield {
        "trial": key[2],
        "messages": int(late.up_to[-1]),
        "soonest_ms": soonest_ms,
        "early": late.below([-EARLY_MS])[0] if soonest_ms >= -EARLY_MS else None,
        "least_ms": int(late.us[0]) / 1000,
        "most_ms": int(late.us[-1]) / 1000,
        "quantiles": late.quantiles(SHARES),
        "up_to": late.below(EDGES_MS),
        "beyond": beyond.quantiles(SHARES),
    }


def _counted(parts: Sequence[tuple[Numbers, Numbers]]) -> _Counted:
    us, count = map(np.concatenate, zip(*parts, strict=True))
    order = np.argsort(us)
    return _Counted(us[order], np.cumsum(count[order]))
