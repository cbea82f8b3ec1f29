"""The look of a series, the same on the whole page: colour by system, dashes and marker by door."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluicegate_reports import registry
from sluicegate_reports.page.markup import Markup, join, tag
from sluicegate_reports.results import Chart, RunFacts

_COLOURS = 6
_MARKS = {
    "d1": "M-4 0A4 4 0 1 0 4 0A4 4 0 1 0 -4 0Z",
    "d2": "M-3.5 -3.5H3.5V3.5H-3.5Z",
    "d3": "M0 -4.8L4.6 3.6H-4.6Z",
    "d4": "M0 -5L5 0L0 5L-5 0Z",
}
"""Circle, square, triangle, diamond, about the origin."""
_HOLLOW = "d2"


@dataclass(frozen=True, slots=True)
class Look:
    """Of one series."""

    colour: str
    """CSS class."""
    door: str
    """CSS class: dashes of the line; also the mark's id."""
    name: str
    """Short, for beside the line."""
    label: str
    """What must stand beside the name; empty for nothing."""
    full: str
    """Both."""

    def mark(self, x: str, y: float) -> Markup:
        """Its mark.

        :param x: in percent, such as `12.5%`.
        :param y: in pixels.
        """
        hollow = " hollow" if self.door == _HOLLOW else ""
        return tag("use", href=f"#{self.door}", x=x, y=y, class_=f"mark {self.colour}{hollow}")


def definitions() -> Markup:
    """The marks, once in the page."""
    paths = [tag("path", id=name, d=path) for name, path in _MARKS.items()]
    return tag("svg", tag("defs", *paths), width="0", height="0", aria_hidden="true", class_="defs")


def looks(chart: Chart, run: RunFacts) -> list[Look]:
    """One for each series of a chart.

    Where an arm has several series, colour and mark go by the series instead, or they would look alike.
    """
    arms = [(series.system, series.door) for series in chart.series]
    repeated = len(set(arms)) < len(arms)
    found: list[Look] = []
    for index, series in enumerate(chart.series):
        arm = run.arm(series.system, series.door)
        colour = f"c{registry.system(arm.system).colour or 4 + _other(arm.system) % 3}"
        door = f"d{registry.door(arm.door).mark}"
        if repeated:
            colour, door = f"c{index % _COLOURS + 1}", f"d{index // _COLOURS % len(_MARKS) + 1}"
        further = f", {series.name}" if series.name else ""
        name = f"{arm.system} {arm.door}{further}"
        found.append(Look(colour, door, name, arm.label, f"{arm.name}{further}"))
    return found


def _other(system: str) -> int:
    """A number that is the same in each process, for systems that choose none."""
    return sum(system.encode())


def legend(shown: Sequence[Look], lines: bool, limit: str) -> Markup:
    """Names of all series, each with its line and mark, and the limit.

    :param lines: whether the chart joins points by lines.
    :param limit: its text; empty for none.
    """
    items = []
    for look in shown:
        line = tag("line", x1="0", x2="34", y1="7", y2="7", class_=f"line {look.colour} {look.door}-line")
        sample = join(line if lines else Markup(), look.mark("17", 7.0))
        svg = tag("svg", sample, width="34", height="14", aria_hidden="true")
        items.append(tag("li", svg, tag("span", look.full)))
    if limit:
        sample = tag("line", x1="0", x2="34", y1="7", y2="7", class_="limit")
        svg = tag("svg", sample, width="34", height="14", aria_hidden="true")
        items.append(tag("li", svg, tag("span", limit), class_="limit-text"))
    return tag("ul", *items, class_="legend") if items else Markup()
