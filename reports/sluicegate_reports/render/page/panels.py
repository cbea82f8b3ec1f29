"""Small multiples: a panel for each arm, side by side, all on the same scales.

Lines lie in an inner SVG that is stretched, as in `curves`; texts lie outside of it and keep their size.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace

from sluicegate_reports.model.quantities import NOT_MEASURED, number
from sluicegate_reports.model.results import Chart, Kind, RunFacts, Series
from sluicegate_reports.render.page.curves import (
    HEIGHT,
    WIDTH,
    Frame,
    band,
    described,
    frame_of,
    limit_entry,
    line,
    runs,
    stretched,
)
from sluicegate_reports.render.page.looks import Look, looks, of_limit, sample
from sluicegate_reports.render.page.markup import Markup, join, short, tag
from sluicegate_reports.render.page.thinning import thinned_chart

_TALL = 104
"""Pixels of one panel's field."""
_TICKS = 3
"""Of each axis, about."""
_FURTHER = ("second", "third", "fourth")
"""CSS classes of the further series of any arm."""


def panels(chart: Chart, run: RunFacts, most: int, anchor: str) -> Markup:
    """The panels of a chart of kind LINE or HISTOGRAM, in the order in which arms come.

    :param most: points of one series, about.
    :param anchor: id of the figure, from which titles get theirs.
    """
    chart = thinned_chart(chart, most)
    frame = frame_of(chart, _TICKS)
    drawn = []
    for number_, (_, several) in enumerate(_by_arm(chart).items()):
        own = replace(chart, series=tuple(several))
        # A panel has the arm's name, so its line needs no dashes to tell doors apart.
        look = replace(looks(replace(chart, series=(several[0],)), run)[0], door="plain")
        drawn.append(
            _panel(own, replace(look, name=run.arm(*_arm(several[0])).name), frame, f"{anchor}-{number_}")
        )
    return tag("div", *drawn, class_="panels")


def key(chart: Chart) -> Markup:
    """What the lines of all panels mean, once."""
    names = list(dict.fromkeys(series.name for series in chart.series if series.name))
    several = max((len(own) for own in _by_arm(chart).values()), default=0) > 1
    items = []
    for index, name in enumerate(names if several else []):
        style = "main" if index == 0 else _FURTHER[min(index, len(_FURTHER)) - 1]
        items.append(sample(tag("line", x1="0", x2="34", y1="7", y2="7", class_=f"line {style}"), name))
    items += of_limit(limit_entry(chart))
    if chart.x_unit:
        items.append(tag("li", tag("span", f"across: {chart.x_unit}"), class_="axis"))
    return tag("ul", *items, class_="legend") if items else Markup()


def _arm(series: Series) -> tuple[str, str]:
    return series.system, series.door


def _by_arm(chart: Chart) -> dict[tuple[str, str], list[Series]]:
    by_arm: dict[tuple[str, str], list[Series]] = {}
    for series in chart.series:
        by_arm.setdefault(_arm(series), []).append(series)
    return by_arm


def _panel(chart: Chart, look: Look, frame: Frame, title: str) -> Markup:
    if not any(point.y is not None for series in chart.series for point in series.points):
        empty = tag("p", NOT_MEASURED, class_="absent")
        return tag("div", tag("h4", look.name), empty, class_="panel")
    svg = tag(
        "svg",
        tag("title", f"{look.name}: {described(chart)}", id=title),
        _grid(chart, frame),
        stretched(_TALL, *_drawn(chart, look, frame)),
        class_="plot",
        height=str(_TALL),
        role="img",
        aria_labelledby=title,
    )
    return tag("div", tag("h4", look.name, class_=look.colour), svg, class_="panel")


def _drawn(chart: Chart, look: Look, frame: Frame) -> Iterator[Markup]:
    """Draws further series first, then the main one, and the limit on top."""
    if chart.kind is Kind.HISTOGRAM:
        yield from (_columns(series, look, frame) for series in chart.series)
        return
    for index, series in reversed(list(enumerate(chart.series))):
        style = replace(look, colour=_FURTHER[min(index, len(_FURTHER)) - 1], door="plain") if index else look
        yield band(series, style, frame)
        yield line(series, style, frame)
        yield _lone(series, style, frame)
    if chart.limit is not None and frame.limit_shown:
        y = frame.height(chart.limit)
        yield tag("path", d=f"M0 {short(y)}H{WIDTH:.0f}", class_="limit line")


def _lone(series: Series, look: Look, frame: Frame) -> Markup:
    """A dot for each point between two gaps, which no line shows."""
    points = [frame.position(*run[0]) for run in runs(series) if len(run) == 1]
    if not points:
        return Markup()
    dots = "".join(f"M{short(x)} {short(y)}h0" for x, y in points)
    return tag("path", d=dots, class_=f"lone {look.colour}")


def _columns(series: Series, look: Look, frame: Frame) -> Markup:
    """Columns without room between them, from 0 up."""
    parts = []
    for point in series.points:
        if point.y:
            left, right = (frame.x.position(x) * WIDTH for x in (point.x, point.x + 1))
            parts.append(
                f"M{short(left)} {HEIGHT:.0f}V{short(frame.height(point.y))}H{short(right)}V{HEIGHT:.0f}Z"
            )
    return tag("path", d="".join(parts), class_=f"histo {look.colour}")


def _bands(chart: Chart, frame: Frame) -> Iterator[Markup]:
    """Every other one is shaded; each has its name at the top."""
    for index, named in enumerate(chart.bands):
        left, right = (frame.x.position(x) * 100 for x in (named.low, named.high))
        x, width = f"{short(left)}%", f"{short(right - left)}%"
        if index % 2:
            yield tag("rect", x=x, y="0", width=width, height=str(_TALL), class_="phase")
        yield tag("text", named.name, x=x, dx="3", y="-3", class_="phase")


def _grid(chart: Chart, frame: Frame) -> Markup:
    parts = [
        *_bands(chart, frame),
        tag("text", frame.unit, x="-46", y="-14" if chart.bands else "-9", class_="unit"),
    ]
    ticks = list(frame.y.ticks)
    every = -(-len(ticks) // (_TICKS + 1))
    for index, tick in enumerate(ticks):
        y = (1.0 - frame.y.position(tick.value)) * _TALL
        parts.append(
            tag("line", x1="0", x2="100%", y1=y, y2=y, class_="grid zero" if tick.value == 0 else "grid")
        )
        if index % every == 0:
            parts.append(tag("text", number(tick.value), x="-7", y=y + 4, class_="tick y"))
    for value, text in _below(chart, frame):
        x = f"{short(frame.x.position(value) * 100)}%"
        parts.append(tag("line", x1=x, x2=x, y1=_TALL, y2=_TALL + 4, class_="grid zero"))
        parts.append(tag("text", text, x=x, y=_TALL + 17, class_="tick x"))
    return join(*parts)


def _below(chart: Chart, frame: Frame) -> Sequence[tuple[float, str]]:
    """Ticks of the lower axis and their labels; in a histogram at the start of each interval."""
    if chart.kind is not Kind.HISTOGRAM:
        return [(tick.value, number(tick.value)) for tick in frame.x.ticks]
    every = max(1, -(-len(chart.categories) // (_TICKS + 1)))
    return [
        (index, chart.categories[index].partition(" ")[0]) for index in range(0, len(chart.categories), every)
    ]
