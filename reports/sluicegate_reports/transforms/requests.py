"""Requests: what a lane admitted, refused and held, each alone, in order of time."""

from typing import NamedTuple

import numpy as np

from sluicegate_reports.transforms.flows import (
    ADMITTED,
    CLIENTS,
    DROPPED,
    FAILED,
    HELD,
    OFFERED,
    REFUSED,
    Flows,
)
from sluicegate_reports.transforms.packed import Numbers


class Admitted(NamedTuple):
    """What was admitted; see `flows` for the fields."""

    at_us: Numbers
    amount: Numbers
    messages: Numbers
    since_us: Numbers
    window_us: Numbers


class Refused(NamedTuple):
    """What was refused or dropped."""

    at_us: Numbers
    amount: Numbers


class Waited(NamedTuple):
    """From when to when somebody waited."""

    from_us: Numbers
    to_us: Numbers


class Requests(NamedTuple):
    """Times in us since the lane began, and amounts in what it counts; from one source."""

    admitted: Admitted
    refused: Refused
    limited: Waited
    """What a gateway held, and what was refused, which waits for a moment."""
    asked: Waited
    """By clients: the times of all questions, and of all answers, each column sorted by itself."""
    failed_us: Numbers
    """When clients were told that something failed, or gave up."""
    window_ms: int
    """The longest: how exact the times are."""


class Gathered:
    """The requests of one source of a lane, piece by piece."""

    def __init__(self, source: str) -> None:
        """Begin without any."""
        self._source = source
        self._admitted: list[tuple[Numbers, ...]] = []
        self._refused: list[tuple[Numbers, ...]] = []
        self._limited: list[tuple[Numbers, ...]] = []
        self._asked_us: list[Numbers] = []
        self._answered_us: list[Numbers] = []
        self._failed_us: list[Numbers] = []
        self._window_ms = 0

    def add(self, flows: Flows) -> None:
        """Take further flows into account."""
        admitted, refused, held = flows.are(ADMITTED), flows.are(REFUSED, DROPPED), flows.are(HELD)
        columns = (flows.at_us, flows.amount, flows.messages, flows.since_us, flows.window_ms * 1000)
        self._admitted.append(tuple(column[admitted] for column in columns))
        self._refused.append((flows.at_us[refused], flows.amount[refused]))
        until_us = np.where(held, np.maximum(flows.until_us, flows.at_us), flows.at_us)
        self._limited.append((flows.at_us[refused | held], until_us[refused | held]))
        if self._source == CLIENTS:
            self._asked_us.append(flows.at_us[flows.are(OFFERED)])
            self._answered_us.append(flows.at_us[flows.are(ADMITTED, REFUSED, FAILED)])
            self._failed_us.append(flows.at_us[flows.are(FAILED)])
        self._window_ms = max(self._window_ms, int(flows.window_ms[admitted | refused].max(initial=0)))

    def requests(self) -> Requests:
        """All that was added, at least once."""
        return Requests(
            Admitted(*_sorted(self._admitted)),
            Refused(*_sorted(self._refused)),
            Waited(*_sorted(self._limited)),
            Waited(
                *(np.sort(np.concatenate(times or [_NONE])) for times in (self._asked_us, self._answered_us))
            ),
            np.concatenate(self._failed_us or [_NONE]),
            self._window_ms,
        )


_NONE = np.zeros(0, np.int64)


def _sorted(parts: list[tuple[Numbers, ...]]) -> tuple[Numbers, ...]:
    """In order of the first column, then of the second."""
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    return tuple(column[order] for column in columns)
