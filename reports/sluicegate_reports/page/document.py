"""The whole page: verdict and thresholds, what is missing, the matrix, the policies, the run's facts."""

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from sluicegate_reports.cells import of_chart
from sluicegate_reports.missing import MEANINGS, NOTHING, counted, gaps
from sluicegate_reports.page.bars import rows
from sluicegate_reports.page.curves import curves, limit_told
from sluicegate_reports.page.facts import facts, moment, seconds
from sluicegate_reports.page.looks import definitions, legend, looks
from sluicegate_reports.page.markup import Markup, join, tag
from sluicegate_reports.page.tables import badge, matrix, table
from sluicegate_reports.quantities import NOT_MEASURED, quantity
from sluicegate_reports.results import Chart, Kind, Results, RunFacts, Section, Threshold

MAX_BYTES = 1_000_000
"""Of a page; with more than fits, points and rows are thinned out, and the page says so."""


@dataclass(frozen=True, slots=True)
class Budget:
    """How much of everything a page shows."""

    points: int
    """Of one series."""
    rows: int
    """Of one table."""
    text: int
    """Characters of the scenario and of the policies."""
    charts: bool = True


_BUDGETS = (
    Budget(800, 200, 60_000),
    Budget(400, 60, 40_000),
    Budget(200, 30, 20_000),
    Budget(100, 12, 10_000),
    Budget(40, 6, 4_000),
    Budget(40, 3, 2_000, charts=False),
)


def page(results: Results) -> str:
    """The report as one HTML file of at most MAX_BYTES, unless the matrix alone is longer."""
    made = ""
    for budget in _BUDGETS:
        made = _document(results, budget)
        if len(made.encode()) <= MAX_BYTES:
            break
    return made


@cache
def style() -> Markup:
    """The style sheet of all pages, without comments."""
    text = files("sluicegate_reports.page").joinpath("style.css").read_text()
    return Markup(re.sub(r"\s*\n\s*", "\n", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)).strip())


def _document(results: Results, budget: Budget) -> str:
    title = results.run.title or results.run.run
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        # Without it a browser asks the place that the page came from for an icon.
        Markup('<link rel="icon" href="data:,">'),
        tag("title", f"{title}: comparison"),
        tag("style", style()),
    )
    sections: dict[str, str] = {}
    for index, section in enumerate(results.sections):
        sections.setdefault(section.policy, _section_id(index))
    anchors = _anchors(results)
    main = tag(
        "main",
        _part("thresholds", "Thresholds", _thresholds(results.thresholds, anchors)),
        _part("missing", "What is missing", _missing(results)),
        _part("matrix", "Parity", _parity(results, anchors, sections, budget.rows)),
        *(
            _Policy(results.run, section, budget, anchors, _section_id(index)).made()
            for index, section in enumerate(results.sections)
        ),
        _part("facts", "The run", facts(results.run, budget.text)),
    )
    body = tag("body", definitions(), _header(results), _contents(sections), main, _footer(budget))
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _section_id(index: int) -> str:
    return f"policy-{index + 1}"


def _table_id(section: str, index: int) -> str:
    return f"{section}-table-{index + 1}"


def _anchors(results: Results) -> dict[str, str]:
    """Ids of tables by their name; the first one of a name counts."""
    found: dict[str, str] = {}
    for place, section in enumerate(results.sections):
        for index, named in enumerate(section.tables):
            if named.name:
                found.setdefault(named.name, _table_id(_section_id(place), index))
    return found


def _header(results: Results) -> Markup:
    run = results.run
    told = [
        ("run", run.run),
        ("began", moment(run.started)),
        ("took", seconds(run.started, run.ended)),
        ("arms", ", ".join(arm.name for arm in results.arms())),
    ]
    return tag(
        "header",
        tag("p", "Sluicegate comparison", class_="kicker"),
        tag("h1", run.title or run.run),
        tag(
            "p",
            tag("a", badge(results.verdict), href="#matrix"),
            tag("span", counted(results), class_="passed"),
            class_="verdict",
        ),
        tag("p", results.summary or MEANINGS[results.verdict], class_="lead"),
        tag("dl", *(tag("div", tag("dt", name), tag("dd", value)) for name, value in told), class_="told"),
    )


def _contents(sections: Mapping[str, str]) -> Markup:
    fixed = {"Thresholds": "thresholds", "What is missing": "missing", "Parity": "matrix"}
    links = {**fixed, **sections, "The run": "facts"}
    items = [tag("li", tag("a", name, href=f"#{place}")) for name, place in links.items()]
    return tag("nav", tag("ul", *items), aria_label="Contents")


def _part(anchor: str, title: str, content: Markup) -> Markup:
    return tag(
        "section",
        tag("h2", title, id=f"{anchor}-title"),
        content,
        id=anchor,
        aria_labelledby=f"{anchor}-title",
    )


