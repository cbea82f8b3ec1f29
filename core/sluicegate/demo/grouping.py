"""Groups scenes to play concurrently, as many as the machine can handle."""

import json
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

_CAPACITY = 50
"""Total weight that a current machine with two idle cores plays at once."""
_LEAST = 8
_ROUNDS = 5
_NOMINAL_S = 0.02
"""Duration of `_work` on such a machine."""


def _work() -> None:
    for number in range(2_000):
        json.loads(json.dumps({"number": number, "text": "sluicegate" * 5}))


def capacity() -> int:
    """Measure the total weight that this machine can play now; a fast one takes a tenth of a second."""
    began = perf_counter()
    for _ in range(_ROUNDS):
        _work()
    speed = _ROUNDS * _NOMINAL_S / (perf_counter() - began)
    return max(_LEAST, min(_CAPACITY, round(_CAPACITY * speed)))


def groups(weighted: Iterable[tuple[int, T]], most: int) -> Iterator[list[T]]:
    """Split items into groups of at most a total weight, in order; a heavier item gets its own group.

    :param weighted: weight and item.
    """
    group: list[T] = []
    total = 0
    for weight, item in weighted:
        if group and total + weight > most:
            yield group
            group, total = [], 0
        group.append(item)
        total += weight
    if group:
        yield group
