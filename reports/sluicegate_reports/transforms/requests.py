"""Requests: what a lane admitted and refused, each alone, in order of time."""

from typing import NamedTuple, TypeAlias

import numpy as np

from sluicegate_reports.transforms.flows import ADMITTED, DROPPED, LOG, REFUSED, Flows
from sluicegate_reports.transforms.packed import Numbers

_Pairs: TypeAlias = list[tuple[Numbers, Numbers]]


class Requests(NamedTuple):
    """Times in us since the lane began, and amounts in what it counts; from one source."""

    at_us: Numbers
    """Of what was admitted."""
    amount: Numbers
    refused_at_us: Numbers
    """Of what a gateway refused or dropped in the time that is judged."""
    refused_amount: Numbers
    window_ms: int
    """The longest: how exact the times are."""


class Gathered:
    """The requests of one source of a lane, piece by piece."""

    def __init__(self, source: str, judged_us: int) -> None:
        """Begin without any.

        :param judged_us: up to so long after a lane's start what a gateway did not let pass is kept too.
        """
        self._judged_us = judged_us if source == LOG else 0
        self._admitted: _Pairs = []
        self._refused: _Pairs = []
        self._window_ms = 0

    def add(self, flows: Flows) -> None:
        """Take further flows into account."""
        admitted = flows.are(ADMITTED)
        refused = flows.are(REFUSED, DROPPED) & (flows.at_us < self._judged_us)
        self._admitted.append((flows.at_us[admitted], flows.amount[admitted]))
        self._refused.append((flows.at_us[refused], flows.amount[refused]))
        self._window_ms = max(self._window_ms, int(flows.window_ms[admitted | refused].max(initial=0)))

    def requests(self) -> Requests:
        """All that was added, at least once."""
        return Requests(*_sorted(self._admitted), *_sorted(self._refused), self._window_ms)


def _sorted(pairs: _Pairs) -> tuple[Numbers, Numbers]:
    at_us, amount = (np.concatenate(each) for each in zip(*pairs, strict=True))
    order = np.lexsort((amount, at_us))
    return at_us[order], amount[order]