def _thresholds(thresholds: Sequence[Threshold], anchors: Mapping[str, str]) -> Markup:
    if not thresholds:
        return tag("p", "No thresholds were set.", class_="absent")
    head = [tag("th", name, scope="col") for name in ("", "measure", "measured", "at most")]
    body = []
    for threshold in thresholds:
        sign, text = ("✓", "passed") if threshold.passed else ("✕", "failed")
        style = "exact" if threshold.passed else "off"
        measured = quantity(threshold.measured, threshold.unit)
        place = anchors.get(threshold.rows, "matrix")
        name = join(tag("code", threshold.name), tag("small", threshold.text) if threshold.text else Markup())
        body.append(
            tag(
                "tr",
                tag("td", tag("span", tag("i", sign, aria_hidden="true"), text, class_=f"badge {style}")),
                tag("th", name, scope="row"),
                tag("td", tag("a", measured, href=f"#{place}"), class_="n", data_name="measured"),
                tag("td", quantity(threshold.bound, threshold.unit), class_="n", data_name="at most"),
            )
        )
    made = tag(
        "table",
        tag("caption", "Thresholds", class_="unseen"),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        class_="thresholds",
    )
    return tag("div", made, class_="scroll", tabindex="0", role="region", aria_label="Thresholds")


def _missing(results: Results) -> Markup:
    found = gaps(results)
    if not found:
        return tag("p", NOTHING)
    return tag("ul", *(tag("li", line) for line in found), class_="gaps")


def _parity(results: Results, anchors: Mapping[str, str], sections: Mapping[str, str], most: int) -> Markup:
    if not results.policies():
        return tag("p", "No policy was compared.", class_="absent")
    key = (
        "What each arm did, against what the policy says. Each verdict leads to the rows that it comes from."
    )
    return join(tag("p", key), matrix(results, anchors, sections, most))


@dataclass(frozen=True, slots=True)
class _Policy:
    """One policy's section."""

    run: RunFacts
    section: Section
    budget: Budget
    anchors: Mapping[str, str]
    """Ids of all tables of the page by their name."""
    anchor: str
    """Its own id."""

    def made(self) -> Markup:
        """The section: text, charts, rows."""
        anchor = self.anchor
        return tag(
            "section",
            tag("h2", tag("code", self.section.policy), id=f"{anchor}-title"),
            tag("p", self.section.text, class_="lead") if self.section.text else Markup(),
            self._charts(),
            *self._tables(),
            id=anchor,
            aria_labelledby=f"{anchor}-title",
        )

    def _charts(self) -> Markup:
        if not self.section.charts:
            return tag("p", "There is no chart of this policy.", class_="absent")
        if not self.budget.charts:
            text = f"{len(self.section.charts)} charts are left out: the page would be too large."
            return tag("p", text, class_="absent")
        made = [
            self._chart(chart, f"{self.anchor}-{index + 1}")
            for index, chart in enumerate(self.section.charts)
        ]
        return tag("div", *made, class_="charts")

    def _chart(self, chart: Chart, anchor: str) -> Markup:
        shown = looks(chart, self.run)
        in_rows = chart.kind in {Kind.BARS, Kind.DOTS}
        if not any(series.points for series in chart.series):
            drawn = tag("p", f"Nothing to draw: {NOT_MEASURED}.", class_="absent")
        elif in_rows:
            drawn = rows(chart, shown, self.budget.rows)
        else:
            drawn = curves(chart, shown, self.budget.points, f"{anchor}-title")
        links = [tag("a", "points", href=f"#{anchor}-rows")]
        if chart.rows in self.anchors:
            links = [tag("a", "figures", href=f"#{self.anchors[chart.rows]}"), Markup(" "), *links]
        heading = tag("h3", chart.metric, " ", tag("small", *links))
        text = tag("p", chart.text) if chart.text else Markup()
        # Rows of bars name their arms themselves; dots in categories and lines do not.
        named = chart.kind is Kind.BARS or (chart.kind is Kind.DOTS and not chart.categories)
        key = legend([] if named else shown, not in_rows, limit_told(chart))
        return tag(
            "figure",
            tag("figcaption", heading, text, key),
            drawn,
            id=anchor,
            class_="half" if in_rows else None,
        )

    def _tables(self) -> list[Markup]:
        most = self.budget.rows
        made = []
        for index, found in enumerate(self.section.tables):
            made.append(table(found, self.run, _table_id(self.anchor, index), most))
        for index, chart in enumerate(self.section.charts):
            if self.budget.charts or chart.rows not in self.anchors:
                made.append(table(of_chart(chart), self.run, f"{self.anchor}-{index + 1}-rows", most))
        return made


def _footer(budget: Budget) -> Markup:
    text = (
        f"Lines are drawn with about {budget.points} points at most, peaks and gaps among them; "
        f"tables show at most {budget.rows} rows and say how many there are. All of them are in the JSON "
        "form of this report; the rows of the logs that they come from are named by path and condition. "
        "Only tables that are unfolded are printed."
    )
    return tag("footer", tag("p", text))
