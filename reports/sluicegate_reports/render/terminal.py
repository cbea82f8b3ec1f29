"""The summary in a terminal: verdict, thresholds, gaps, the matrix; for a log all tables."""

from collections.abc import Iterator
from io import StringIO

from rich import box
from rich.console import Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from sluicegate.output.console import Console
from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.results import Cell, Results, RunFacts, Table
from sluicegate_reports.model.verdict import MARKS, Verdict
from sluicegate_reports.render.cells import is_number, left_out, scaled_columns, texts
from sluicegate_reports.render.missing import NOTHING, cells, counted, gaps, heading, lead
from sluicegate_reports.render.readable import readable

_STYLES = {
    Verdict.NOT_APPLICABLE: "dim",
    Verdict.EXACT: "green",
    Verdict.WITHIN: "yellow",
    Verdict.UNCONFIRMED: "yellow",
    Verdict.NOT_REACHED: "magenta",
    Verdict.NOT_PLAYED: "magenta",
    Verdict.MISSING: "magenta",
    Verdict.DISPUTED: "red",
    Verdict.OFF: "bold red",
}
_WIDTH = 150
"""Of what is not printed to a terminal."""
_USUAL = 80
"""Columns below which policies' names are folded too."""
_ROOMY = 100
"""From this width on, thresholds are explained in words too."""
_LONGEST = 40
"""Policies' names up to that long are not folded."""
_COLUMN = 19
"""Columns that one arm takes at most; where there is no room for all, each arm gets a line."""
_ROWS = 50
"""Rows shown of one table; a note counts the others."""


def show(results: Results, console: Console | None = None) -> None:
    """Print the summary.

    :param console: where to; by default standard output, 150 columns wide where that is no terminal.
    """
    if console is None:
        console = Console()
        if not console.is_terminal:
            console = Console(width=_WIDTH)
    console.print(summary(results, console.width))


def as_text(results: Results, width: int = _WIDTH) -> str:
    """The summary without colours.

    :param width: columns.
    """
    text = StringIO()
    show(results, Console(file=text, width=width, no_color=True))
    return text.getvalue()


def summary(results: Results, width: int) -> RenderableType:
    """Everything that is printed.

    :param width: columns that there are.
    """
    results = readable(results)
    parts: list[RenderableType] = [_head(results)]
    if results.thresholds:
        parts += ["", _thresholds(results, explained=width >= _ROOMY)]
    if heading(results):
        parts += ["", _missing(results)]
    if results.policies():
        wide = width >= _policy_width(results) + 4 + _COLUMN * len(results.arms())
        parts += ["", _matrix(results) if wide else _lines(results, width)]
    if results.verdict is None:
        for table in (table for section in results.sections for table in section.tables):
            parts += ["", *_rows(scaled_columns(table), results.run)]
    return Group(*parts)


def _head(results: Results) -> Text:
    run = results.run
    head = Text()
    head.append(f"{run.title or run.run}\n", "bold")
    if results.verdict is None:
        facts = [f"{name}: {value}" for name, value in results.facts.items()]
        return head.append(lead(results)).append("".join(f"\n{fact}" for fact in facts), "dim")
    head.append_text(_sign(results.verdict))
    head.append(f": {lead(results)}\n")
    head.append(f"{counted(results)}; run {run.run}", "dim")
    return head


def _sign(verdict: Verdict) -> Text:
    return Text(f"{MARKS[verdict]} {verdict.text}", _STYLES[verdict])


def _grid(title: str) -> Grid:
    return Grid(title=title, title_justify="left", box=box.ROUNDED)


def _thresholds(results: Results, explained: bool) -> Grid:
    grid = _grid("Thresholds")
    grid.add_column("", no_wrap=True)
    grid.add_column("measure", overflow="fold")
    for name in ("measured", "at most"):
        grid.add_column(name, justify="right")
    if explained:
        grid.add_column("", overflow="fold")
    for threshold in results.thresholds:
        sign = Text("✓ passed", "green") if threshold.passed else Text("✕ failed", "bold red")
        measured = quantity(threshold.measured, threshold.unit)
        bound = quantity(threshold.bound, threshold.unit)
        words = [Text(threshold.text)] if explained else []
        grid.add_row(sign, Text(threshold.name), Text(measured), Text(bound), *words)
    return grid


def _missing(results: Results) -> Text:
    sentences = gaps(results)
    if not sentences:
        return Text(NOTHING)
    text = Text(heading(results), "bold")
    for line in sentences:
        text.append("\n! ", "bold magenta").append(line, "default not bold")
    return text


def _rows(table: Table, run: RunFacts) -> Iterator[RenderableType]:
    rows = list(texts(table, run, _ROWS))
    if not rows:
        yield Text(f"{table.title}: none")
        return
    grid = _grid(table.title)
    for index, name in enumerate(table.columns):
        right = any(is_number(row[index][1]) for row in rows)
        grid.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in rows:
        grid.add_row(*(Text(text) for text, _ in row))
    yield grid
    if left := left_out(table, len(rows)):
        yield Text(f"{left}; all of them are in the JSON form", "dim")


def _verdict(cell: Cell) -> Text:
    """A cell's verdict with its figure; the reason for a missing one is listed under what is missing."""
    text = _sign(cell.verdict)
    if cell.figure is not None:
        text.append(f"\n{quantity(cell.figure, cell.unit)}", "default not bold")
    return text


def _policy_width(results: Results) -> int:
    return min(_LONGEST, max(len(policy) for policy in results.policies()))


def _matrix(results: Results) -> Grid:
    grid = _grid("Each policy on each system, by door")
    grid.add_column("policy", overflow="fold", min_width=_policy_width(results))
    arms = results.arms()
    for arm in arms:
        note = f"\n{arm.label}" if arm.label else ""
        grid.add_column(Text(f"{arm.system}\n{arm.door}{note}"), overflow="fold", max_width=_COLUMN - 3)
    cell_of = cells(results)
    for policy in results.policies():
        row = (_verdict(cell_of[policy, arm.system, arm.door]) for arm in arms)
        grid.add_row(Text(policy), *row, end_section=True)
    return grid


def _lines(results: Results, width: int) -> Grid:
    """The matrix for a narrow terminal."""
    grid = _grid("Each policy on each system, by door")
    grid.add_column("policy", overflow="fold", min_width=_policy_width(results) if width >= _USUAL else None)
    grid.add_column("system and door", overflow="fold")
    grid.add_column("verdict", overflow="fold")
    cell_of = cells(results)
    arms = results.arms()
    for policy in results.policies():
        for index, arm in enumerate(arms):
            name = Text("" if index else policy)
            verdict = _verdict(cell_of[policy, arm.system, arm.door])
            grid.add_row(name, Text(arm.name), verdict, end_section=index == len(arms) - 1)
    return grid
