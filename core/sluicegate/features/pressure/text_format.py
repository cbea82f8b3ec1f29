"""Finds a few series in Prometheus' text format, fast enough for responses of many megabytes."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from math import isfinite

_LABEL = re.compile(r'\s*([a-zA-Z_]\w*)\s*=\s*"((?:[^"\\\n]|\\.)*)"\s*,?')
_LINE = re.compile(r'(?:\{((?:[^"}\n]|"(?:[^"\\\n]|\\.)*")*)\})?[ \t]+([^\s]+)')
_NAME = re.compile(r"[a-zA-Z_:][a-zA-Z0-9_:]*")
_ESCAPES = {"\\\\": "\\", '\\"': '"', "\\n": "\n"}


@dataclass(frozen=True, slots=True)
class Selector:
    """Selects series by name and label values."""

    name: str
    labels: tuple[tuple[str, str], ...] = ()

    @classmethod
    def parse(cls, text: str) -> "Selector":
        """Parse `name` or `name{label="value"}`.

        :raises ValueError: if it is malformed.
        """
        match = _NAME.match(text.strip())
        rest = text.strip()[match.end() :].strip() if match is not None else ""
        if match is None or (rest and not (rest.startswith("{") and rest.endswith("}"))):
            raise ValueError(f'{text!r} is not a series, expected name or name{{label="value"}}')
        return cls(match.group(), tuple(labels_of(rest[1:-1]).items()))


def labels_of(text: str) -> dict[str, str]:
    """Parse the labels between braces.

    :raises ValueError: if they are malformed.
    """
    labels, at = {}, 0
    while at < len(text.rstrip()):
        match = _LABEL.match(text, at)
        if match is None:
            raise ValueError(f"cannot read the labels {text[:200]!r}")
        labels[match.group(1)] = re.sub(r"\\.", lambda pair: _ESCAPES.get(pair[0], pair[0]), match.group(2))
        at = match.end()
    return labels


def series(text: str, name: str) -> Iterator[tuple[Mapping[str, str], float]]:
    """Labels and values of all series of a name; malformed lines are skipped.

    :param text: the whole response.
    :param name: name without labels.
    """
    start = 0
    while (start := text.find(name, start)) >= 0:
        begins_line = start == 0 or text[start - 1] == "\n"
        start += len(name)
        match = _LINE.match(text, start) if begins_line else None
        if match is None:
            continue
        try:
            yield labels_of(match.group(1) or ""), float(match.group(2))
        except ValueError:
            continue


def total(text: str, selector: Selector) -> float | None:
    """The sum of the selected series; None if there are none.

    Infinite and negative values, such as a JVM's for an unbounded pool, are ignored.
    """
    wanted = dict(selector.labels).items()
    values = [value for labels, value in series(text, selector.name) if wanted <= labels.items()]
    if not values:
        return None
    return sum(value for value in values if isfinite(value) and value > 0)
