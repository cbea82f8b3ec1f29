"""Samples a rate and its changing limit over time from the decision log, for a chart."""

from collections.abc import Callable
from dataclasses import dataclass
from math import inf

from sluicegate.demo.topic_log import Row, TopicLog

_SAMPLE_S = 0.1
_SMOOTHED = 3
"""Number of samples over which a rate is averaged; a single one has only a few messages."""


@dataclass(frozen=True, slots=True)
class Sample:
    """The state at one moment."""

    at: float
    """Seconds since the start."""
    admitted: float
    """Messages per second that the gateway admitted."""
    allowed: float
    """Messages per second that the limit allowed."""
    state: str
    """The state of the limit, in a word."""


@dataclass(frozen=True, slots=True)
class Chart:
    """The chart of a scene."""

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
    """Create a chart from a topic's rows between two moments.

    :param begin: seconds since 1970.
    :param free: messages per second that clients can publish while none is held.
    :param state_of: returns the state for a row of a held message, in a word.
    :param free_after_s: after this time without held messages the topic counts as free.
    """
    holds = [row for row in log.rows if row["action"] == "delay"]
    admitted = log.admitted("publish", "messages")
    samples: list[Sample] = []
    state, limit, index, last = "free", free, 0, begin
    for step in range(1, int((end - begin) / _SAMPLE_S) + 1):
        now = begin + step * _SAMPLE_S
        while index < len(holds) and holds[index]["time"].timestamp() <= now:
            limit, state = holds[index]["limit"], state_of(holds[index])
            last = holds[index]["time"].timestamp()
            index += 1
        if now - last > free_after_s:
            limit, state = free, "free"
        since = now - _SMOOTHED * _SAMPLE_S
        count = sum(each.amount for each in admitted if since < each.at <= now)
        samples.append(Sample(now - begin, count / (now - since), limit, state))
    return Chart(title, tuple(samples))
