"""Charts of lines: rates over time, quantiles.

The SVG fills the width of its container and is 240 pixels high. Lines lie in an inner SVG that is stretched;
texts and marks lie outside of it at percentages, so that they keep their size on a telephone and in print.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby

from sluicegate_reports.model.quantities import number, quantity, scaled
from sluicegate_reports.model.results import Chart, Kind, Point, Series
from sluicegate_reports.render.page.looks import Look
from sluicegate_reports.render.page.markup import Markup, join, short, tag
from sluicegate_reports.render.page.scales import Linear, Log, Nines, Scale
from sluicegate_reports.render.page.thinning import thinned_chart

HEIGHT = 240.0
WIDTH = 1000.0
_MARKED = 8
"""Marks on a line, about; one more is at its end."""
_FAR = 4.0
"""A limit above this multiple of the highest value is in the legend only: it would flatten the lines."""
_LINE, _SECOND_LINE = 15.0, 12.0
_LABELS = 9
"""Most series that are named beside their lines; the legend names any number."""
_LONGEST = 30
"""Most letters of a name beside a line."""
_LETTER = 7.3
"""Width of a bold letter in a wide typeface, in pixels."""
_SMALL_LETTER = 5.8
"""The same of a label below a name."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Scales of one chart, y in a unit of a fitting size."""

    x: Scale
    y: Scale
    unit: str
    divisor: float
    limit_shown: bool

    def position(self, point: Point, value: float) -> tuple[float, float]:
        """Pixels of the inner SVG."""
        return self.x.position(point.x) * WIDTH, self.height(value)

    def height(self, value: float) -> float:
        """Pixels from the top."""
        return (1.0 - self.y.position(value / self.divisor)) * HEIGHT


def curves(chart: Chart, shown: Sequence[Look], most: int, title_id: str) -> Markup:
    """The SVG of a chart of kind LINE or QUANTILES.

    :param shown: a look for each series.
    :param most: points of one series, about.
    :param title_id: id that its title gets.
    """
    chart = thinned_chart(chart, most)
    frame = frame_of(chart)
    pairs = list(zip(chart.series, shown, strict=True))
    bands = [band(series, look, frame) for series, look in pairs]
    lines = [line(series, look, frame) for series, look in pairs]
    marks = [
        mark
        for index, (series, look) in enumerate(pairs)
        for mark in _marks(series, look, frame, index / len(pairs))
    ]
    labels = _labels(pairs, frame)
    room = 24 + max(
        (max(len(look.name) * _LETTER, len(look.label) * _SMALL_LETTER) for look in shown), default=0.0
    )
    return tag(
        "svg",
        tag("title", described(chart), id=title_id),
        _grid(chart, frame),
        stretched(HEIGHT, *bands, *lines),
        *marks,
        _limit(chart, frame),
        labels,
        class_="plot" + (" named" if labels else ""),
        style=f"--room:{room:.0f}px" if labels else None,
        height=f"{HEIGHT:.0f}",
        role="img",
        aria_labelledby=title_id,
    )


def stretched(height: float, *drawn: Markup) -> Markup:
    """The inner SVG: what is drawn in WIDTH by HEIGHT fills the width of its box.

    :param height: of its box, in pixels.
    """
    box = f"0 0 {WIDTH:.0f} {HEIGHT:.0f}"
    return tag("svg", *drawn, width="100%", height=f"{height:.0f}", viewBox=box, preserveAspectRatio="none")


def described(chart: Chart) -> str:
    """The text alternative of a chart; its table holds all values."""
    names = ", ".join(f"{series.system} {series.door} {series.name}".rstrip() for series in chart.series)
    limit = "" if chart.limit is None else f"; {chart.limit_text} {quantity(chart.limit, chart.unit)}"
    return f"{chart.metric}{limit}. Series: {names or 'none'}"


