"""The trend of several comparisons: what became better or worse from one to the next, and over all."""

from collections import Counter
from collections.abc import Iterator, Sequence
from itertools import pairwise

from sluicegate_reports.model.differences import (
    Change,
    cell_text,
    change_between,
    none,
    run_text,
)
from sluicegate_reports.model.results import Cell, Results, Table, Value, of_log

_Key = tuple[str, str, str]


def trend(comparisons: Sequence[Results]) -> Results:
    """Line comparisons up by the time at which their runs began.

    :param comparisons: at least two.
    :return: each cell of the matrix from first to last, each figure of each run, and the threshold
        `worse_cells`: cells that are worse in the last run than in the first.
    """
    ordered = sorted(comparisons, key=lambda each: each.run.started.timestamp() if each.run.started else 0.0)
    cells = [each.cells() for each in ordered]
    keys = list(dict.fromkeys(key for matrix in cells for key in matrix))
    over_all = [(key, [matrix.get(key) for matrix in cells]) for key in keys]
    changes = [change_between(several[0], several[-1]) for _, several in over_all]
    order = list(Change)
    rows = sorted(
        (_row(key, several, change) for (key, several), change in zip(over_all, changes, strict=True)),
        key=lambda row: order.index(Change(str(row[0]))),
    )
    count = Counter(changes)
    said = ", ".join(f"{count[change]} {change}" for change in Change if count[change])
    return of_log(
        title=f"The trend of {len(ordered)} comparisons",
        summary=f"{len(keys)} cells of the matrix from the first run to the last: {said or 'none'}.",
        facts={"first": run_text(ordered[0]), "last": run_text(ordered[-1])},
        tables=(
            Table(_OVERALL, tuple(rows), "trend", "Cells of the matrix, from the first run to the last"),
            Table(_FIGURES, tuple(_figures(ordered, over_all)), "figures", "Each run"),
        ),
        notes=(),
        thresholds=(
            none(
                "worse_cells",
                count[Change.WORSE],
                "cells of the matrix that are worse in the last run than in the first",
                "trend",
            ),
        ),
    )


_OVERALL = ("change", "policy", "system", "door", "first", "last", "runs", "worse", "better")
_FIGURES = ("run", "policy", "system", "door", "verdict", "figure", "unit", "p99 (ms)", "change")


def _row(key: _Key, several: Sequence[Cell | None], change: Change) -> tuple[Value, ...]:
    steps = Counter(change_between(one, other) for one, other in pairwise(several))
    known = sum(cell is not None for cell in several)
    ends = (cell_text(several[0]), cell_text(several[-1]))
    return (change.value, *key, *ends, known, steps[Change.WORSE], steps[Change.BETTER])


def _figures(
    ordered: Sequence[Results], over_all: Sequence[tuple[_Key, Sequence[Cell | None]]]
) -> Iterator[tuple[Value, ...]]:
    for key, several in over_all:
        before: Cell | None = None
        for results, cell in zip(ordered, several, strict=True):
            if cell is not None:
                p99_ms = cell.cost.p99_ms if cell.cost is not None else None
                change = change_between(before, cell).value
                yield (results.run.run, *key, cell.verdict.text, cell.figure, cell.unit, p99_ms, change)
                before = cell
