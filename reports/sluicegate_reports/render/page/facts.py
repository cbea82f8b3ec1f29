"""The last part of the page: the facts needed to judge or repeat the run."""

from collections.abc import Iterable, Mapping
from datetime import datetime

from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.results import RunFacts
from sluicegate_reports.render.page.markup import Markup, grid, join, scrolled, tag

_CLOCKS = 60
"""Rows shown of the table of clocks; a run may have hundreds of clients."""
_CLOCK_COLUMNS = ("client", "arm", "client minus gate", "uncertainty", "gate", "host", "rests on")


def facts(run: RunFacts, most_text: int) -> Markup:
    """Versions, machine, commands, phases, clocks, the texts of scenario and policies.

    :param most_text: characters of each of the two texts.
    """
    return join(
        tag("div", _pairs("Versions", run.versions), _pairs("Machine", run.machine), class_="columns"),
        _commands(run.commands),
        _phases(run),
        _clocks(run),
        _text("Scenario", run.scenario, most_text),
        _text("Policies", run.policies, most_text),
    )


def moment(time: datetime | None) -> str:
    """A time in UTC, to the second."""
    return "unknown" if time is None else f"{time:%Y-%m-%d %H:%M:%S} UTC"


def seconds(start: datetime | None, end: datetime | None) -> str:
    """How long something took."""
    return "unknown" if start is None or end is None else quantity((end - start).total_seconds(), "s")


def _unknown(title: str) -> Markup:
    return tag("p", f"{title}: the run does not tell.", class_="absent")


def _pairs(title: str, values: Mapping[str, str]) -> Markup:
    if not values:
        return tag("div", tag("h3", title), _unknown(title))
    rows = [tag("div", tag("dt", name), tag("dd", value)) for name, value in values.items()]
    return tag("div", tag("h3", title), tag("dl", *rows))


def _commands(commands: Iterable[str]) -> Markup:
    lines = "\n".join(commands)
    shown = tag("pre", tag("code", lines), tabindex="0") if lines else _unknown("Commands")
    return join(tag("h3", "Commands"), shown)


def _rows(title: str, head: Iterable[str], rows: Iterable[Iterable[str]]) -> Markup:
    heads = tag("tr", *(tag("th", name, scope="col") for name in head))
    body = (tag("tr", *(tag("td", text) for text in row)) for row in rows)
    return join(tag("h3", title), scrolled(title, grid(title, [heads], body)))


def _phases(run: RunFacts) -> Markup:
    if not run.phases:
        return Markup()
    rows = ([phase.name, moment(phase.start), seconds(phase.start, phase.end)] for phase in run.phases)
    return _rows("Phases", ("phase", "began", "took"), rows)


def _clocks(run: RunFacts) -> Markup:
    if not run.skews:
        return join(tag("h3", "Clocks"), _unknown("Clocks of clients against the gateway"))
    rows = (
        [
            skew.client,
            run.arm(skew.system, skew.door).name,
            quantity(skew.offset_us, "us"),
            "± " + quantity(skew.uncertainty_us, "us"),
            skew.gate,
            skew.host,
            skew.basis or "the run does not tell",
        ]
        for skew in run.skews[:_CLOCKS]
    )
    clocks = _rows("Clocks", _CLOCK_COLUMNS, rows)
    left = len(run.skews) - _CLOCKS
    more = tag("p", f"{left:,} more are in the JSON form.", class_="absent") if left > 0 else Markup()
    return join(clocks, more)


def _text(title: str, text: str, most: int) -> Markup:
    if not text.strip():
        return join(tag("h3", title), _unknown(title))
    left = len(text) - most
    cut = tag("p", f"{left:,} more characters are not shown.", class_="absent") if left > 0 else Markup()
    return join(tag("h3", title), tag("pre", tag("code", text[:most].rstrip()), tabindex="0"), cut)
