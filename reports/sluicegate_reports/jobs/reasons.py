"""Why a trial is not exact: its reasons and causes, the worst first, and the decisions behind each."""

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import NamedTuple

from sluicegate_reports.jobs import origins
from sluicegate_reports.jobs.measuring import Measures
from sluicegate_reports.model.finding import Finding
from sluicegate_reports.model.quantities import quantity
from sluicegate_reports.model.results import Section, Table, Value
from sluicegate_reports.model.runs import Run, Trial
from sluicegate_reports.model.verdict import Verdict

_UNEXPLAINED = (Verdict.EXACT, Verdict.NOT_APPLICABLE)
"""The matrix says why a policy is not applicable."""
_ORDER = list(Verdict)


class Judged(NamedTuple):
    """A trial, and what was found of it."""

    number: int
    """Its index in the run's list."""
    trial: Trial
    finding: Finding


def worst_first(several: Sequence[Judged]) -> list[Judged]:
    """First the worst of each arm, so that every arm is among few rows; then all others, the worst first."""
    ordered = sorted(several, key=_badness, reverse=True)
    leading: dict[tuple[str, str], Judged] = {}
    for each in ordered:
        leading.setdefault((each.trial.system, each.trial.door), each)
    first = [each.number for each in leading.values()]
    return [*leading.values(), *(each for each in ordered if each.number not in first)]


def _badness(judged: Judged) -> tuple[int, float]:
    finding = judged.finding
    return _ORDER.index(finding.verdict), (finding.figure or 0) / (finding.bound or 1)


def telling(trials: Sequence[Trial]) -> tuple[str, ...]:
    """Which of `topic` and `subscription` tell trials of one policy, arm and phase apart."""
    shown = []
    for name, beside in (("topic", ()), ("subscription", ("topic",))):
        ways = {
            (t.policy, t.system, t.door, t.phase, *(getattr(t, other) for other in beside), getattr(t, name))
            for t in trials
        }
        if max(Counter(way[:-1] for way in ways).values(), default=0) > 1:
            shown.append(name)
    return tuple(shown)


def reasons(run: Run, findings: Sequence[Finding], measures: Measures) -> Iterator[Section]:
    """A row for each trial that is not exact; those that say the same of several phases are one."""
    judged = [Judged(n, *pair) for n, pair in enumerate(zip(run.trials, findings, strict=True))]
    inexact = [each for each in judged if each.finding.verdict not in _UNEXPLAINED]
    if not inexact:
        return
    apart = telling([each.trial for each in inexact])
    phases: dict[tuple[Value, ...], list[Judged]] = {}
    for each in worst_first(inexact):
        phases.setdefault(_columns(each, apart), []).append(each)
    rows = tuple(
        (*cells[:4], ", ".join(each.trial.phase for each in alike), *cells[4:])
        for cells, alike in phases.items()
    )
    lie = tuple(
        origins.decisions_of(run.facts.run, [each.trial for each in alike], measures.clocks)
        for alike in phases.values()
    )
    columns = ("verdict", "policy", "system", "door", "phase", *apart, "figure", "why")
    table = Table(columns, rows, "reasons", "Every trial that is not exact", origins=lie, untold="none")
    text = "First the worst trial of each arm, then all others. Each row leads to the decisions behind it."
    yield Section("Reasons", text, tables=(table,), overall=True)


def _columns(judged: Judged, apart: Sequence[str]) -> tuple[Value, ...]:
    trial, finding = judged.trial, judged.finding
    figure = None if finding.figure is None else quantity(finding.figure, finding.unit)
    way = (finding.verdict.text, trial.policy, trial.system, trial.door)
    return (*way, *(getattr(trial, name) for name in apart), figure, finding.text)