def values_of(chart: Chart) -> list[float]:
    """All that is drawn on the axis of y: values, and ends of their bounds."""
    points = [point for series in chart.series for point in series.points]
    values = [value for point in points for value in (point.y, point.low, point.high) if value is not None]
    return [value for value in values if math.isfinite(value)]


def frame_of(chart: Chart, ticks: int = 6) -> Frame:
    """Scales that hold everything in a chart; its limit too, unless that is far away.

    :param ticks: of the lower axis, about.
    """
    values = values_of(chart)
    highest = max(values, default=0.0)
    limit = chart.limit
    limit_shown = limit is not None and _limit_shown(limit, highest)
    if limit is not None and limit_shown:
        values.append(limit)
    fitting = scaled(chart.unit, max((abs(value) for value in values), default=0.0))
    values = [value / fitting.divisor for value in values]
    return Frame(
        _x_scale(chart, ticks), y_scale(values, chart.log), fitting.unit, fitting.divisor, limit_shown
    )


def y_scale(values: Sequence[float], log: bool) -> Scale:
    """A scale from 0, or a logarithmic one from the lowest power of ten."""
    positive = [value for value in values if value > 0]
    if log and positive:
        return Log.over(min(positive), max(positive))
    return Linear.over(min([0.0, *values]), max([0.0, *values]))


def _x_scale(chart: Chart, ticks: int) -> Scale:
    xs = [point.x for series in chart.series for point in series.points]
    if chart.kind is Kind.QUANTILES:
        return Nines.over(xs)
    if chart.kind is Kind.HISTOGRAM:
        return Linear(0.0, float(max(1, len(chart.categories))), 1.0)
    return Linear.within(min(xs, default=0.0), max(xs, default=1.0), ticks)


def _grid(chart: Chart, frame: Frame) -> Markup:
    parts = [tag("text", frame.unit, x="-50", y="-14", class_="unit")]
    for tick in frame.y.ticks:
        y = (1.0 - frame.y.position(tick.value)) * HEIGHT
        zero = " zero" if tick.value == 0 else ""
        parts.append(tag("line", x1="0", x2="100%", y1=y, y2=y, class_=f"grid{zero}"))
        parts.append(tag("text", number(tick.value), x="-8", y=y + 4, class_="tick y"))
    for index, tick in enumerate(frame.x.ticks):
        x = f"{short(frame.x.position(tick.value) * 100)}%"
        every_other = " rare" if index % 2 else ""
        parts.append(tag("line", x1=x, x2=x, y1=HEIGHT, y2=HEIGHT + 5, class_="grid zero"))
        text = tick.text or number(tick.value)
        parts.append(tag("text", text, x=x, y=HEIGHT + 19, class_=f"tick x{every_other}"))
    x_title = "share of values at or below" if chart.kind is Kind.QUANTILES else chart.x_unit
    parts.append(tag("text", x_title, x="100%", y=HEIGHT + 37, class_="unit end"))
    return join(*parts)


def _limit(chart: Chart, frame: Frame) -> Markup:
    """The line of the limit; its text is in the legend, where no line crosses it."""
    if chart.limit is None or not frame.limit_shown:
        return Markup()
    y = frame.height(chart.limit)
    return tag("line", x1="0", x2="100%", y1=y, y2=y, class_="limit")


def limit_entry(chart: Chart) -> str:
    """The legend's entry for the limit; empty if there is none."""
    if chart.limit is None:
        return ""
    drawn = _limit_shown(chart.limit, max(values_of(chart), default=0.0))
    text = f"{chart.limit_text} {quantity(chart.limit, chart.unit)}"
    return text if drawn else f"{text}, far above what is shown"


def _limit_shown(limit: float, highest: float) -> bool:
    return highest <= 0 or limit <= highest * _FAR


def runs(series: Series) -> Iterator[list[tuple[Point, float]]]:
    """Stretches of points without a gap."""
    for known, run in groupby(series.points, lambda point: point.y is not None and math.isfinite(point.y)):
        if known:
            yield [(point, point.y) for point in run if point.y is not None]


