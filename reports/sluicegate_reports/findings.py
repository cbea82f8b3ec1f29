"""What a job found, in tables: for the terminal, as Markdown and as JSON."""

import json
from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, field

from rich import box
from rich.console import Console, Group, RenderableType
from rich.table import Table as Grid
from rich.text import Text

from sluicegate_reports.cells import cell_text, is_number, left_out
from sluicegate_reports.readable import readable
from sluicegate_reports.results import Table

VERSION = 1
"""Of the JSON form."""
_ROWS = 50
"""Of one table, where people read it; what is left out is said, and the JSON form has all."""
_WIDTH = 150
_SPECIAL = "\\`*_[]<>|#"


@dataclass(frozen=True, slots=True)
class Findings:
    """Everything that a job has to say."""

    title: str
    summary: str
    """One or two sentences."""
    facts: Mapping[str, str] = field(default_factory=dict)
    """What was read and how, by name."""
    tables: tuple[Table, ...] = ()
    notes: tuple[str, ...] = ()
    """What is missing, left out or only known within bounds: shown before any figure."""


def to_json(findings: Findings) -> str:
    """All of it; numbers are in the units that the columns' names tell."""
    return json.dumps({"version": VERSION, **asdict(findings)}, indent=1, default=str) + "\n"


def markdown(findings: Findings) -> str:
    """All of it, tables up to 50 rows."""
    findings = readable(findings)
    blocks = [f"# {_plain(findings.title)}", _plain(findings.summary)]
    if findings.notes:
        blocks.append("\n".join(f"- {_plain(note)}" for note in findings.notes))
    for table in findings.tables:
        blocks += _markdown_table(table)
    if findings.facts:
        rows = [f"| {_plain(name)} | {_plain(value)} |" for name, value in findings.facts.items()]
        blocks.append("\n".join(["| | |", "| --- | --- |", *rows]))
    return "\n\n".join(blocks) + "\n"


def show(findings: Findings, console: Console | None = None) -> None:
    """Print it; 150 columns wide where standard output is no terminal."""
    if console is None:
        console = Console(highlight=False, markup=False)
        if not console.is_terminal:
            console = Console(highlight=False, markup=False, width=_WIDTH)
    console.print(Group(*_parts(findings)))


def _parts(findings: Findings) -> Iterator[RenderableType]:
    findings = readable(findings)
    yield Text(findings.title, "bold")
    yield Text(findings.summary)
    for name, value in findings.facts.items():
        yield Text(f"{name}: {value}", "dim")
    for note in findings.notes:
        yield Text("! ", "bold magenta").append(note, "default not bold")
    for table in findings.tables:
        yield ""
        yield _grid(table) if table.rows else Text(f"{table.title}: none")
        left = left_out(table, min(len(table.rows), _ROWS))
        if left:
            yield Text(f"{left}; all of them are in the JSON form", "dim")


def _grid(table: Table) -> Grid:
    grid = Grid(title=table.title, title_justify="left", box=box.ROUNDED)
    for place, name in enumerate(table.columns):
        right = any(is_number(row[place]) for row in table.rows)
        grid.add_column(name, justify="right" if right else "left", overflow="fold")
    for row in table.rows[:_ROWS]:
        grid.add_row(*(Text(_told(value)) for value in row))
    return grid


def _markdown_table(table: Table) -> Iterator[str]:
    yield f"## {_plain(table.title or table.name)}"
    marks = [
        "---:" if any(is_number(row[i]) for row in table.rows) else "---" for i in range(len(table.columns))
    ]
    lines = [[_plain(name) for name in table.columns], marks]
    lines += [[_plain(_told(value)) for value in row] for row in table.rows[:_ROWS]]
    yield "\n".join(f"| {' | '.join(line)} |" for line in lines)
    left = left_out(table, min(len(table.rows), _ROWS))
    if left:
        yield f"{left}; all of them are in the JSON form."


def _told(value: object) -> str:
    """A cell; what is not known, such as the principals of a window, is left empty."""
    return "" if value is None else cell_text(value)  # type: ignore[arg-type]


def _plain(text: str) -> str:
    return "".join(f"\\{sign}" if sign in _SPECIAL else sign for sign in " ".join(text.split()))
