"""The whole page: verdict, matrix, charts, thresholds, gaps, all figures, and facts of the run.

For a log, where nothing is judged: notes and tables.
"""

import re
from bisect import bisect_left
from collections.abc import Iterator, Mapping, Sequence
from functools import cache
from importlib.resources import files

from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.results import Results, RunFacts, Section, Threshold
from sluicegate_reports.render.cells import of_chart
from sluicegate_reports.render.missing import NOTHING, counted, gaps, heading, lead
from sluicegate_reports.render.page.budget import BUDGETS, MAX_BYTES, OF_LOG, Budget
from sluicegate_reports.render.page.charts import Charts, chart_id, section_id
from sluicegate_reports.render.page.facts import facts, moment, seconds
from sluicegate_reports.render.page.looks import definitions
from sluicegate_reports.render.page.markup import Markup, grid, join, scrolled, tag
from sluicegate_reports.render.page.parity import badge, matrix
from sluicegate_reports.render.page.tables import table
from sluicegate_reports.render.readable import readable


def page(results: Results) -> str:
    """The report as one HTML file of at most MAX_BYTES, unless the matrix alone is longer."""
    results = readable(results)
    budgets = OF_LOG if results.verdict is None else BUDGETS

    @cache
    def made(index: int) -> str:
        return _document(results, budgets[index])

    def fits(index: int) -> bool:
        return len(made(index).encode()) <= MAX_BYTES

    # Each budget makes a smaller page than the one before it. Most pages fit with the first.
    return made(0 if fits(0) else bisect_left(range(len(budgets) - 1), True, lo=1, key=fits))


@cache
def style() -> Markup:
    """The style sheet of all pages, without comments."""
    text = files("sluicegate_reports.render.page").joinpath("style.css").read_text()
    return Markup(re.sub(r"\s*\n\s*", "\n", re.sub(r"/\*.*?\*/", "", text, flags=re.DOTALL)).strip())


def _document(results: Results, budget: Budget) -> str:
    title = results.run.title or results.run.run
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        # Without it a browser requests an icon from the page's server.
        Markup('<link rel="icon" href="data:,">'),
        tag("title", title if results.verdict is None else f"{title}: comparison"),
        tag("style", style()),
    )
    sections: dict[str, str] = {}
    for index, section in enumerate(results.sections):
        sections.setdefault(section.policy, section_id(index))
    anchors = _anchors(results)
    first = list(_first(results, budget, anchors, sections))
    judged = results.verdict is not None
    links = {
        **{name: anchor for anchor, name, _ in first},
        **sections,
        **({"The run": "facts"} if judged else {}),
    }
    about = join(_facts(results), _contents(links))
    parts = [_part(*part) for part in first]
    # The matrix comes before anything that tells of the run, so that a telephone shows it at once.
    before = 1 if judged else 0
    main = tag(
        "main",
        *parts[:before],
        about,
        *parts[before:],
        *(
            _policy(results.run, section, budget, section_id(index))
            for index, section in enumerate(results.sections)
        ),
        _part("facts", "The run", facts(results.run, budget.text)) if judged else Markup(),
    )
    body = tag("body", definitions(), _header(results), main, _footer(budget, judged))
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"


def _first(
    results: Results, budget: Budget, anchors: Mapping[str, str], sections: Mapping[str, str]
) -> Iterator[tuple[str, str, Markup]]:
    """The parts before the sections: id, title and content of each."""
    judged = results.verdict is not None
    if judged:
        yield "matrix", "Parity", _parity(results, anchors, sections, budget.rows)
        yield "charts", "What happened", Charts(results.run, budget, anchors).made(results)
    if judged or results.thresholds:
        yield "thresholds", "Thresholds", _thresholds(results.thresholds, anchors)
    if title := heading(results):
        yield "missing", title, _missing(results)


def _table_id(section: str, index: int) -> str:
    return f"{section}-table-{index + 1}"


def _anchors(results: Results) -> dict[str, str]:
    """Ids of tables by their name; the first one of a name counts."""
    anchors: dict[str, str] = {}
    for number, section in enumerate(results.sections):
        for index, named in enumerate(section.tables):
            if named.name:
                anchors.setdefault(named.name, _table_id(section_id(number), index))
    return anchors


