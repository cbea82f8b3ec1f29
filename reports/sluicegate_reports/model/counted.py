"""How many cells of a matrix have which verdict: the thresholds that the headline has to agree with."""

from collections.abc import Collection, Iterator, Sequence

from sluicegate_reports import registry
from sluicegate_reports.model.results import Cell, Threshold
from sluicegate_reports.model.verdict import UNMEASURED, Verdict

_COUNTED: tuple[tuple[str, Collection[Verdict], str], ...] = (
    ("off_cells", {Verdict.OFF}, "cells of the matrix that are off, native doors not counted"),
    (
        "disputed_cells",
        {Verdict.DISPUTED},
        "cells of the matrix where a gate's log and its clients disagree",
    ),
    ("unconfirmed_cells", {Verdict.UNCONFIRMED}, "cells of the matrix that a gate's log alone shows"),
    ("missing_cells", UNMEASURED, "cells of the matrix without a figure"),
)


def thresholds(matrix: Sequence[Cell]) -> Iterator[Threshold]:
    """One for each verdict that is none of a kept policy; of *off*, what a system does itself is left out."""
    for name, verdicts, text in _COUNTED:
        counted = [cell for cell in matrix if cell.verdict in verdicts]
        if Verdict.OFF in verdicts:
            counted = [cell for cell in counted if registry.door(cell.door).gate]
        yield Threshold(name, 0, len(counted), not counted, "", text)
