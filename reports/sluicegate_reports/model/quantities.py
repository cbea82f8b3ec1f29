"""Numbers for people: thousands separated, few digits, and a fitting unit."""

import math
from collections.abc import Sequence
from dataclasses import dataclass

_DIGITS = 4
"""Significant digits of a figure; whole numbers keep all of theirs."""
_HUGE, _TINY = 1e12, 1e-4
"""Outside of these a number is written with a power of ten."""
_LADDERS: tuple[tuple[tuple[str, float], ...], ...] = (
    (("ns", 1.0), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)),
    (("bytes", 1.0), ("KiB", 1024.0), ("MiB", 1024.0**2), ("GiB", 1024.0**3)),
    (("bytes/s", 1.0), ("KiB/s", 1024.0), ("MiB/s", 1024.0**2), ("GiB/s", 1024.0**3)),
)
_ALIASES = {"us": "µs", "B": "bytes", "B/s": "bytes/s", "percent": "%"}
NOT_MEASURED = "not measured"


@dataclass(frozen=True, slots=True)
class Scaled:
    """A unit of a fitting size."""

    unit: str
    divisor: float
    """By what a value in the first unit is divided."""


def scaled(unit: str, largest: float) -> Scaled:
    """The unit of times and bytes in which a value is at least 1, if there is one.

    :param unit: as it was measured; one that is neither a time nor bytes stays as it is.
    :param largest: the greatest value to be shown in it.
    """
    unit = _ALIASES.get(unit, unit)
    for ladder in _LADDERS:
        start = dict(ladder).get(unit)
        if start is None:
            continue
        size = abs(largest) * start
        # A time is never made to look longer than milliseconds by `0.02 s`, so the ladder goes both ways.
        fitting = [rung for rung in ladder if rung[1] <= size] or [ladder[0]]
        name, value = fitting[-1] if size else (unit, start)
        return Scaled(name, value / start)
    return Scaled(unit, 1.0)


def number(value: float) -> str:
    """A number: whole ones in full, others with four significant digits and no trailing zeros."""
    if not math.isfinite(value):
        return NOT_MEASURED
    if value == 0:
        return "0"
    size = abs(value)
    if size >= _HUGE or size < _TINY:
        return f"{value:.2e}"
    if float(value).is_integer():
        return f"{int(value):,}"
    decimals = max(0, _DIGITS - 1 - math.floor(math.log10(size)))
    text = f"{value:,.{decimals}f}"
    return text.rstrip("0").rstrip(".") if "." in text else text


def quantity(value: float | None, unit: str) -> str:
    """A number and its unit; `not measured` for none."""
    return _scaled_text(value, scaled(unit, value or 0.0))


def together(values: Sequence[float | None], unit: str) -> list[str]:
    """Quantities that are compared, all in the unit that fits the smallest of them."""
    measured = [abs(value) for value in values if value is not None and math.isfinite(value) and value]
    fitting = scaled(unit, min(measured, default=0.0))
    return [_scaled_text(value, fitting) for value in values]


def _scaled_text(value: float | None, fitting: Scaled) -> str:
    if value is None or not math.isfinite(value):
        return NOT_MEASURED
    return f"{number(value / fitting.divisor)} {fitting.unit}".rstrip()


def part(value: float, whole: float, unit: str) -> str:
    """One quantity of another: `99 of 100 messages`, `96.5 KiB of 1.2 MiB`; a common unit is written once."""
    quantity_, of = quantity(value, unit), quantity(whole, unit)
    number_, _, name = quantity_.partition(" ")
    return f"{number_ if of.endswith(f' {name}') else quantity_} of {of}"