def _header(results: Results) -> Markup:
    run, verdict = results.run, results.verdict
    told_missing = gaps(results)
    if verdict is not None:
        shown = tag(
            "p",
            tag("a", badge(verdict), href="#matrix"),
            tag("span", counted(results), class_="passed"),
            tag("a", f"{len(told_missing)} missing or doubtful", href="#missing")
            if told_missing
            else Markup(),
            class_="verdict",
        )
    return tag(
        "header",
        tag("p", "Sluicegate comparison" if verdict else "Sluicegate", class_="kicker"),
        tag("h1", run.title or run.run),
        shown if verdict else Markup(),
        tag("p", lead(results), class_="lead"),
    )


def _facts(results: Results) -> Markup:
    """What was compared or read, and when."""
    run, values = results.run, dict(results.facts)
    if results.verdict is not None:
        values |= {"run": run.run, "began": moment(run.started), "took": seconds(run.started, run.ended)}
    pairs = (tag("div", tag("dt", name), tag("dd", value)) for name, value in values.items())
    return tag("dl", *pairs, class_="told")


def _contents(links: Mapping[str, str]) -> Markup:
    items = [tag("li", tag("a", name, href=f"#{anchor}")) for name, anchor in links.items()]
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
        anchor = anchors.get(threshold.rows, "matrix")
        name = join(tag("code", threshold.name), tag("small", threshold.text) if threshold.text else Markup())
        body.append(
            tag(
                "tr",
                tag("td", tag("span", tag("i", sign, aria_hidden="true"), text, class_=f"badge {style}")),
                tag("th", name, scope="row"),
                tag("td", tag("a", measured, href=f"#{anchor}"), class_="n", data_name="measured"),
                tag("td", quantity(threshold.bound, threshold.unit), class_="n", data_name="at most"),
            )
        )
    return scrolled("Thresholds", grid("Thresholds", [tag("tr", *head)], body, "thresholds"))


def _missing(results: Results) -> Markup:
    sentences = gaps(results)
    if not sentences:
        return tag("p", NOTHING)
    return tag("ul", *(tag("li", line) for line in sentences), class_="gaps")


def _parity(results: Results, anchors: Mapping[str, str], sections: Mapping[str, str], most: int) -> Markup:
    if not results.policies():
        return tag("p", "No policy was compared.", class_="absent")
    key = "What each arm did, against what the policy says. Verdicts lead to the rows that they come from."
    if any(cell.cost for cell in results.matrix):
        key += (
            " Below them is what the door costs below the limit: the time until a message is acknowledged, "
            "median / 99th percentile, and messages a second; for a gate, those of the native door too"
        )
        direct = any(cell.direct for cell in results.matrix)
        key += "; direct: with no policy and no gateway." if direct else "."
    return join(matrix(results, anchors, sections, most), tag("p", key, class_="key"))


def _policy(run: RunFacts, section: Section, budget: Budget, anchor: str) -> Markup:
    """One policy's section: text and rows."""
    drawn = tag("p", tag("a", "Charts", href=f"#{chart_id(anchor, 0)}"), class_="absent")
    tables = [(_table_id(anchor, index), shown, "") for index, shown in enumerate(section.tables)]
    if budget.tables_points:
        tables += [
            (f"{chart_id(anchor, index)}-rows", of_chart(chart), "points")
            for index, chart in enumerate(section.charts)
        ]
    content = join(
        tag("p", section.text, class_="lead") if section.text else Markup(),
        drawn if section.charts and budget.charts else Markup(),
        *(
            table(shown, run, table_id, budget.rows, budget.origins, kind or None)
            for table_id, shown, kind in tables
        ),
    )
    return _part(anchor, section.policy if section.overall else tag("code", section.policy), content)


def _footer(budget: Budget, judged: bool) -> Markup:
    tables = (
        f"ables show at most {budget.rows} rows and say how many there are. All of them are in the JSON form"
    )
    if not judged:
        return tag("footer", tag("p", f"T{tables}."))
    text = (
        f"Lines are drawn with about {budget.points} points at most, peaks and gaps among them; t{tables} "
        "of this report; the rows of the logs that they come from are named by path and condition."
    )
    return tag("footer", tag("p", text))
