"""The cost of decisions: percentiles of the column `decision_cost`."""

import math
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from sluicegate_reports.transforms.packed import Part, Topic

SHARES = (0.5, 0.9, 0.99, 0.999)

_BITS = 10
"""Costs are counted to so many bits after the first, hence to 0.1 %: a few thousand numbers are counted, and
the error is known."""


def costs(topic: Topic) -> Iterator[Part]:
    """How many decisions cost up to how much, by arm; rows whose cost was not timed are left out."""
    counted: Counter[int] = Counter()
    for piece in topic.decisions("decision_cost"):
        cost = piece.number("decision_cost")[piece.known("decision_cost")]
        shift = np.maximum(np.frexp(np.maximum(cost, 1).astype(np.float64))[1] - 1 - _BITS, 0)
        at_most, count = np.unique((((cost >> shift) + 1) << shift) - 1, return_counts=True)
        counted.update(dict(zip(at_most.tolist(), count.tolist(), strict=True)))
    if counted:
        yield topic.arm, counted


def costs_together(
    key: tuple[str, str], parts: Sequence[Mapping[int, int]], shares: Sequence[float] = SHARES
) -> Iterator[dict[str, Any]]:
    """Percentiles for each system and door, by nearest rank.

    :return: `system`, `door`, `timed` (rows), and for each share `p50`, `p99_9` and so on, in ns: at most
        0.1 % above the exact value, never below it.
    """
    counted: Counter[int] = Counter()
    for part in parts:
        counted.update(part)
    at_most = sorted(counted)
    rank = np.cumsum([counted[each] for each in at_most])
    timed = int(rank[-1])
    indices = np.searchsorted(rank, [math.ceil(timed * share) for share in shares])
    percentiles = {name(share): at_most[index] for share, index in zip(shares, indices, strict=True)}
    yield {"system": key[0], "door": key[1], "timed": timed, **percentiles}


def name(share: float) -> str:
    """A percentile's column: `p50`, `p99_9`."""
    return f"p{share * 100:g}".replace(".", "_")
