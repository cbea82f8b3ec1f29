"""Requests: what a lane admitted, refused and held, each alone, in order of time."""

from collections.abc import Collection, Sequence
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

    def begins_before(self, within_us: int) -> bool:
        """Whether anything was admitted or refused before this time."""
        return any(bool((at_us[:1] < within_us).any()) for at_us in (self.admitted.at_us, self.refused.at_us))


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
        # Without a known end it is NEVER, which lies before all times.
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


def merged(several: Collection[Requests]) -> Requests:
    """Those of several gateways' logs at the same time as one."""
    if len(several) == 1:
        return next(iter(several))
    joined_ = joined(list(several))
    return joined_._replace(
        admitted=Admitted(*_sorted([joined_.admitted])),
        refused=Refused(*_sorted([joined_.refused])),
        limited=Waited(*_sorted([joined_.limited])),
    )


def joined(slices: Sequence[Requests]) -> Requests:
    """Those of several slices, which are in order of time, as one."""
    if len(slices) == 1:
        return slices[0]
    columns = [np.concatenate(each) for each in zip(*map(_flat, slices), strict=True)]
    return _shaped(columns, max(each.window_ms for each in slices))


def _flat(requests: Requests) -> list[Numbers]:
    several = requests.admitted, requests.refused, requests.limited, requests.asked
    return [*(column for columns in several for column in columns), requests.failed_us]


def _shaped(columns: Sequence[Numbers], window_ms: int) -> Requests:
    of = iter(columns)
    admitted = Admitted._make(next(of) for _ in Admitted._fields)
    refused = Refused._make(next(of) for _ in Refused._fields)
    limited, asked = (Waited._make(next(of) for _ in Waited._fields) for _ in range(2))
    return Requests(admitted, refused, limited, asked, next(of), window_ms)


class Narrow(NamedTuple):
    """The requests of a slice in few bytes: some 5 for each that was admitted."""

    columns: tuple[tuple[int, Numbers | int], ...]
    """The least of each column, and what its values are more; or how many alike there are."""
    window_ms: int

    @classmethod
    def of(cls, requests: Requests) -> "Narrow":
        """Narrow all columns."""
        return cls(tuple(map(_narrowed, _flat(requests))), requests.window_ms)

    def exactly(self) -> tuple[Numbers, Numbers]:
        """When something was admitted, and how much, where times are exact."""
        at_us, amount, *_ = self.columns
        return _widened(*at_us), _widened(*amount)

    def requests(self) -> Requests:
        """The requests, widened again."""
        return _shaped([_widened(*column) for column in self.columns], self.window_ms)


def widened(requests: Requests | Narrow) -> Requests:
    """As wide as they were."""
    return requests.requests() if isinstance(requests, Narrow) else requests


def _narrowed(column: Numbers) -> tuple[int, Numbers | int]:
    if not len(column):
        return 0, 0
    least, most = int(column.min()), int(column.max())
    if least == most:
        return least, len(column)
    # Wider numbers than these save nothing.
    if most - least > np.iinfo(np.uint32).max:
        return 0, column
    return least, (column - least).astype(np.min_scalar_type(most - least))


def _widened(least: int, rest: Numbers | int) -> Numbers:
    if isinstance(rest, int):
        return np.full(rest, least)
    return rest.astype(np.int64) + least


_NONE = np.zeros(0, np.int64)


def _sorted(parts: Sequence[tuple[Numbers, ...]]) -> tuple[Numbers, ...]:
    """In order of the first column, then of the second."""
    columns = [np.concatenate(each) for each in zip(*parts, strict=True)]
    order = np.lexsort((columns[1], columns[0]))
    return tuple(column[order] for column in columns)