def line(series: Series, look: Look, frame: Frame) -> Markup:
    """The points of a series, joined; broken at each gap."""
    drawn: list[str] = []
    for run in runs(series):
        points = [frame.position(point, value) for point, value in run]
        drawn.append(f"M{short(points[0][0])} {short(points[0][1])}")
        drawn += [f"L{short(x)} {short(y)}" for x, y in points[1:]]
    return tag("path", d="".join(drawn), class_=f"line {look.colour} {look.door}-line")


def band(series: Series, look: Look, frame: Frame) -> Markup:
    """The area between the low and high ends of the points, for each stretch; empty without them."""
    outlines = []
    for stretch in _spreads(series):
        upper = [frame.position(point, high) for point, _, high in stretch]
        lower = [frame.position(point, low) for point, low, _ in stretch]
        points = (f"{short(x)} {short(y)}" for x, y in [*upper, *reversed(lower)])
        outlines.append(f"M{'L'.join(points)}Z")
    return tag("path", d="".join(outlines), class_=f"band {look.colour}") if outlines else Markup()


def _spreads(series: Series) -> Iterator[list[tuple[Point, float, float]]]:
    """Stretches of points with a spread, with their low and high ends."""
    spread = [(point, point.low, point.high) for point in series.points]
    for known, run in groupby(spread, lambda each: None not in each):
        if known:
            yield [(p, low, high) for p, low, high in run if low is not None and high is not None]


def _marks(series: Series, look: Look, frame: Frame, shift: float) -> Iterator[Markup]:
    """Some of the points, the last one, and isolated points between gaps, which have no line.

    :param shift: 0.0 to 1.0, different for each series, so that marks of coinciding lines lie side by side.
    """
    stretches = list(runs(series))
    measured = [pair for run in stretches for pair in run]
    every = max(1, math.ceil(len(measured) / _MARKED))
    chosen = [
        *measured[int(shift * every) :: every],
        *measured[-1:],
        *(run[0] for run in stretches if len(run) == 1),
    ]
    for point, value in dict.fromkeys(chosen):
        x, y = frame.position(point, value)
        yield look.mark(f"{short(x * 100 / WIDTH)}%", y)


def _labels(pairs: Sequence[tuple[Series, Look]], frame: Frame) -> Markup:
    """Names beside the ends of the lines, moved apart; none if there is no room for all."""
    ends = []
    for series, look in pairs:
        run = next(iter(reversed(list(runs(series)))), None)
        if run is not None:
            ends.append((frame.height(run[-1][1]), look))
    heights = [
        _LINE + (_SECOND_LINE if look.label else 0) for _, look in sorted(ends, key=lambda end: end[0])
    ]
    longest = max((len(look.name) for _, look in ends), default=0)
    if len(ends) > _LABELS or longest > _LONGEST or sum(heights) > HEIGHT:
        return Markup()
    ends.sort(key=lambda end: end[0])
    tops = apart([y - _LINE / 2 for y, _ in ends], heights, HEIGHT)
    texts = []
    for top, (_, look) in zip(tops, ends, strict=True):
        y = top + _LINE - 3
        second = tag("tspan", look.label, x="100%", dx="12", dy=_SECOND_LINE, class_="second")
        content = join(look.name, second if look.label else Markup())
        texts.append(tag("text", content, x="100%", dx="12", y=y, class_=f"name {look.colour}"))
    return join(*texts)


def apart(wanted: Sequence[float], heights: Sequence[float], room: float) -> list[float]:
    """Tops of labels, close to the wanted ones, without overlap, and within the room.

    :param wanted: tops, ascending.
    :param heights: of each.
    :param room: where the last one must end at the latest.
    """
    tops: list[float] = []
    free = -math.inf
    for top, height in zip(wanted, heights, strict=True):
        tops.append(max(top, free))
        free = tops[-1] + height
    end = room
    for index in range(len(tops) - 1, -1, -1):
        tops[index] = min(tops[index], end - heights[index])
        end = tops[index]
    return tops
