"""The verdict on one trial."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TypeAlias

from sluicegate_reports.model.verdict import Verdict

Figures: TypeAlias = Mapping[str, float | None]
"""What was measured of a trial, by measure; what is missing or None was not."""


@dataclass(frozen=True, slots=True)
class Cause:
    """What explains a finding."""

    kind: str
    """Its name for programs, such as `log_gap`."""
    text: str
    from_s: float | None = None
    """Since the trial began."""
    to_s: float | None = None
    messages: int | None = None
    """How many it is about."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Verdict on one trial, with the figure that it rests on."""

    verdict: Verdict
    figure: float | None = None
    bound: float | None = None
    """What the figure may be at most for `within`."""
    unit: str = ""
    text: str = ""
    causes: tuple[Cause, ...] = ()


def worst_finding(findings: Sequence[Finding]) -> Finding:
    """The finding that decides a cell: the worst verdict, among equal ones the largest figure.

    Figures are compared by their bounds, as those of one cell may have different ones.
    """
    order = list(Verdict)
    return max(findings, key=lambda each: (order.index(each.verdict), (each.figure or 0) / (each.bound or 1)))
