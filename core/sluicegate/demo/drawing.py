"""Draws the chart of a scene: bars for the admitted rate, a line for the limit, and the states below."""

from collections.abc import Iterator, Sequence
from itertools import groupby
from math import ceil

from rich.text import Text

from sluicegate.demo.course import Chart, Sample

_HEIGHT = 8
_MARGIN = 9
"""Columns left of the chart."""
_WIDEST = 72
_BARS = " ▁▂▃▄▅▆▇█"
_STYLES = ("green", "yellow", "red", "blue")
"""Styles of states, in the order in which these first appear."""


def draw(chart: Chart, width: int, plain: bool) -> Iterator[Text]:
    """Draw a chart as lines.

    :param width: available columns.
    :param plain: ASCII only.
    """
    if not chart.samples:
        return
    columns = _columns(chart.samples, max(10, min(_WIDEST, width - _MARGIN - 1)))
    top = _round_up(max(max(each.admitted, each.allowed) for each in columns))
    states = list(dict.fromkeys(each.state for each in columns))
    styles = {state: _STYLES[index % len(_STYLES)] for index, state in enumerate(states)}
    yield Text(chart.title, style="bold")
    for row in reversed(range(_HEIGHT)):
        label = f"{top * (row + 1) / _HEIGHT:,.0f}" if row % 2 else ""
        line = Text(f"{label:>{_MARGIN - 2}} {'|' if plain else '│'}")
        for each in columns:
            line.append(*_cell(each, row, top, styles[each.state], plain))
        yield line
    line = Text(" " * _MARGIN)
    for state, group in groupby(each.state for each in columns):
        room = len(list(group))
        line.append(f"|{state}"[:room].ljust(room), style=styles[state])
    yield line
    seconds = f"{chart.samples[-1].at:.1f} s"
    yield Text(f"{' ' * _MARGIN}0 s{seconds:>{max(len(seconds) + 1, len(columns) - 3)}}")


def _columns(samples: Sequence[Sample], most: int) -> list[Sample]:
    count = min(most, len(samples))
    return [samples[index * len(samples) // count] for index in range(count)]


def _cell(sample: Sample, row: int, top: float, style: str, plain: bool) -> tuple[str, str]:
    """A character and its style; the line hides the bar."""
    line_row = min(_HEIGHT - 1, ceil(sample.allowed / top * _HEIGHT) - 1)
    if row == max(line_row, 0):
        return ("=" if plain else "━"), "bold"
    eighths = round((sample.admitted / top * _HEIGHT - row) * 8)
    eighths = min(8, max(0, eighths))
    if plain:
        return ("#" if eighths >= 4 else " "), style
    return _BARS[eighths], style


def _round_up(value: float) -> float:
    """Round up to a number for the end of an axis."""
    step = 10.0
    while value > 10 * step:
        step *= 10
    return max(step, ceil(value / step) * step)
