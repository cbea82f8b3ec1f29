"""Tables of the page: rows that figures come from, and the parity matrix."""

from collections.abc import Mapping, Sequence
from itertools import groupby

from sluicegate_reports.cells import is_number, left_out, texts
from sluicegate_reports.missing import cells
from sluicegate_reports.page.markup import Markup, join, tag
from sluicegate_reports.quantities import quantity
from sluicegate_reports.results import MARKS, Arm, Cell, Origin, Results, RunFacts, Table, Verdict

_FOLDED = 8
"""Tables with more rows than that are shown on demand."""

_MANY = 6
"""A matrix with more arms than that is set in smaller type."""


def badge(verdict: Verdict) -> Markup:
    """A verdict: its sign and its text; colour comes on top."""
    return tag("span", tag("i", MARKS[verdict], aria_hidden="true"), verdict.text, class_=f"badge {verdict}")


def table(shown: Table, run: RunFacts, anchor: str, most: int) -> Markup:
    """A table of rows, folded if it is long.

    :param anchor: its id.
    :param most: rows.
    """
    title = shown.title or shown.name or "Rows"
    rows = list(texts(shown, run, most))
    note = left_out(shown, len(rows)) or f"{len(rows):,} row{'s' if len(rows) != 1 else ''}"
    head = [tag("th", name, scope="col") for name in shown.columns]
    own = len(shown.origins) == len(shown.rows) and not any(origin.name for origin in shown.origins)
    if own:
        head.append(tag("th", "rows", scope="col"))
    body = [
        tag(
            "tr",
            *(tag("td", text, class_="n" if is_number(value) else None) for text, value in row),
            tag("td", tag("a", "Parquet", href=f"#{anchor}-{place}-from")) if own else Markup(),
            id=f"{anchor}-{place}",
        )
        for place, row in enumerate(rows)
    ]
    made = tag(
        "table",
        tag("caption", title, class_="unseen"),
        tag("thead", tag("tr", *head)),
        tag("tbody", *body),
        id=anchor,
    )
    summary = tag("summary", tag("span", title), " ", tag("small", note))
    scrolled = tag("div", made, class_="scroll", tabindex="0", role="region", aria_label=title)
    origins = _origins(shown.origins[: most if own else None], anchor)
    return join(tag("details", summary, scrolled, open=len(rows) <= _FOLDED), origins)


def _origins(origins: Sequence[Origin], anchor: str) -> Markup:
    """Where the rows of a table lie, in a list: the first item is of its first row."""
    items = [
        tag(
            "li",
            f"{origin.name}: " if origin.name else "",
            tag("code", origin.path),
            " where ",
            tag("code", origin.where),
            id=f"{anchor}-{place}-from",
        )
        for place, origin in enumerate(origins)
    ]
    if not items:
        return Markup()
    summary = tag("summary", "Where these rows lie, in the directory of the run")
    return tag("details", summary, tag("ol", *items), class_="origins")


def matrix(results: Results, anchors: Mapping[str, str], sections: Mapping[str, str], most: int) -> Markup:
    """Policy by system and door.

    :param anchors: ids of tables by their name.
    :param sections: ids of sections by their policy.
    :param most: rows that tables show.
    """
    # Doors of one system stand together, systems in the order in which they first come.
    order = list(dict.fromkeys(arm.system for arm in results.arms()))
    arms = sorted(results.arms(), key=lambda arm: order.index(arm.system))
    found = cells(results)
    body = []
    for policy in results.policies():
        folding = _folding(policy)
        name = tag("a", folding, href=f"#{sections[policy]}") if policy in sections else folding
        row = [
            _cell(found[policy, arm.system, arm.door], arm, anchors, sections.get(policy, ""), most)
            for arm in arms
        ]
        body.append(tag("tr", tag("th", tag("code", name), scope="row"), *row))
    made = tag(
        "table",
        tag("caption", "Each policy on each system, by door", class_="unseen"),
        tag("thead", tag("tr", *_systems(arms, results.run)), tag("tr", *_doors(arms, results.run))),
        tag("tbody", *body),
        class_="matrix many" if len(arms) > _MANY else "matrix",
    )
    return tag(
        "div", made, class_="scroll", tabindex="0", role="region", aria_label="Parity matrix, can be scrolled"
    )


def _folding(policy: str) -> Markup:
    """A name that may be folded after an underscore."""
    first, *others = policy.split("_")
    return join(first, *(part for other in others for part in (Markup("_<wbr>"), other)))


def _systems(arms: list[Arm], run: RunFacts) -> list[Markup]:
    heads = [tag("th", "Policy", scope="col", rowspan="2")]
    for system, group in groupby(arms, key=lambda arm: arm.system):
        label = run.label(system)
        heads.append(tag("th", system, _note(label), scope="colgroup", colspan=str(len(list(group)))))
    return heads


def _doors(arms: list[Arm], run: RunFacts) -> list[Markup]:
    """What the head of the whole system says is not said again."""
    return [
        tag("th", arm.door, _note("" if arm.label == run.label(arm.system) else arm.label), scope="col")
        for arm in arms
    ]


def _note(label: str) -> Markup:
    return tag("small", label) if label else Markup()


def _cell(cell: Cell, arm: Arm, anchors: Mapping[str, str], section: str, most: int) -> Markup:
    place = anchors.get(cell.rows) or section
    if cell.row is not None and cell.row < most and cell.rows in anchors:
        place = f"{place}-{cell.row}"
    sign = badge(cell.verdict)
    linked = tag("a", sign, href=f"#{place}") if place else sign
    parts: list[str] = [linked]
    if cell.figure is not None:
        parts.append(tag("b", quantity(cell.figure, cell.unit)))
    if cell.bound is not None:
        parts.append(tag("small", f"bound {quantity(cell.bound, cell.unit)}"))
    if cell.text:
        parts.append(tag("small", cell.text))
    return tag("td", tag("div", join(*parts)), data_arm=arm.name)
