"""Offset of gateway clocks from the clients' over a run, from the bounds of `skew`."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import pairwise
from typing import Any, TypeAlias

import numpy as np

from sluicegate_reports.transforms.skew import EVERYBODY

_FAR_US = 1 << 62
_APART_US = 1_000_000
"""Spans that begin so near to each other begin with the same step."""
_PAIR = ("system", "door", "gateway", "host", "who")
_Arm: TypeAlias = tuple[str, str]
Ahead: TypeAlias = Mapping[_Arm, Sequence[tuple[int, float]]]
"""Offsets of gateway clocks from the clients', by system and door: since when (us since 1970 by the clients'
clock), and how many us ahead."""


def skews(rows: Iterable[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Bounds of gate minus client of each pair of them in an arm, in us.

    :param rows: see `skew.spans`.
    :return: `system`, `door`, `gateway`, `host`, `who`, `pairs`, `at_least_us`, `at_most_us`; if
        the first of these two is above the second, the clocks have drifted during the run, or one was set.
    """
    bounds: dict[tuple[str, ...], tuple[int, float, float]] = {}
    for row in rows:
        key = tuple(row[name] for name in _PAIR)
        count, least, most = bounds.get(key, (0, float("-inf"), float("inf")))
        bounds[key] = count + row["pairs"], max(least, row["at_least_us"]), min(most, row["at_most_us"])
    return [
        {
            **dict(zip(_PAIR, key, strict=True)),
            "pairs": count,
            "at_least_us": int(low),
            "at_most_us": int(high),
        }
        for key, (count, low, high) in sorted(bounds.items())
        if np.isfinite([low, high]).all()
    ]


def ahead(rows: Iterable[Mapping[str, Any]]) -> dict[_Arm, list[tuple[int, float]]]:
    """Offset of gateway clocks: the middle of the bounds, from each step on.

    Bounds that include 0 give 0: equal clocks are likeliest. The bounds are those that hold for all clients
    and gates of an arm. If none do, they are the mean ones of EVERYBODY, or of all rows if it has none.

    :param rows: see `skew.spans`.
    """
    arms: dict[_Arm, list[Mapping[str, Any]]] = {}
    for row in rows:
        arms.setdefault((row["system"], row["door"]), []).append(row)
    return {arm: list(_of_arm(own)) for arm, own in sorted(arms.items())}


def _of_arm(rows: Sequence[Mapping[str, Any]]) -> Iterator[tuple[int, float]]:
    lists: dict[tuple[str, ...], list[int]] = {}
    for row in rows:
        lists.setdefault(tuple(row[name] for name in ("topic", *_PAIR)), []).append(row["from_us"])
    steps = sorted(at_us for begins in lists.values() for at_us in sorted(begins)[1:])
    first_us = min(row["from_us"] for row in rows)
    clusters = [(first_us, first_us), *_clusters(steps)]
    ends_us = [begin_us for begin_us, _ in clusters[1:]] + [_FAR_US]
    for (begin_us, settled_us), end_us in zip(clusters, ends_us, strict=True):
        begun = [row for row in rows if row["from_us"] < end_us]
        within = [row for row in begun if row["until_us"] > settled_us]
        # A clock set back shows over a while, whose middle is taken; set forward, at once in all lists.
        sharp = settled_us - begin_us <= _APART_US
        yield begin_us if sharp else (begin_us + settled_us) // 2, _middle(skews(within or begun))


def _clusters(steps: Sequence[int]) -> Iterator[tuple[int, int]]:
    """Begin and end of steps that are near to each other.

    A clock that is set back gives many: in order of its times, messages from before stand among later ones.
    """
    edges = [number for number, (one, other) in enumerate(pairwise(steps)) if other - one > _APART_US]
    for first, last in pairwise([-1, *edges, len(steps) - 1] if steps else []):
        yield steps[first + 1], steps[last]


def _middle(bounds: Sequence[Mapping[str, Any]]) -> float:
    if not bounds:
        return 0.0
    low = max(row["at_least_us"] for row in bounds)
    high = min(row["at_most_us"] for row in bounds)
    if low > high:
        chosen = [row for row in bounds if row["who"] == EVERYBODY] or bounds
        low = sum(row["at_least_us"] for row in chosen) / len(chosen)
        high = sum(row["at_most_us"] for row in chosen) / len(chosen)
    return 0.0 if low <= 0 <= high else (low + high) / 2


def ahead_at(clocks: Ahead, arm: _Arm, at_us: int) -> float:
    """Offset of an arm's gateways at a time of the clients' clock; 0 if unknown."""
    steps = clocks.get(arm, ())
    return next((us for from_us, us in reversed(steps) if from_us <= at_us), steps[0][1] if steps else 0.0)
