"""Table cells as text, the same in the page, in Markdown and in the terminal."""

import re
from collections.abc import Iterator, Sequence
from dataclasses import replace

from sluicegate_reports.quantities import NOT_MEASURED, Scaled, number, scaled
from sluicegate_reports.results import Chart, Kind, RunFacts, Table, Value

_UNIT = re.compile(r"(.+) \(([^()]+)\)")
_SYSTEM = "system"
_DOOR = "door"
_MEASURE = "measure"


def is_number(value: Value) -> bool:
    """Whether a cell is right-aligned."""
    return isinstance(value, int | float) and not isinstance(value, bool)


def texts(table: Table, run: RunFacts, most: int) -> Iterator[list[tuple[str, Value]]]:
    """Text and value of each cell, row by row; a system has its label beside it.

    :param most: rows.
    """
    system = table.columns.index(_SYSTEM) if _SYSTEM in table.columns else None
    door = table.columns.index(_DOOR) if _DOOR in table.columns else None
    for row in table.rows[:most]:
        told = [(table.untold if value is None else cell_text(value), value) for value in row]
        if system is not None:
            name = told[system][0]
            label = run.arm(name, told[door][0]).label if door is not None else run.label(name)
            told[system] = (f"{name} ({label})" if label else name, row[system])
        yield told


def scaled_columns(table: Table) -> Table:
    """A table whose columns are in units of a fitting size, as its charts are; shares are percents.

    A column has its unit in brackets at the end of its name. In a table with a column `measure` each row
    tells its own there.
    """
    columns, values = list(table.columns), [list(row) for row in table.rows]
    if _MEASURE in columns:
        for row in values:
            _scale_row(row, columns.index(_MEASURE))
    for place, name in enumerate(columns):
        found = _UNIT.fullmatch(name)
        measured = [row[place] for row in values if is_number(row[place])]
        if found is None or not measured:
            continue
        fitting = _fitting(found[2], measured)
        if fitting.divisor != 1.0:
            columns[place] = f"{found[1]} ({fitting.unit})"
            for row in values:
                value = row[place]
                if isinstance(value, int | float) and not isinstance(value, bool):
                    row[place] = value / fitting.divisor
    return replace(table, columns=tuple(columns), rows=tuple(tuple(row) for row in values))


def _fitting(unit: str, measured: Sequence[Value]) -> Scaled:
    if unit == "share":
        return Scaled("%", 0.01)
    return scaled(unit, max(abs(float(value or 0)) for value in measured))


def _scale_row(row: list[Value], measure: int) -> None:
    """Convert the numbers of a measure to a fitting unit and name it in the measure."""
    found = _UNIT.fullmatch(str(row[measure]))
    numbers = [place for place in range(measure + 1, len(row)) if is_number(row[place])]
    if found is None or not numbers:
        return
    fitting = _fitting(found[2], [row[place] for place in numbers])
    row[measure] = f"{found[1]} ({fitting.unit})"
    for place in numbers:
        value = row[place]
        if isinstance(value, int | float):
            row[place] = value / fitting.divisor


def cell_text(value: Value) -> str:
    """One cell."""
    if value is None:
        return NOT_MEASURED
    if isinstance(value, bool):
        return "yes" if value else "no"
    return number(value) if isinstance(value, int | float) else value


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
    columns = [_SYSTEM, _DOOR, *(["series"] if named else []), chart_place(chart, x_name), f"value{unit}"]
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


def chart_place(chart: Chart, x_name: str) -> str:
    """Heading of the column with the position of a point."""
    return "of" if chart.categories else x_name


def _category(categories: Sequence[str], x: float) -> str:
    index = round(x)
    return categories[index] if 0 <= index < len(categories) else cell_text(x)
