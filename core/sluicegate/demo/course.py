"""How a rate changed over time while its limit did: taken from the decision log, and kept to be drawn."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from sluicegate.demo.topic_log import Row, TopicLog

_SAMPLE_S = 0.1
_SMOOTHED = 3
"""Samples that a rate is taken over: one alone holds a few messages only."""


@dataclass(frozen=True, slots=True)
class Sample:
    """One moment."""

    at: float
    """Seconds since the beginning."""
    admitted: float
    """Messages per second that the gate let through."""
    allowed: float
    """Messages per second that the limit permitted."""
    state: str
    """What the gate was doing, in a word."""


@dataclass(frozen=True, slots=True)
class Chart:
    """What is drawn of a scene."""

    title: str
    samples: tuple[Sample, ...]


def chart(
    title: str,
    log: TopicLog,
    begin: float,
    end: float,
    free: float,
    state_of: Callable[[Row], str],
    free_after_s: float = inf,
) -> Chart:
    """What a topic's rows say of the time between two moments.

    :param begin: seconds since 1970.
    :param free: messages per second that clients may or would publish while none is held.
    :param state_of: the state that a row of a held message tells of, in a word.
    :param free_after_s: a topic of which nothing was held for so long is free again.
    """
    holds = [row for row in log.rows if row["action"] == "delay"]
    admitted = log.admitted("publish", "messages")
    samples: list[Sample] = []
    state, limit, place, told = "free", free, 0, begin
    for step in range(1, int((end - begin) / _SAMPLE_S) + 1):
        now = begin + step * _SAMPLE_S
        while place < len(holds) and holds[place]["time"].timestamp() <= now:
            limit, state = holds[place]["limit"], state_of(holds[place])
            told = holds[place]["time"].timestamp()
            place += 1
        if now - told > free_after_s:
            limit, state = free, "free"
        since = now - _SMOOTHED * _SAMPLE_S
        count = sum(each.amount for each in admitted if since < each.at <= now)
        samples.append(Sample(now - begin, count / (now - since), limit, state))
    return Chart(title, tuple(samples))
