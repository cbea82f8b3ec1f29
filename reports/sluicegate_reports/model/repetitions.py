"""Repeated runs, as `run-1`, `run-2` and so on in one directory: medians with intervals."""

import math
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import combinations
from pathlib import Path
from statistics import median

from sluicegate_reports.model import counted
from sluicegate_reports.model.listing import Listing, listing
from sluicegate_reports.model.locations import LocationLike, locate
from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.results import Cell, Results, Section, Table, Threshold, Value
from sluicegate_reports.model.runs import FACTS_FILE, RunError, read_run
from sluicegate_reports.model.verdict import worst

_CONFIDENCE = 0.95
_TABLE = "repetitions"


@dataclass(frozen=True, slots=True)
class Repetitions:
    """The directories of one run, or of its repetitions."""

    directories: tuple[Listing, ...]
    notes: tuple[str, ...] = ()
    """Repetitions that are left out, and why."""

    def together(self, results: Sequence[Results]) -> Results:
        """The results of all repetitions as one."""
        if len(results) == 1 and not self.notes:
            return results[0]
        return merged(results, self.notes)


def repetition(directory: Path, number: int) -> Path:
    """Directory of one repetition, from 1 on."""
    return directory / f"run-{number}"


def repetitions(directory: LocationLike) -> Repetitions:
    """Find the runs in a directory; each is read to know that it is one.

    :raises RunError: if there is none, or if they are not of one scenario and its policies.
    :raises LocationError: if the directory cannot be listed.
    """
    root, listed = locate(directory), listing(directory)
    inside = {file.location.relative_to(listed.folder) for file in listed.files}
    names = {name.partition("/")[0] for name in inside if name.startswith("run-")}
    numbered = sorted(names, key=lambda name: (len(name), name))
    if FACTS_FILE in inside or not numbered:
        read_run(root)
        return Repetitions((listed,))
    whole = [name for name in numbered if f"{name}/{FACTS_FILE}" in inside]
    if not whole:
        read_run(root / numbered[0])
    played = {(run.facts.scenario, run.facts.policies) for run in (read_run(root / name) for name in whole)}
    if len(played) > 1:
        raise RunError(
            f"{str(root)!r} holds runs of different scenarios or policies: compare each by itself, "
            "and tell the difference by `sluicegate report diff`"
        )
    lacking = [name for name in numbered if name not in whole]
    notes = [f"{name} has no {FACTS_FILE}: the run was interrupted, and is left out" for name in lacking]
    return Repetitions(tuple(map(listed.within, whole)), tuple(notes))


