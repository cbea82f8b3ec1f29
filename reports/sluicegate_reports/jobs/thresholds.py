"""The thresholds of a comparison, which `--fail-on` can use."""

from collections.abc import Iterator, Sequence

from sluicegate_reports import registry
from sluicegate_reports.jobs.measuring import Measures, Rows
from sluicegate_reports.model import counted
from sluicegate_reports.model.results import Cell, Threshold
from sluicegate_reports.model.runs import Run, measured_as
from sluicegate_reports.registry import Metric
from sluicegate_reports.registry.measured import Family


def thresholds(run: Run, matrix: Sequence[Cell], measures: Measures) -> Iterator[Threshold]:
    """Thresholds of the matrix and of decisions, then of each metric that was measured."""
    yield from counted.thresholds(matrix)
    gates = [cell for cell in matrix if registry.door(cell.door).gate]
    rates = [(cell.figure, cell.rows) for cell in gates if cell.unit == "%" and cell.figure is not None]
    if rates:
        rate, rows = max(rates)
        yield _threshold("rate_error_percent", 5, rate, "%", "worst rate error of a gate", rows)
    judged = [row for row in measures.judged if row["admitted"] + row["refused"]]
    if judged:
        shares = [
            (row["wrongly_admitted"] + row["wrongly_refused"]) / (row["admitted"] + row["refused"]) * 100
            for row in judged
        ]
        text = "worst share of a gate's decisions that a perfect bucket would not have taken"
        yield _threshold("wrong_decisions_percent", 5, max(shares), "%", text)
    for metric in registry.metrics():
        values = [row[metric.name] for row in _rows(metric, run, measures)]
        known = [value for value in values if value is not None]
        if metric.bound is None or not (known or (values and metric.transform is None)):
            continue
        bound, measured = metric.bound, None
        if len(known) == len(values) or metric.transform is not None:
            measured = sum(known) if bound.total else max(known)
        yield _threshold(bound.name, bound.most, measured, bound.unit, bound.text, bound.rows)


def _rows(metric: Metric, run: Run, measures: Measures) -> Rows:
    """Those that a metric's threshold is about."""
    if metric.transform is not None:
        return [{metric.name: row["value"]} for row in measures.further if row["metric"] == metric.name]
    if Family.DELAY in metric.families:
        return measures.delays if metric.bound else []
    if metric.families:
        return []
    # What is withheld until others are acknowledged is not lost.
    withheld = {(t.system, t.door, t.topic) for t in run.trials if measured_as(t).family is Family.UNACKED}
    return [
        row
        for row in measures.deliveries
        if registry.door(row["door"]).judged and (row["system"], row["door"], row["topic"]) not in withheld
    ]


def _threshold(
    name: str, bound: float, measured: float | None, unit: str, text: str, rows: str = ""
) -> Threshold:
    """One unknown row makes the total unknown, and the threshold fails."""
    passed = measured is not None and measured <= bound
    return Threshold(name, bound, measured, passed, unit, text, rows)
