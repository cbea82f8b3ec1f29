"""The differences between two comparisons: what became better or worse, by cell and by threshold."""

from collections import Counter
from collections.abc import Callable, Iterator, Mapping, Sequence
from enum import StrEnum
from typing import TypeVar

from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.repetitions import overlap
from sluicegate_reports.model.results import Cell, Results, Table, Threshold, Value, of_log
from sluicegate_reports.model.verdict import UNMEASURED, Verdict

_SHARE = 0.1
"""Share of the bound by which single runs differ without any change."""
_Key = TypeVar("_Key")
_Item = TypeVar("_Item")
_KEPT = (Verdict.EXACT, Verdict.WITHIN)


class Change(StrEnum):
    """How a later figure compares with an earlier one, in the order in which they are shown."""

    WORSE = "worse"
    GONE = "gone"
    """Missing from the later comparison."""
    BETTER = "better"
    NEW = "new"
    SAME = "same"


def difference(before: Results, after: Results) -> Results:
    """Compare a later comparison with an earlier one.

    :return: all that changed, with the thresholds `worse_cells`, `gone_cells` and `worse_thresholds`.
    """
    cells = list(_cells(before, after))
    thresholds = list(_thresholds(before, after))
    of_cells, of_thresholds = (Counter(change for change, _ in rows) for rows in (cells, thresholds))
    lower = of_thresholds[Change.WORSE] + of_thresholds[Change.GONE]
    decisive = (
        none("worse_cells", of_cells[Change.WORSE], "cells of the matrix that became worse", "cells"),
        none("gone_cells", of_cells[Change.GONE], "cells of the matrix that are no more", "cells"),
        none("worse_thresholds", lower, "thresholds whose figure became worse, or is gone", "thresholds"),
    )
    columns = ("change", "policy", "system", "door", "before", "after")
    tables = (
        Table(columns, _ordered(cells), "cells", "Cells of the matrix"),
        Table(
            ("change", "threshold", "before", "after"),
            _ordered(thresholds),
            "thresholds",
            "Thresholds of both",
        ),
    )
    counted = ", ".join(f"{of_cells[change]} {change}" for change in Change if of_cells[change])
    return of_log(
        title="A comparison against an earlier one",
        summary=f"{len(cells)} cells of the matrix: {counted or 'none'}.",
        facts={"before": run_text(before), "after": run_text(after)},
        tables=tables,
        notes=tuple(_notes(before, after)),
        thresholds=decisive,
    )


def _ordered(rows: Sequence[tuple[Change, tuple[Value, ...]]]) -> tuple[tuple[Value, ...], ...]:
    order = list(Change)
    return tuple(row for _, row in sorted(rows, key=lambda each: order.index(each[0])))


def change_of(before: Cell, after: Cell) -> Change:
    """How a cell changed: by its verdict, or, if both were kept or the verdicts agree, by its figure.

    Figures of repeated runs are the same where their intervals overlap, those of single runs where they
    differ by no more than a tenth of the bound. A cell where a policy does not apply is none; what was
    off and is not measured any more has not become better.
    """
    order, applies = list(Verdict), Verdict.NOT_APPLICABLE
    if (before.verdict is applies) is not (after.verdict is applies):
        return Change.NEW if before.verdict is applies else Change.GONE
    if after.verdict in UNMEASURED and order.index(before.verdict) > order.index(Verdict.MISSING):
        return Change.GONE
    alike = before.verdict is after.verdict or (before.verdict in _KEPT and after.verdict in _KEPT)
    measured = before.figure is not None and after.figure is not None and before.unit == after.unit
    if not alike or (not measured and before.verdict is not after.verdict):
        return _by(order.index(after.verdict) - order.index(before.verdict))
    if before.figure is None or after.figure is None or not measured:
        return Change.SAME
    repeated = before.low is not None and after.low is not None
    if repeated and overlap(before, after):
        return Change.SAME
    room = 0.0 if repeated else _SHARE * abs(after.bound or before.bound or 0.0)
    return _by(after.figure - before.figure, room)


def _by(more: float, room: float = 0.0) -> Change:
    return Change.SAME if abs(more) <= room else Change.WORSE if more > 0 else Change.BETTER


def _cells(before: Results, after: Results) -> Iterator[tuple[Change, tuple[Value, ...]]]:
    old, new = before.cells(), after.cells()
    for (policy, system, door), one, other, change in _paired(old, new, change_of):
        label = (before if other is None else after).run.arm(system, door).label
        named = f"{system} ({label})" if label else system
        yield change, (change.value, policy, named, door, cell_text(one), cell_text(other))


def _paired(
    old: Mapping[_Key, _Item], new: Mapping[_Key, _Item], compare: Callable[[_Item, _Item], Change]
) -> Iterator[tuple[_Key, _Item | None, _Item | None, Change]]:
    """What both or one of them has, with the change from one to the other."""
    for key in dict.fromkeys([*old, *new]):
        one, other = old.get(key), new.get(key)
        yield key, one, other, _change(one, other, compare)


def _change(one: _Item | None, other: _Item | None, compare: Callable[[_Item, _Item], Change]) -> Change:
    """From one to the other; one of them may be missing."""
    if one is None:
        return Change.NEW
    return Change.GONE if other is None else compare(one, other)


def change_between(before: Cell | None, after: Cell | None) -> Change:
    """As `change_of`, of a cell that one or both comparisons may lack."""
    return Change.SAME if before is after is None else _change(before, after, change_of)


def cell_text(cell: Cell | None) -> str:
    """Verdict and figure of a cell; empty of none."""
    if cell is None:
        return ""
    if cell.figure is None:
        return cell.verdict.text
    text = f"{cell.verdict.text}, {quantity(cell.figure, cell.unit)}"
    if cell.low is not None and cell.high is not None:
        text += f" ({quantity(cell.low, cell.unit)} to {quantity(cell.high, cell.unit)})"
    return text


def _thresholds(before: Results, after: Results) -> Iterator[tuple[Change, tuple[Value, ...]]]:
    old, new = ({each.name: each for each in results.thresholds} for results in (before, after))
    for name, one, other, change in _paired(old, new, _moved):
        said = ("" if each is None else quantity(each.measured, each.unit) for each in (one, other))
        yield change, (change.value, name, *said)


def _moved(before: Threshold, after: Threshold) -> Change:
    if before.measured is None or after.measured is None:
        return _by((after.measured is None) - (before.measured is None))
    # Where the bound is 0, every unit counts.
    return _by(after.measured - before.measured, _SHARE * min(before.bound, after.bound))


def none(name: str, count: int, text: str, rows: str) -> Threshold:
    """A threshold that only 0 passes."""
    return Threshold(name, 0, count, count == 0, "", text, rows)


def run_text(results: Results) -> str:
    """A run's name, and when it began."""
    started = results.run.started
    return results.run.run + (f", {started:%Y-%m-%d %H:%M} UTC" if started else "")


def _notes(before: Results, after: Results) -> Iterator[str]:
    """Differences that make the two less comparable."""
    for what, one, other in (
        ("scenario", before.run.scenario, after.run.scenario),
        ("policies", before.run.policies, after.run.policies),
        ("machine", dict(before.run.machine), dict(after.run.machine)),
    ):
        if one != other:
            yield f"the {what} of the two {'are' if what == 'policies' else 'is'} not the same"
    names: Sequence[str] = sorted({*before.run.versions, *after.run.versions})
    for name in names:
        old, new = before.run.versions.get(name), after.run.versions.get(name)
        if old != new:
            yield f"{name}: {old or 'none'} before, {new or 'none'} after"
