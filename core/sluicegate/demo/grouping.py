"""How many scenes are played at once: as many as the machine has room for."""

import json
from collections.abc import Iterable, Iterator
from time import perf_counter
from typing import TypeVar

T = TypeVar("T")

_ROOM = 50
"""Weights that a machine with two idle cores of today plays at once."""
_LEAST = 8
_ROUNDS = 5
_NOMINAL_S = 0.02
"""What one round of `_work` takes on such a machine."""


def _work() -> None:
    for number in range(2_000):
        json.loads(json.dumps({"number": number, "text": "sluicegate" * 5}))


def room() -> int:
    """Weights that this machine has room for now; looking takes a tenth of a second on a fast one."""
    began = perf_counter()
    for _ in range(_ROUNDS):
        _work()
    speed = _ROUNDS * _NOMINAL_S / (perf_counter() - began)
    return max(_LEAST, min(_ROOM, round(_ROOM * speed)))


def groups(weighted: Iterable[tuple[int, T]], most: int) -> Iterator[list[T]]:
    """Split into groups, in order, each of at most this weight or of one that is heavier.

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