def interval(values: Sequence[float]) -> tuple[float, float, float]:
    """A distribution-free confidence interval of the median: two of the ordered values.

    The true median lies between the k-th smallest and the k-th largest
    of n with a probability of 1 - 2 P(X < k), X binomial of n and 1/2 (David and Nagaraja, Order
    Statistics, section 7.1).

    :param values: one or more.
    :return: lower and upper end, and that probability: the narrowest with 95 % or more, else all there is.
    """
    ordered, count = sorted(values), len(values)
    below = [sum(math.comb(count, i) for i in range(k)) / 2**count for k in range(1, count // 2 + 2)]
    sure = [k for k, tail in enumerate(below, 1) if 1 - 2 * tail >= _CONFIDENCE]
    k = max(sure, default=1)
    return ordered[k - 1], ordered[-k], max(0.0, 1 - 2 * below[k - 1])


def merged(results: Sequence[Results], notes: Sequence[str] = ()) -> Results:
    """Merge repeated runs: the worst verdict of each cell, and the median of its figures.

    Charts and tables are those of the first run.
    """
    first = results[0]
    several: dict[tuple[str, str, str], list[Cell]] = {}
    for cell in (cell for each in results for cell in each.matrix):
        several.setdefault((cell.policy, cell.system, cell.door), []).append(cell)
    matrix = tuple(_cell(cells, len(results)) for cells in several.values())
    named = {each.name: each for run in reversed(results) for each in run.thresholds}
    order = dict.fromkeys(each.name for run in results for each in run.thresholds)
    merged_of = {name: _threshold(named[name], results) for name in order}
    # Counts are of the cells that are shown: each repetition may have had another one off.
    merged_of |= {each.name: each for each in counted.thresholds(matrix) if each.name in merged_of}
    remarks = [
        f"{len(results)} repetitions: figures are medians, verdicts and thresholds the worst of all; charts "
        "and the tables of single figures are of the first",
        *notes,
        *dict.fromkeys(note for each in results for note in each.notes),
    ]
    return replace(
        first,
        verdict=worst(cell.verdict for cell in matrix),
        matrix=matrix,
        sections=(_section(several, matrix), *first.sections),
        thresholds=tuple(merged_of.values()),
        notes=tuple(remarks),
    )


def _cell(cells: Sequence[Cell], runs: int) -> Cell:
    chosen = _decisive(cells)
    verdict, (unit, figures) = chosen.verdict, _figures(cells)
    times = sum(cell.verdict is verdict for cell in cells)
    said = f"{verdict.text} in {times} of {runs}"
    # The rows of a cell are of the first run's tables.
    chosen = replace(chosen, rows=cells[0].rows, row=cells[0].row)
    if not figures:
        return replace(chosen, text=f"{said}: {chosen.text}")
    middle, (low, high, _) = median(figures), interval(figures)
    if len(figures) == 1:  # tells nothing of how far figures lie apart
        return replace(chosen, figure=middle, unit=unit, text=f"{said}: {chosen.text}")
    shown, lowest, highest = (quantity(value, unit) for value in (middle, low, high))
    text = f"{said}; median {shown} ({lowest} to {highest}); {chosen.text}"
    return replace(chosen, figure=middle, low=low, high=high, unit=unit, text=text)


def _decisive(cells: Sequence[Cell]) -> Cell:
    """The first of those with the worst verdict."""
    verdict = worst(cell.verdict for cell in cells)
    return next(cell for cell in cells if cell.verdict is verdict)


def _figures(cells: Sequence[Cell]) -> tuple[str, list[float]]:
    """The figures of a cell with their unit: that of what decides, whose bound they are shown against."""
    known = [cell for cell in (_decisive(cells), *cells) if cell.figure is not None]
    unit = known[0].unit if known else ""
    return unit, [cell.figure for cell in cells if cell.figure is not None and cell.unit == unit]


def _threshold(first: Threshold, results: Sequence[Results]) -> Threshold:
    same = [each for run in results for each in run.thresholds if each.name == first.name]
    measured = [each.measured for each in same if each.measured is not None]
    # A measure that is missing from one run is not known to be kept.
    worst_of = max(measured) if len(measured) == len(results) else None
    passed = worst_of is not None and worst_of <= first.bound
    return replace(first, measured=worst_of, passed=passed, text=f"{first.text}, worst of {len(results)}")


def _section(several: Mapping[tuple[str, str, str], list[Cell]], matrix: Sequence[Cell]) -> Section:
    columns = (
        "policy",
        "system",
        "door",
        "runs",
        "median",
        "lowest",
        "highest",
        "interval",
        "unit",
        "verdicts",
    )
    rows: list[tuple[Value, ...]] = []
    for cell_of, cells in several.items():
        unit, figures = _figures(cells)
        verdicts = [cell.verdict for cell in cells]
        counted = ", ".join(f"{verdicts.count(v)} {v.text}" for v in dict.fromkeys(verdicts))
        statistics: tuple[Value, ...] = (None, None, None, None, "")
        if figures:
            low, high, sure = interval(figures)
            span = f"{low:g} to {high:g}, {sure:.1%} sure" if len(figures) > 1 else ""
            statistics = (median(figures), min(figures), max(figures), span, unit)
        rows.append((*cell_of, len(cells), *statistics, counted))
    tables = [Table(columns, tuple(rows), _TABLE, "Repetitions")]
    apart = tuple(_differences(matrix))
    if apart:
        names = ("policy", "one", "other", "one's median", "other's median", "unit", "difference")
        tables.append(Table(names, apart, "differences", "Do two arms differ?"))
    text = (
        "Two arms differ if the intervals of their medians do not overlap; otherwise so many repetitions "
        "show no difference, which does not say that there is none."
    )
    return Section("Repetitions", text, tables=tuple(tables), overall=True)


def _differences(matrix: Sequence[Cell]) -> Iterator[tuple[Value, ...]]:
    for one, other in combinations(matrix, 2):
        alike = (one.policy, one.unit) == (other.policy, other.unit)
        if alike and one.low is not None and other.low is not None:
            yield (
                one.policy,
                f"{one.system} {one.door}",
                f"{other.system} {other.door}",
                one.figure,
                other.figure,
                one.unit,
                "no difference seen" if overlap(one, other) else "they differ",
            )


def overlap(one: Cell, other: Cell) -> bool:
    """Whether the intervals of two cells, or the figures of those without, have a value in common."""
    low, other_low = (cell.figure if cell.low is None else cell.low for cell in (one, other))
    high, other_high = (cell.figure if cell.high is None else cell.high for cell in (one, other))
    if low is None or high is None or other_low is None or other_high is None:
        return False
    return max(low, other_low) <= min(high, other_high)
