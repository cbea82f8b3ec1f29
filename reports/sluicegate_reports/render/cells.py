"""Table cells as text, the same in the page, in Markdown and in the terminal."""

import re
import shlex
from collections.abc import Iterator, Sequence
from dataclasses import replace
from typing import TypeGuard

from sluicegate_reports.model.quantities import NOT_MEASURED, Scaled, number, scaled
from sluicegate_reports.model.results import Chart, Kind, Origin, RunFacts, Table, Value

_UNIT = re.compile(r"(.+) \(([^()]+)\)")
_SYSTEM = "system"
_DOOR = "door"
_MEASURE = "measure"


def is_number(value: Value) -> TypeGuard[float]:
    """Whether a cell is right-aligned."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def texts(table: Table, run: RunFacts, most: int) -> Iterator[list[tuple[str, Value]]]:
    """Text and value of each cell, row by row; a system has its label beside it.

    :param most: rows.
    """
    system = table.columns.index(_SYSTEM) if _SYSTEM in table.columns else None
    door = table.columns.index(_DOOR) if _DOOR in table.columns else None
    for row in table.rows[:most]:
        cells = [(table.untold if value is None else cell_text(value), value) for value in row]
        if system is not None:
            name = cells[system][0]
            label = run.arm(name, cells[door][0]).label if door is not None else run.label(name)
            cells[system] = (f"{name} ({label})" if label else name, row[system])
        yield cells


def scaled_columns(table: Table) -> Table:
    """A table whose columns are in units of a fitting size, as its charts are; shares are percents.

    A column has its unit in brackets at the end of its name. In a table with a column `measure` each row
    tells its own there.
    """
    columns, values = list(table.columns), [list(row) for row in table.rows]
    if _MEASURE in columns:
        measure = columns.index(_MEASURE)
        for row in values:
            if isinstance(name := row[measure], str):
                row[measure], row[measure + 1 :] = _fitted(name, row[measure + 1 :])
    by_column = [_fitted(name, list(column)) for name, *column in zip(columns, *values, strict=True)]
    rows = zip(*(column for _, column in by_column), strict=True)
    return replace(table, columns=tuple(name for name, _ in by_column), rows=tuple(rows))


def _fitted(name: str, values: list[Value]) -> tuple[str, list[Value]]:
    """Numbers in a unit of a fitting size, where their name ends with a unit, and the name with that unit."""
    match = _UNIT.fullmatch(name)
    numbers = [value for value in values if is_number(value)]
    if match is None or not numbers:
        return name, values
    largest = max(abs(value) for value in numbers)
    fitting = Scaled("%", 0.01) if match[2] == "share" else scaled(match[2], largest)
    if fitting.divisor != 1.0:
        values = [value / fitting.divisor if is_number(value) else value for value in values]
    return f"{match[1]} ({fitting.unit})", values


def cell_text(value: Value) -> str:
    """One cell."""
    if value is None:
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if is_number(value) else str(value)


def command(origin: Origin) -> str:
    """What shows the rows of an origin, in the directory of the run."""
    query = f"SELECT * FROM '{origin.path}' WHERE {origin.where}"  # noqa: S608 - it is shown, and run by nobody
    plain = not set('"$`\\!') & set(query)
    return f'duckdb -c "{query}"' if plain else f"duckdb -c {shlex.quote(query)}"


def left_out(table: Table, shown: int) -> str:
    """A note on how many rows are shown, if not all; else empty."""
    total = max(table.total or 0, len(table.rows))
    return f"{shown:,} of {total:,} rows" if shown < total else ""


def of_chart(chart: Chart) -> Table:
    """The points of a chart as rows."""
    x_name = "share at or below" if chart.kind is Kind.QUANTILES else chart.x_unit or "x"
    unit = f" ({chart.unit})" if chart.unit else ""
    bounds = any(point.low is not None for series in chart.series for point in series.points)
    named = any(series.name for series in chart.series)
    label = "of" if chart.categories else x_name
    columns = [_SYSTEM, _DOOR, *(["series"] if named else []), label, f"value{unit}"]
    rows: list[tuple[Value, ...]] = []
    for series in chart.series:
        for point in series.points:
            x: Value = _category(chart.categories, point.x) if chart.categories else point.x
            ends: list[Value] = [point.low, point.high] if bounds else []
            name: list[Value] = [series.name] if named else []
            rows.append((series.system, series.door, *name, x, point.y, *ends))
    ends_names = [f"low{unit}", f"high{unit}"] if bounds else []
    origins = tuple(
        replace(series.origin, name=f"{series.system} {series.door} {series.name}".rstrip())
        for series in chart.series
        if series.origin is not None
    )
    return Table((*columns, *ends_names), tuple(rows), title=f"{chart.metric}: points", origins=origins)


def _category(categories: Sequence[str], x: float) -> str:
    index = round(x)
    return categories[index] if 0 <= index < len(categories) else cell_text(x)
