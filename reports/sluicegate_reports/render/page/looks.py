"""The look of a series, the same on the whole page: colour by system, dashes and marker by door."""

from collections.abc import Sequence
from dataclasses import dataclass

from sluicegate_reports import registry
from sluicegate_reports.model.results import Chart, RunFacts
from sluicegate_reports.render.page.markup import Markup, join, tag

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
    """The look of one series."""

    colour: str
    """CSS class."""
    door: str
    """CSS class: dashes of the line; also the mark's id."""
    name: str
    """Short name, beside the line."""
    label: str
    """Label that must stand beside the name; empty for none."""
    full: str
    """Name with label."""

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
    """The looks of a chart's series.

    Where an arm has several series, colour and mark follow the series instead of the arm, to tell them apart.
    """
    arms = [(series.system, series.door) for series in chart.series]
    repeated = len(set(arms)) < len(arms)
    chosen: list[Look] = []
    for index, series in enumerate(chart.series):
        arm = run.arm(series.system, series.door)
        colour = f"c{registry.system(arm.system).colour or 4 + _other(arm.system) % 3}"
        door = f"d{registry.door(arm.door).mark}"
        if repeated:
            colour, door = f"c{index % _COLOURS + 1}", f"d{index // _COLOURS % len(_MARKS) + 1}"
        further = f", {series.name}" if series.name else ""
        name = f"{arm.system} {arm.door}{further}"
        chosen.append(Look(colour, door, name, arm.label, f"{arm.name}{further}"))
    return chosen


def _other(system: str) -> int:
    """A number that is stable over processes, for systems without a colour."""
    return sum(system.encode())


def legend(shown: Sequence[Look], limit: str) -> Markup:
    """Names of all series, each with its line and mark, and the limit.

    :param limit: its text; empty for none.
    """
    items = []
    for look in shown:
        line = tag("line", x1="0", x2="34", y1="7", y2="7", class_=f"line {look.colour} {look.door}-line")
        items.append(sample(join(line, look.mark("17", 7.0)), look.full))
    return tag("ul", *items, *of_limit(limit), class_="legend") if items or limit else Markup()


def of_limit(text: str) -> list[Markup]:
    """The limit's entry in a legend; none without a text."""
    line = tag("line", x1="0", x2="34", y1="7", y2="7", class_="limit")
    return [sample(line, text, "limit-text")] if text else []


def sample(drawing: Markup, text: str, class_: str | None = None) -> Markup:
    """An entry of a legend."""
    svg = tag("svg", drawing, width="34", height="14", aria_hidden="true")
    return tag("li", svg, tag("span", text), class_=class_)
