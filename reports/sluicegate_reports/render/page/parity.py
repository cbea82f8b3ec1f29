"""The parity matrix: each policy on each system, by door."""

from collections.abc import Iterable, Mapping
from itertools import groupby

from sluicegate_reports.model.quantities import number, together
from sluicegate_reports.model.results import Arm, Cell, Cost, Results, RunFacts
from sluicegate_reports.model.verdict import MARKS, Verdict
from sluicegate_reports.registry import door
from sluicegate_reports.render.missing import cells
from sluicegate_reports.render.page.markup import Markup, grid, join, scrolled, tag

_REASONS = "reasons"
"""Name of the table that has all reasons."""
_MANY = 6
"""Arms above which the matrix is set in smaller type."""


def badge(verdict: Verdict) -> Markup:
    """A verdict by sign and text; its colour is only an addition."""
    return tag("span", tag("i", MARKS[verdict], aria_hidden="true"), verdict.text, class_=f"badge {verdict}")


def matrix(results: Results, anchors: Mapping[str, str], sections: Mapping[str, str], most: int) -> Markup:
    """Policy by system and door.

    :param anchors: ids of tables by their name.
    :param sections: ids of sections by their policy.
    :param most: rows that tables show.
    """
    # Doors of one system stand together, systems in the order in which they first come.
    order = list(dict.fromkeys(arm.system for arm in results.arms()))
    arms = sorted(results.arms(), key=lambda arm: order.index(arm.system))
    cell_of = cells(results)
    body = []
    for policy in results.policies():
        folding = _folding(policy)
        name = tag("a", folding, href=f"#{sections[policy]}") if policy in sections else folding
        native = {
            arm.system: cell_of[policy, arm.system, arm.door].cost for arm in arms if not door(arm.door).gate
        }
        row = [
            _cell(cell_of[policy, arm.system, arm.door], arm, anchors, sections.get(policy, ""), most, native)
            for arm in arms
        ]
        body.append(tag("tr", tag("th", tag("code", name), scope="row"), *row))
    reasons = _not_applicable(cell_of.values(), results.run)
    head = [tag("tr", *_systems(arms, results.run)), tag("tr", *_doors(arms, results.run))]
    style = "matrix many" if len(arms) > _MANY else "matrix"
    made = grid("Each policy on each system, by door", head, body, style)
    return join(scrolled("Parity matrix, can be scrolled", made), reasons)


def _not_applicable(cells_: Iterable[Cell], run: RunFacts) -> Markup:
    """Reasons for cells without a verdict, each given once."""
    reasons: dict[str, dict[str, list[str]]] = {}
    for cell in cells_:
        if cell.verdict is Verdict.NOT_APPLICABLE:
            arms = reasons.setdefault(cell.text or "the run does not tell why", {})
            arms.setdefault(run.arm(cell.system, cell.door).name, []).append(cell.policy)
    if not reasons:
        return Markup()
    items = []
    for reason, arms in reasons.items():
        whose = "; ".join(f"{arm}: {', '.join(policies)}" for arm, policies in arms.items())
        items.append(tag("li", reason, tag("small", whose)))
    sign = MARKS[Verdict.NOT_APPLICABLE]
    return join(tag("h3", f"{sign} Not applicable", class_="why"), tag("ul", *items, class_="reasons"))


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
    """Omit what the heading of the system already says."""
    return [
        tag("th", arm.door, _note("" if arm.label == run.label(arm.system) else arm.label), scope="col")
        for arm in arms
    ]


def _note(label: str) -> Markup:
    return tag("small", label) if label else Markup()


def _cell(
    cell: Cell,
    arm: Arm,
    anchors: Mapping[str, str],
    section: str,
    most: int,
    native: Mapping[str, Cost | None],
) -> Markup:
    if cell.verdict is Verdict.NOT_APPLICABLE:
        none = tag("span", tag("i", MARKS[cell.verdict], aria_hidden="true"), class_="none")
        return tag("td", tag("div", none, tag("span", cell.verdict.text, class_="unseen")), data_arm=arm.name)
    anchor = anchors.get(cell.rows) or section
    if cell.row is not None and cell.row < most and cell.rows in anchors:
        anchor = f"{anchor}-{cell.row}"
    sign = badge(cell.verdict)
    linked = tag("a", sign, href=f"#{anchor}") if anchor else sign
    parts: list[str] = [linked]
    figure, bound = together([cell.figure, cell.bound], cell.unit)
    if cell.figure is not None:
        parts.append(tag("b", figure))
    if cell.bound is not None:
        parts.append(tag("small", f"bound {bound}"))
    if cell.cost is not None:
        beside = {"native": native.get(cell.system) if door(cell.door).gate else None, "direct": cell.direct}
        parts.append(_cost(cell.cost, beside))
    if cell.text and cell.verdict is not Verdict.EXACT:
        parts.append(_why(cell.text, anchors.get(_REASONS, "")))
    return tag("td", tag("div", join(*parts)), data_arm=arm.name)


def _why(text: str, reasons: str) -> Markup:
    """The reason; its first part where a table of the page has all of it.

    :param reasons: id of that table; empty for none.
    """
    first, _, more = text.partition("; ")
    if not reasons or not more:
        return tag("small", text)
    return tag("small", f"{first}; ", tag("a", "more", href=f"#{reasons}"))


def _cost(cost: Cost, beside: Mapping[str, Cost | None]) -> Markup:
    """What a door costs, and beside it what others do."""
    lines = [_costs(cost), *(f"{name} {_costs(other)}" for name, other in beside.items() if other)]
    return join(*(tag("small", line, class_="cost") for line in lines))


def _costs(cost: Cost) -> str:
    # A reader compares them, so they have two digits and one unit.
    p50, p99 = (number(float(f"{value:.2g}")) for value in (cost.p50_ms, cost.p99_ms))
    return f"{p50} / {p99} ms, {number(round(cost.messages_per_s))}/s"
