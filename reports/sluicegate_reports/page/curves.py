"""Charts of lines: rates over time, steps, quantiles.

The SVG is as wide as its place and 240 pixels high. Lines lie in an inner SVG that is stretched; texts and
marks lie outside of it at percents, so that they keep their size on a telephone and in print.
"""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

from sluicegate_reports.page.looks import Look
from sluicegate_reports.page.markup import Markup, join, short, tag
from sluicegate_reports.page.scales import Linear, Log, Nines, Scale
from sluicegate_reports.page.thinning import thinned
from sluicegate_reports.quantities import number, quantity, scaled
from sluicegate_reports.results import Chart, Kind, Point, Series

HEIGHT = 240.0
WIDTH = 1000.0
_MARKED = 8
"""A line has about that many marks, and one at its end."""
_FAR = 4.0
"""A limit above this multiple of the highest value is written, not drawn: it would flatten the lines."""
_LINE, _SECOND_LINE = 15.0, 12.0
_LABELS = 9
"""With more series than that, the legend alone names them."""
_LONGEST = 30
"""The same where a name has more letters than that."""
_LETTER = 7.3
"""Pixels of a letter in bold, in a wide typeface."""
_LEAST_ROOM = 176.0
"""Pixels; `reference broker, not Danube` fits below a name."""


@dataclass(frozen=True, slots=True)
class Frame:
    """Scales of one chart, y in a unit of a fitting size."""

    x: Scale
    y: Scale
    unit: str
    divisor: float
    limit_shown: bool

    def place(self, point: Point, value: float) -> tuple[float, float]:
        """Pixels of the inner SVG."""
        return self.x.place(point.x) * WIDTH, self.height(value)

    def height(self, value: float) -> float:
        """Pixels from the top."""
        return (1.0 - self.y.place(value / self.divisor)) * HEIGHT


def curves(chart: Chart, shown: Sequence[Look], most: int, title_id: str) -> Markup:
    """The SVG of a chart of kind LINE, STEP or QUANTILES.

    :param shown: a look for each series.
    :param most: points of one series, about.
    :param title_id: id that its title gets.
    """
    chart = replace(
        chart, series=tuple(replace(series, points=thinned(series.points, most)) for series in chart.series)
    )
    frame = frame_of(chart)
    pairs = list(zip(chart.series, shown, strict=True))
    inner = tag(
        "svg",
        *(band(series, look, frame) for series, look in pairs),
        *(line(series, look, frame, chart.kind) for series, look in pairs),
        width="100%",
        height=f"{HEIGHT:.0f}",
        viewBox=f"0 0 {WIDTH:.0f} {HEIGHT:.0f}",
        preserveAspectRatio="none",
    )
    marks = [
        mark
        for index, (series, look) in enumerate(pairs)
        for mark in _marks(series, look, frame, index / len(pairs))
    ]
    labels = _labels(pairs, frame)
    room = max((len(look.name) for look in shown), default=0) * _LETTER + 24
    return tag(
        "svg",
        tag("title", described(chart), id=title_id),
        _grid(chart, frame),
        inner,
        *marks,
        _limit(chart, frame),
        labels,
        class_="plot" + (" named" if labels else ""),
        style=f"--room:{max(room, _LEAST_ROOM):.0f}px" if labels else None,
        height=f"{HEIGHT:.0f}",
        role="img",
        aria_labelledby=title_id,
    )


def described(chart: Chart) -> str:
    """The text alternative of a chart; its rows hold all values."""
    names = ", ".join(f"{series.system} {series.door} {series.name}".rstrip() for series in chart.series)
    limit = "" if chart.limit is None else f"; {chart.limit_text} {quantity(chart.limit, chart.unit)}"
    return f"{chart.metric}{limit}. Series: {names or 'none'}"


def _values(chart: Chart) -> list[float]:
    points = [point for series in chart.series for point in series.points]
    found = [value for point in points for value in (point.y, point.low, point.high) if value is not None]
    return [value for value in found if math.isfinite(value)]


def frame_of(chart: Chart) -> Frame:
    """Scales that hold everything in a chart; its limit too, unless that is far away."""
    values = _values(chart)
    highest = max(values, default=0.0)
    limit = chart.limit
    limit_shown = limit is not None and _limit_shown(limit, highest)
    if limit is not None and limit_shown:
        values.append(limit)
    fitting = scaled(chart.unit, max((abs(value) for value in values), default=0.0))
    values = [value / fitting.divisor for value in values]
    return Frame(_x_scale(chart), y_scale(values, chart.log), fitting.unit, fitting.divisor, limit_shown)


def y_scale(values: Sequence[float], log: bool) -> Scale:
    """A scale over values that begins at 0, or for logarithms at the lowest power of ten."""
    positive = [value for value in values if value > 0]
    if log and positive:
        return Log.over(min(positive), max(positive))
    return Linear.over(min([0.0, *values]), max([0.0, *values]))


def _x_scale(chart: Chart) -> Scale:
    xs = [point.x for series in chart.series for point in series.points]
    if chart.kind is Kind.QUANTILES:
        return Nines.over(xs)
    if chart.kind is Kind.HISTOGRAM:
        return Linear(0.0, float(max(1, len(chart.categories))), 1.0)
    return Linear.within(min(xs, default=0.0), max(xs, default=1.0))


