"""The JSON that the workers of a fleet tell each other of throttled topics, and how much of it fits."""

import json
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Final

VERSION: Final = 1
MOST_BYTES: Final = 256 * 1024
"""Most of what a worker tells or finds, by the contract of shared tasks."""
MOST_PER_S: Final = 10**15 - 1
"""Rates are told up to here, so that a number has 17 characters at most."""
HEAD_BYTES: Final = 512
"""Most characters of what is told besides topics."""
_SHOWN = 80


def written(content: Mapping[str, Any]) -> str:
    """What is told, in ASCII."""
    return json.dumps({"version": VERSION, **content}, separators=(",", ":"))


def read(text: str) -> Mapping[str, Any]:
    """What was told.

    :raises ValueError: if it is not of this version.
    """
    try:
        content = json.loads(text)
    except RecursionError:
        raise ValueError("expected JSON of adaptive throttling, got too many levels") from None
    if not isinstance(content, dict) or content.get("version") != VERSION:
        raise ValueError(f"expected adaptive throttling of version {VERSION}, got {text[:_SHOWN]!r}")
    return content


def row(topics: Mapping[str, Any], name: str, numbers: int) -> Sequence[float]:
    """The numbers that were told of a topic.

    :raises ValueError: if there are not so many.
    """
    values = topics[name]
    if not isinstance(values, list) or len(values) != numbers:
        raise ValueError(f"expected {numbers} numbers of topic {name!r}, got {str(values)[:_SHOWN]!r}")
    return [number(value) for value in values]


def number(value: object) -> float:
    """A number of 0 or more.

    :raises ValueError: if it is none.
    """
    if isinstance(value, bool) or not isinstance(value, int | float) or not 0 <= value <= MOST_PER_S:
        raise ValueError(f"expected a number of 0 to {MOST_PER_S}, got {str(value)[:_SHOWN]!r}")
    return value


def told_rate(per_s: float) -> float:
    """A rate as it is told."""
    return round(min(per_s, MOST_PER_S), 3)


def fitting(names: Iterable[str], row_bytes: int) -> int:
    """How many of the first topics can be told.

    :param names: of the topics.
    :param row_bytes: most characters of what is told of one, without its name.
    """
    left, count = MOST_BYTES - HEAD_BYTES, 0
    for name in names:
        left -= len(json.dumps(name)) + row_bytes
        if left < 0:
            break
        count += 1
    return count
