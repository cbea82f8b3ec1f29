"""A report as Markdown, for a change request or a wiki: all tables, no charts."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence

from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.results import Cell, Results, RunFacts, Section, Table
from sluicegate_reports.model.verdict import MARKS
from sluicegate_reports.render.cells import is_number, left_out, of_chart, scaled_columns, texts
from sluicegate_reports.render.missing import NOTHING, cells, counted, gaps, heading, lead
from sluicegate_reports.render.readable import readable

_ROWS = 50
"""Rows shown of one table; a note counts the others."""
_SPECIAL = re.compile(r"([\\`*_\[\]<>|#])")


def markdown(results: Results) -> str:
    """The whole report."""
    results = readable(results)
    run = results.run
    blocks = [f"# {_text(run.title or run.run)}", _lead(results)]
    if results.verdict is not None or results.thresholds:
        blocks += _thresholds(results)
    if heading(results):
        lines = "\n".join(f"- {_text(line)}" for line in gaps(results))
        blocks += [f"## {heading(results)}", lines or NOTHING]
    if results.verdict is not None:
        blocks += _matrix(results)
    for section in results.sections:
        blocks += _section(section, run)
    blocks += _facts(run) if results.verdict is not None else _pairs(results.facts)
    return "\n\n".join(blocks) + "\n"


def _lead(results: Results) -> str:
    verdict = results.verdict
    if verdict is None:
        return _text(lead(results))
    return f"**{MARKS[verdict]} {verdict.text}**: {_text(lead(results))} ({counted(results)})"


def _text(text: str) -> str:
    """Text that Markdown shows as it is, on one line."""
    return _SPECIAL.sub(r"\\\1", " ".join(text.split()))


def _table(head: Sequence[str], rows: Iterable[Sequence[str]], right: Sequence[bool] = ()) -> str:
    marks = ["---:" if index < len(right) and right[index] else "---" for index in range(len(head))]
    lines = [[_text(name) for name in head], marks, *rows]
    return "\n".join(f"| {' | '.join(cells)} |" for cells in lines)


def _thresholds(results: Results) -> Iterator[str]:
    yield "## Thresholds"
    if not results.thresholds:
        yield "No thresholds were set."
        return
    rows = [
        (
            "✓ passed" if threshold.passed else "✕ failed",
            _text(threshold.name),
            quantity(threshold.measured, threshold.unit),
            quantity(threshold.bound, threshold.unit),
            _text(threshold.text),
        )
        for threshold in results.thresholds
    ]
    yield _table(("", "measure", "measured", "at most", ""), rows, (False, False, True, True))


def _matrix(results: Results) -> Iterator[str]:
    yield "## Parity"
    if not results.policies():
        yield "No policy was compared."
        return
    arms, cell_of = results.arms(), cells(results)
    rows = [
        [_text(policy), *(_verdict(cell_of[policy, arm.system, arm.door]) for arm in arms)]
        for policy in results.policies()
    ]
    yield _table(["policy", *(arm.name for arm in arms)], rows)


def _verdict(cell: Cell) -> str:
    parts = [f"{MARKS[cell.verdict]} {cell.verdict.text}"]
    if cell.figure is not None:
        parts.append(f"**{_text(quantity(cell.figure, cell.unit))}**")
    if cell.text:
        parts.append(_text(cell.text))
    return ", ".join(parts)


def _section(section: Section, run: RunFacts) -> Iterator[str]:
    yield f"## {_text(section.policy)}"
    if section.text:
        yield _text(section.text)
    named = {table.name for table in section.tables if table.name}
    tables = [*section.tables, *(of_chart(chart) for chart in section.charts if chart.rows not in named)]
    for table in tables:
        if table.title != section.policy:
            yield f"### {_text(table.title or table.name or 'Rows')}"
        yield from _rows(table, run)
    if not tables:
        yield "There is nothing in the results of this policy."


def _rows(table: Table, run: RunFacts) -> Iterator[str]:
    table = scaled_columns(table)
    rows = list(texts(table, run, _ROWS))
    right = [any(is_number(row[index][1]) for row in rows) for index in range(len(table.columns))]
    yield _table(table.columns, ([_text(text) for text, _ in row] for row in rows), right)
    left = left_out(table, len(rows))
    if left:
        yield f"{left}; all of them are in the JSON form."


def _facts(run: RunFacts) -> Iterator[str]:
    yield "## The run"
    yield from _pairs({"run": run.run, **run.versions, **run.machine})
    yield from _clocks(run)
    for title, text in (
        ("Commands", "\n".join(run.commands)),
        ("Scenario", run.scenario),
        ("Policies", run.policies),
    ):
        yield f"### {title}"
        yield _fenced(text) if text.strip() else "The run does not tell."


def _pairs(values: Mapping[str, str]) -> Iterator[str]:
    if values:
        yield _table(("", ""), [(_text(name), _text(value)) for name, value in values.items()])


def _clocks(run: RunFacts) -> Iterator[str]:
    if not run.skews:
        return
    rows = [
        (
            _text(skew.client),
            _text(run.arm(skew.system, skew.door).name),
            quantity(skew.offset_us, "us"),
            quantity(skew.uncertainty_us, "us"),
            _text(skew.gate),
            _text(skew.host),
            _text(skew.basis or "the run does not tell"),
        )
        for skew in run.skews[:_ROWS]
    ]
    yield "### Clocks"
    yield _table(("client", "arm", "client minus gate", "±", "gate", "host", "rests on"), rows)
    if len(run.skews) > _ROWS:
        yield f"{_ROWS} of {len(run.skews):,} rows; all of them are in the JSON form."


def _fenced(text: str) -> str:
    """A block of code; its fence is longer than any in the text."""
    longest = max((len(ticks) for ticks in re.findall(r"`+", text)), default=0)
    fence = "`" * max(3, longest + 1)
    return f"{fence}\n{text.rstrip()}\n{fence}"