def _grid(chart: Chart, frame: Frame) -> Markup:
    parts = [tag("text", frame.unit, x="-50", y="-14", class_="unit")]
    for tick in frame.y.ticks:
        y = (1.0 - frame.y.place(tick.value)) * HEIGHT
        zero = " zero" if tick.value == 0 else ""
        parts.append(tag("line", x1="0", x2="100%", y1=y, y2=y, class_=f"grid{zero}"))
        parts.append(tag("text", number(tick.value), x="-8", y=y + 4, class_="tick y"))
    for index, tick in enumerate(frame.x.ticks):
        x = f"{short(frame.x.place(tick.value) * 100)}%"
        every_other = " rare" if index % 2 else ""
        parts.append(tag("line", x1=x, x2=x, y1=HEIGHT, y2=HEIGHT + 5, class_="grid zero"))
        text = tick.text or number(tick.value)
        parts.append(tag("text", text, x=x, y=HEIGHT + 19, class_=f"tick x{every_other}"))
    x_title = "share of values at or below" if chart.kind is Kind.QUANTILES else chart.x_unit
    parts.append(tag("text", x_title, x="100%", y=HEIGHT + 37, class_="unit end"))
    return join(*parts)


def _limit(chart: Chart, frame: Frame) -> Markup:
    """The line across; its text is in the legend, where no line crosses it."""
    if chart.limit is None or not frame.limit_shown:
        return Markup()
    y = frame.height(chart.limit)
    return tag("line", x1="0", x2="100%", y1=y, y2=y, class_="limit")


def limit_told(chart: Chart) -> str:
    """The legend's entry for the limit; empty if there is none."""
    if chart.limit is None:
        return ""
    drawn = chart.kind in {Kind.BARS, Kind.DOTS} or _limit_shown(
        chart.limit, max(_values(chart), default=0.0)
    )
    text = f"{chart.limit_text} {quantity(chart.limit, chart.unit)}"
    return text if drawn else f"{text}, far above what is shown"


def _limit_shown(limit: float, highest: float) -> bool:
    return highest <= 0 or limit <= highest * _FAR


def runs(series: Series) -> Iterator[list[tuple[Point, float]]]:
    """Stretches of points without a gap."""
    run: list[tuple[Point, float]] = []
    for point in series.points:
        if point.y is not None and math.isfinite(point.y):
            run.append((point, point.y))
        elif run:
            yield run
            run = []
    if run:
        yield run


def line(series: Series, look: Look, frame: Frame, kind: Kind) -> Markup:
    """The points of a series, joined; broken at each gap."""
    drawn: list[str] = []
    for run in runs(series):
        places = [frame.place(point, value) for point, value in run]
        drawn.append(f"M{short(places[0][0])} {short(places[0][1])}")
        for x, y in places[1:]:
            drawn.append(f"H{short(x)}V{short(y)}" if kind is Kind.STEP else f"L{short(x)} {short(y)}")
    return tag("path", d="".join(drawn), class_=f"line {look.colour} {look.door}-line")


def band(series: Series, look: Look, frame: Frame) -> Markup:
    """The area between the ends of its points' spread, an area for each stretch; empty if they have none."""
    outlines = []
    for stretch in _spreads(series):
        upper = [frame.place(point, high) for point, _, high in stretch]
        lower = [frame.place(point, low) for point, low, _ in stretch]
        places = (f"{short(x)} {short(y)}" for x, y in [*upper, *reversed(lower)])
        outlines.append(f"M{'L'.join(places)}Z")
    return tag("path", d="".join(outlines), class_=f"band {look.colour}") if outlines else Markup()


def _spreads(series: Series) -> Iterator[list[tuple[Point, float, float]]]:
    """Stretches of points with a spread, with their low and high ends."""
    run: list[tuple[Point, float, float]] = []
    for point in series.points:
        if point.low is not None and point.high is not None:
            run.append((point, point.low, point.high))
        elif run:
            yield run
            run = []
    if run:
        yield run


def _marks(series: Series, look: Look, frame: Frame, shift: float) -> Iterator[Markup]:
    """Some of the points, the last one, and isolated points between gaps, which have no line.

    :param shift: 0.0 to 1.0, other for each series, so that marks of lines that coincide lie side by side.
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
        x, y = frame.place(point, value)
        yield look.mark(f"{short(x * 100 / WIDTH)}%", y)


def _labels(pairs: Sequence[tuple[Series, Look]], frame: Frame) -> Markup:
    """Names beside the ends of the lines, moved apart; none where there is no room for all."""
    ends = []
    for series, look in pairs:
        run = next(iter(reversed(list(runs(series)))), None)
        if run is not None:
            ends.append((frame.height(run[-1][1]), look))
    heights = [
        _LINE + (_SECOND_LINE if look.label else 0) for _, look in sorted(ends, key=lambda end: end[0])
    ]
    longest = max((len(look.name) for _, look in ends), default=0)
    if len(ends) > _LABELS or longest > _LONGEST or sum(heights) > HEIGHT + 2 * _LINE:
        return Markup()
    ends.sort(key=lambda end: end[0])
    tops = apart([y - _LINE / 2 for y, _ in ends], heights, HEIGHT + _LINE)
    texts = []
    for top, (_, look) in zip(tops, ends, strict=True):
        y = top + _LINE - 3
        second = tag("tspan", look.label, x="100%", dx="12", dy=_SECOND_LINE, class_="second")
        content = join(look.name, second if look.label else Markup())
        texts.append(tag("text", content, x="100%", dx="12", y=y, class_=f"name {look.colour}"))
    return join(*texts)


def apart(wanted: Sequence[float], heights: Sequence[float], room: float) -> list[float]:
    """Tops of labels as near as may be to where they are wanted, none over another, all within the room.

    :param wanted: tops, ascending.
    :param heights: of each.
    :param room: the last one ends there at the latest.
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
