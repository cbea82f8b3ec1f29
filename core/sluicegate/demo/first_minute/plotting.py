"""Draws a play as text: the neighbour's latency, and below it the noisy producer's rate."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from math import ceil

from rich.text import Text

from sluicegate.demo.first_minute.record import Record

_MARGIN = 9
_LATENCY_ROWS, _RATE_ROWS = 7, 4


@dataclass(frozen=True, slots=True)
class Ink:
    """The characters and styles of a chart."""

    low: str
    high: str
    axis: str
    low_style: str = ""
    high_style: str = ""


_LATENCY = Ink("█", "░", "│", "yellow", "red")
_RATE = Ink("█", "░", "│", "blue", "red")
_PLAIN = Ink("#", ":", "|")


def plot(record: Record, until: float, expected: float, width: int, plain: bool) -> Iterator[Text]:
    """Draw a play so far as lines.

    :param until: seconds since its start.
    :param expected: how many seconds it takes at least; they fill the width.
    :param width: available columns.
    :param plain: ASCII only.
    """
    room = max(10, width - _MARGIN - 1)
    longest = max(until, expected, 1.0)
    step = float(max(1, ceil(longest / room)))
    columns = max(1, int(room / (longest / step)))
    points = record.points(until, step)
    latencies = [(point.latency.p50 * 1e3, point.latency.p99 * 1e3) for point in points]
    rates = [(point.acknowledged, point.acknowledged + point.refused) for point in points]
    latency_ink, rate_ink = (_PLAIN, _PLAIN) if plain else (_LATENCY, _RATE)
    low, high = latency_ink.low, latency_ink.high
    yield Text(f"the neighbour's latency in ms: {low} p50, {high} p99", style="bold")
    yield from _panel(latencies, _LATENCY_ROWS, columns, latency_ink)
    yield Text(f"the noisy producer's messages/s: {low} acknowledged, {high} refused", style="bold")
    yield from _panel(rates, _RATE_ROWS, columns, rate_ink)
    yield Text(" " * _MARGIN + _marks(record, columns / step))


def _panel(values: Sequence[tuple[float, float]], rows: int, columns: int, ink: Ink) -> Iterator[Text]:
    """Bars of two parts; the lowest row has all that is more than nothing."""
    top = rounded_up(max((high for _, high in values), default=0.0))
    for row in reversed(range(rows)):
        label = f"{top:,.0f}" if row == rows - 1 else "" if row else "0"
        line = Text(f"{label:>{_MARGIN - 2}} {ink.axis}")
        enough = (row + 0.5) / rows * top if row else 0.0
        for low, high in values:
            if low > enough:
                line.append(ink.low * columns, ink.low_style)
            elif high > enough:
                line.append(ink.high * columns, ink.high_style)
            else:
                line.append(" " * columns)
        yield line


def _marks(record: Record, columns_per_second: float) -> str:
    marks = ((0.0, "alone"), (record.noisy_at, "^ the noise"), (record.limited_at, "^ the command"))
    line = ""
    for at, label in marks:
        if at is not None:
            line = line.ljust(round(at * columns_per_second)) + label
    return line


def rounded_up(value: float) -> float:
    """A round number for the end of an axis, at least 10: one of ten in each power of ten."""
    power = 10.0
    while True:
        for factor in (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 8):
            if value <= factor * power:
                return factor * power
        power *= 10
