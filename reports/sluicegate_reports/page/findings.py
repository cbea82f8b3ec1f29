"""What a job found in a log, as one HTML file: notes before any figure, then the tables."""

from sluicegate_reports.findings import Findings
from sluicegate_reports.page.budget import MAX_BYTES
from sluicegate_reports.page.document import style
from sluicegate_reports.page.markup import Markup, join, tag
from sluicegate_reports.page.tables import table
from sluicegate_reports.readable import readable
from sluicegate_reports.results import RunFacts

_ROWS = (1_000, 300, 100, 30, 10)
"""Of one table, the first that fit into a page."""
_NO_RUN = RunFacts("", "", "")


def findings_page(found: Findings) -> str:
    """The findings as a page of at most MAX_BYTES, unless notes alone are longer; what is cut is said."""
    found = readable(found)
    made = ""
    for most in _ROWS:
        made = _document(found, most)
        if len(made.encode()) <= MAX_BYTES:
            break
    return made


def _document(found: Findings, most: int) -> str:
    head = tag(
        "head",
        tag("meta", charset="utf-8"),
        tag("meta", name="viewport", content="width=device-width, initial-scale=1"),
        tag("meta", name="color-scheme", content="light dark"),
        Markup('<link rel="icon" href="data:,">'),
        tag("title", found.title),
        tag("style", style()),
    )
    facts = [tag("div", tag("dt", name), tag("dd", text)) for name, text in found.facts.items()]
    notes = tag("ul", *(tag("li", note) for note in found.notes), class_="gaps") if found.notes else Markup()
    parts = [
        tag("section", tag("h2", shown.title or shown.name), table(shown, _NO_RUN, f"table-{number}", most))
        if shown.rows
        else tag("section", tag("h2", shown.title or shown.name), tag("p", "None.", class_="absent"))
        for number, shown in enumerate(found.tables, 1)
    ]
    header = tag(
        "header",
        tag("h1", found.title),
        tag("p", found.summary, class_="lead"),
        tag("dl", *facts, class_="told") if facts else Markup(),
    )
    footer = tag("footer", tag("p", f"Tables show at most {most} rows; all are in the JSON form."))
    body = tag("body", header, tag("main", notes, join(*parts)), footer)
    return "<!doctype html>\n" + tag("html", head, body, lang="en") + "\n"
