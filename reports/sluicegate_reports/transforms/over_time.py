"""Latency and holds over time: how long answers took and how long gates held, by interval."""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, TypeAlias

import numpy as np

from sluicegate_reports.model.runs import Trial
from sluicegate_reports.transforms.ahead import Ahead, ahead_at
from sluicegate_reports.transforms.lanes import microseconds
from sluicegate_reports.transforms.packed import Numbers, Part, Topic
from sluicegate_reports.transforms.throttle import nearest_rank

_STRETCHES = 240
"""Of a run, at most."""
_TOGETHER = 8
"""Stretches whose latencies are looked at in one piece."""
_SECOND_US = 1_000_000


Span: TypeAlias = tuple[int, int, int]
"""Begin and end of a run in us since 1970, and the length of its stretches in us."""


def span(trials: Sequence[Trial]) -> Span:
    """The span of a run; its stretches are whole seconds."""
    begin_us = min(microseconds(trial.start) for trial in trials)
    end_us = max(microseconds(trial.end) for trial in trials)
    return begin_us, end_us, max(1, -(-(end_us - begin_us) // (_STRETCHES * _SECOND_US))) * _SECOND_US


def answers(topic: Topic, span: Span) -> Iterator[Part]:
    """How long producers waited for the answer to a message that was stored, by arm and stretches.

    :param span: of the run; what lies outside of it does not count.
    """
    begin_us, end_us, width_us = span
    for piece in topic.observations("time_us", "role", "event", "latency_ns"):
        at_us = piece.number("time_us") - begin_us
        rows = piece.text("role").among("producer") & piece.text("event").among("acknowledged")
        rows &= piece.known("latency_ns") & (at_us >= 0) & (at_us < end_us - begin_us)
        stretch, latency_ns = at_us[rows] // width_us, piece.number("latency_ns")[rows]
        for several in np.unique(stretch // _TOGETHER).tolist():
            own = stretch // _TOGETHER == several
            yield (*topic.arm, several), (stretch[own], latency_ns[own])


def answers_together(
    key: tuple[str, str, int], parts: Sequence[tuple[Numbers, Numbers]]
) -> Iterator[dict[str, Any]]:
    """The answers of all topics of an arm.

    :return: `system`, `door`, `stretch` (0 begins with the run), `median_ms`, `longest_ms`.
    """
    stretch, latency_ns = (np.concatenate(each) for each in zip(*parts, strict=True))
    for number in np.unique(stretch).tolist():
        ordered = np.sort(latency_ns[stretch == number])
        yield {
            "system": key[0],
            "door": key[1],
            "stretch": number,
            "median_ms": nearest_rank(ordered, 0.5) / 1e6,
            "longest_ms": int(ordered[-1]) / 1e6,
        }


def holds(topic: Topic, span: Span, clocks: Ahead) -> Iterator[Part]:
    """The longest hold that gates announced in each stretch, see `answers`.

    :param clocks: by how much gateways' clocks are ahead.
    """
    begin_us, end_us, width_us = span
    ahead = round(ahead_at(clocks, topic.arm, begin_us))
    longest: dict[int, int] = {}
    for piece in topic.decisions("time_us", "action", "delay"):
        at_us = piece.number("time_us") - ahead - begin_us
        rows = piece.text("action").among("delay") & (at_us >= 0) & (at_us < end_us - begin_us)
        stretch, delay = at_us[rows] // width_us, piece.number("delay")[rows]
        for number in np.unique(stretch).tolist():
            longest[number] = max(longest.get(number, 0), int(delay[stretch == number].max()))
    if longest:
        yield topic.arm, longest


def holds_together(key: tuple[str, str], parts: Sequence[Mapping[int, int]]) -> Iterator[dict[str, Any]]:
    """The holds of all topics of an arm: `system`, `door`, `stretch`, `longest_ms`."""
    for number in sorted(set().union(*parts)):
        longest = max(part.get(number, 0) for part in parts)
        yield {"system": key[0], "door": key[1], "stretch": number, "longest_ms": longest / 1e6}
