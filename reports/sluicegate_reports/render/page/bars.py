"""Bar charts with bounds, and dots. Names and figures are text; only the marks are SVG."""

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from sluicegate_reports.model.quantities import NOT_MEASURED, number, quantity, scaled
from sluicegate_reports.model.results import Chart, Kind, Point
from sluicegate_reports.render.page.curves import described, values_of, y_scale
from sluicegate_reports.render.page.looks import Look
from sluicegate_reports.render.page.markup import Markup, short, tag
from sluicegate_reports.render.page.scales import Linear, Log, Scale

_HEIGHT = 26.0
_BAR = 12.0


@dataclass(frozen=True, slots=True)
class _Axis:
    scale: Scale
    unit: str
    divisor: float

    def at(self, value: float) -> float:
        """Percent of the width."""
        return self.scale.place(value / self.divisor) * 100

    def percent(self, value: float) -> str:
        """The same with a percent sign, for SVG."""
        return f"{short(self.at(value))}%"


def rows(chart: Chart, shown: Sequence[Look], most: int) -> Markup:
    """The rows of a chart of kind BARS or DOTS.

    :param shown: a look for each series.
    :param most: rows that are drawn; a note counts the others.
    """
    axis = _axis(chart)
    drawn = list(_dots(chart, shown, axis) if chart.kind is Kind.DOTS else _bars(chart, shown, axis))
    left = len(drawn) - most
    more = tag("li", f"{left} more rows are not drawn", class_="more") if left > 0 else Markup()
    return tag(
        "div",
        tag("ul", *drawn[:most], more, aria_label=described(chart)),
        _scale_line(axis),
        class_="rows",
    )


def _axis(chart: Chart) -> _Axis:
    drawn = values_of(chart)
    if chart.limit is not None and math.isfinite(chart.limit):
        drawn.append(chart.limit)
    fitting = scaled(chart.unit, max((abs(value) for value in drawn), default=0.0))
    values = [value / fitting.divisor for value in drawn]
    if chart.kind is Kind.DOTS and not chart.log and values:
        return _Axis(_spread(values), fitting.unit, fitting.divisor)
    return _Axis(y_scale(values, chart.log), fitting.unit, fitting.divisor)


def _spread(values: Sequence[float]) -> Scale:
    """An axis for dots: it includes 0 only if 0 is near."""
    low, high = min(values), max(values)
    return Linear.over(min(low, 0.0) if low < (high - low) else low, high)


def _category(chart: Chart, x: float) -> str:
    index = round(x)
    return chart.categories[index] if 0 <= index < len(chart.categories) else ""


def _bars(chart: Chart, shown: Sequence[Look], axis: _Axis) -> Iterator[Markup]:
    """One row for each arm of each category."""
    places = sorted({point.x for series in chart.series for point in series.points})
    for x in places:
        heading = _category(chart, x)
        if heading:
            yield tag("li", heading, class_="category")
        for series, look in zip(chart.series, shown, strict=True):
            for point in (point for point in series.points if point.x == x):
                yield _row(look.full, _bar(point, look, axis, chart), _told(point, chart.unit))


def _dots(chart: Chart, shown: Sequence[Look], axis: _Axis) -> Iterator[Markup]:
    """One row for each category with a dot for each arm; without categories, one row for each arm."""
    if not chart.categories:
        for series, look in zip(chart.series, shown, strict=True):
            figure = _told(series.points[0], chart.unit) if len(series.points) == 1 else Markup()
            yield _row(look.full, _field(chart, axis, _dot_marks(series.points, look, axis)), figure)
        return
    for index, category in enumerate(chart.categories):
        marks: list[Markup] = []
        for series, look in zip(chart.series, shown, strict=True):
            marks += _dot_marks([point for point in series.points if round(point.x) == index], look, axis)
        figure = Markup() if marks else tag("span", NOT_MEASURED, class_="figure absent")
        yield _row(category, _field(chart, axis, marks), figure)


def _row(name: str, drawing: Markup, figure: Markup) -> Markup:
    return tag("li", tag("span", name, class_="who"), drawing, figure)


def _told(point: Point, unit: str) -> Markup:
    """The figure beside its bar, with its bounds."""
    if point.y is None:
        return tag("span", NOT_MEASURED, class_="figure absent")
    bounds = Markup()
    if point.low is not None and point.high is not None:
        bounds = tag("small", f" {quantity(point.low, unit)} to {quantity(point.high, unit)}")
    return tag("span", tag("b", quantity(point.y, unit)), bounds, class_="figure")


def _field(chart: Chart, axis: _Axis, marks: Sequence[Markup]) -> Markup:
    """One row's SVG: lines of the ticks and of the limit, and what is drawn on them."""
    lines = []
    for tick in axis.scale.ticks:
        x = f"{short(axis.scale.place(tick.value) * 100)}%"
        zero = " zero" if tick.value == 0 else ""
        lines.append(tag("line", x1=x, x2=x, y1="0", y2=_HEIGHT, class_=f"grid{zero}"))
    if chart.limit is not None:
        x = axis.percent(chart.limit)
        lines.append(tag("line", x1=x, x2=x, y1="0", y2=_HEIGHT, class_="limit"))
    return tag("svg", *lines, *marks, height=f"{_HEIGHT:.0f}", aria_hidden="true")


def _bar(point: Point, look: Look, axis: _Axis, chart: Chart) -> Markup:
    if point.y is None:
        return _field(chart, axis, [])
    start = 0.0 if isinstance(axis.scale, Log) else axis.at(0.0)
    end = axis.at(point.y)
    rect = tag(
        "rect",
        x=f"{short(min(start, end))}%",
        y=(_HEIGHT - _BAR) / 2,
        width=f"{short(abs(end - start))}%",
        height=_BAR,
        class_=f"bar {look.colour}",
    )
    # The mark has the door's shape; without it bars of one system would differ by name only.
    mark = look.mark(f"{short(end)}%", _HEIGHT / 2)
    return _field(chart, axis, [rect, *_whisker(point, look, axis), mark])


def _dot_marks(points: Sequence[Point], look: Look, axis: _Axis) -> list[Markup]:
    drawn: list[Markup] = []
    for point in points:
        if point.y is not None and math.isfinite(point.y):
            drawn += [*_whisker(point, look, axis), look.mark(axis.percent(point.y), _HEIGHT / 2)]
    return drawn


def _whisker(point: Point, look: Look, axis: _Axis) -> Iterator[Markup]:
    if point.low is None or point.high is None:
        return
    low, high, middle = axis.percent(point.low), axis.percent(point.high), _HEIGHT / 2
    style = f"whisker {look.colour}"
    yield tag("line", x1=low, x2=high, y1=middle, y2=middle, class_=style)
    for x in (low, high):
        yield tag("line", x1=x, x2=x, y1=middle - 4, y2=middle + 4, class_=style)


def _scale_line(axis: _Axis) -> Markup:
    """The axis below all rows."""
    texts = []
    last = len(axis.scale.ticks) - 1
    for index, tick in enumerate(axis.scale.ticks):
        x = f"{short(axis.scale.place(tick.value) * 100)}%"
        # Counted from the end, where the unit is.
        rare = " rare" if (last - index) % 2 else ""
        text = f"{number(tick.value)} {axis.unit}".rstrip() if index == last else number(tick.value)
        style = "tick end" if index == last else f"tick x{rare}" if index else "tick"
        texts.append(tag("text", text, x=x, y="14", class_=style))
    return tag("div", tag("svg", *texts, height="20", aria_hidden="true"), class_="scale")
