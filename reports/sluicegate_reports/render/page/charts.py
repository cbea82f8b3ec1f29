"""The first part of the page: charts by policy and for the whole run."""

from collections.abc import Mapping
from dataclasses import dataclass

from sluicegate_reports.model.quantities import NOT_MEASURED
from sluicegate_reports.model.results import Chart, Kind, Results, RunFacts, Section
from sluicegate_reports.render.page.budget import Budget
from sluicegate_reports.render.page.curves import curves, limit_entry
from sluicegate_reports.render.page.looks import legend, looks
from sluicegate_reports.render.page.markup import Markup, join, tag
from sluicegate_reports.render.page.panels import key, panels


def section_id(index: int) -> str:
    """Id of a section of the results, by its index."""
    return f"policy-{index + 1}"


def chart_id(section: str, index: int) -> str:
    """Id of a section's chart, by its index."""
    return f"{section}-{index + 1}"


@dataclass(frozen=True, slots=True)
class Charts:
    """Draws the charts of one comparison."""

    run: RunFacts
    budget: Budget
    anchors: Mapping[str, str]
    """Ids of all tables of the page by their name."""

    def made(self, results: Results) -> Markup:
        """The charts of all sections."""
        parts = [
            self._of_section(section, section_id(index))
            for index, section in enumerate(results.sections)
            if section.charts
        ]
        if not parts:
            return tag("p", "There is no chart.", class_="absent")
        return join(*parts)

    def _of_section(self, section: Section, anchor: str) -> Markup:
        name = section.policy if section.overall else tag("code", section.policy)
        heading = tag("h3", tag("a", name, href=f"#{anchor}"), " ", tag("small", section.text))
        if not self.budget.charts:
            text = f"{len(section.charts)} charts are left out: the page would be too large."
            return tag("div", heading, tag("p", text, class_="absent"), class_="kind")
        drawn = [self._chart(chart, chart_id(anchor, index)) for index, chart in enumerate(section.charts)]
        return tag("div", heading, tag("div", *drawn, class_="charts"), class_="kind")

    def _chart(self, chart: Chart, anchor: str) -> Markup:
        links = []
        if chart.rows in self.anchors:
            links.append(tag("a", "figures", href=f"#{self.anchors[chart.rows]}"))
        if self.budget.tables_points:
            links.append(tag("a", "points", href=f"#{anchor}-rows"))
        spaced = [part for link in links for part in (link, Markup(" "))]
        heading = tag("h4", chart.metric, " ", tag("small", *spaced[:-1]))
        text = tag("p", chart.text) if chart.text else Markup()
        return tag(
            "figure",
            tag("figcaption", heading, text, self._key(chart)),
            self._drawn(chart, anchor),
            id=anchor,
        )

    def _key(self, chart: Chart) -> Markup:
        if chart.panels:
            return key(chart)
        return legend(looks(chart, self.run), limit_entry(chart))

    def _drawn(self, chart: Chart, anchor: str) -> Markup:
        if not any(series.points for series in chart.series):
            return tag("p", f"Nothing to draw: {NOT_MEASURED}.", class_="absent")
        if chart.panels or chart.kind is Kind.HISTOGRAM:
            return panels(chart, self.run, self.budget.points, anchor)
        return curves(chart, looks(chart, self.run), self.budget.points, f"{anchor}-title")
