"""The thresholds of a comparison, which `--fail-on` can use."""

from collections.abc import Iterator, Sequence

from sluicegate_reports import registry
from sluicegate_reports.jobs.measuring import Measures, Rows
from sluicegate_reports.registry import Metric
from sluicegate_reports.registry.measured import Family
from sluicegate_reports.results import Cell, Threshold, Verdict
from sluicegate_reports.runs import Run


def thresholds(run: Run, matrix: Sequence[Cell], found: Measures) -> Iterator[Threshold]:
    """Those of the whole matrix and of decisions, then those of single metrics, of what was measured."""
    count = {verdict: sum(cell.verdict is verdict for cell in matrix) for verdict in Verdict}
    gates = [cell for cell in matrix if registry.door(cell.door).gate]
    off = sum(cell.verdict is Verdict.OFF for cell in gates)
    rates = [(cell.figure, cell.rows) for cell in gates if cell.unit == "%" and cell.figure is not None]
    yield _threshold("off_cells", 0, off, "", "places of the matrix that are off, native doors not counted")
    text = "places of the matrix where a gate's log and its clients disagree"
    yield _threshold("disputed_cells", 0, count[Verdict.DISPUTED], "", text)
    text = "places of the matrix that a gate's log alone shows"
    yield _threshold("unconfirmed_cells", 0, count[Verdict.UNCONFIRMED], "", text)
    yield _threshold("missing_cells", 0, count[Verdict.MISSING], "", "places of the matrix without a figure")
    if rates:
        rate, rows = max(rates)
        yield _threshold("rate_error_percent", 5, rate, "%", "worst rate error of a gate", rows)
    judged = [row for row in found.judged if row["admitted"] + row["refused"]]
    if judged:
        shares = [
            (row["wrongly_admitted"] + row["wrongly_refused"]) / (row["admitted"] + row["refused"]) * 100
            for row in judged
        ]
        text = "worst share of a gate's decisions that a perfect bucket would not have taken"
        yield _threshold("wrong_decisions_percent", 5, max(shares), "%", text)
    for metric in registry.metrics():
        values = [row[metric.name] for row in _rows(metric, run, found) if row[metric.name] is not None]
        if metric.bound is not None and values:
            bound, measured = metric.bound, sum(values) if metric.bound.total else max(values)
            yield _threshold(bound.name, bound.most, measured, bound.unit, bound.text, bound.rows)


def _rows(metric: Metric, run: Run, found: Measures) -> Rows:
    """Those that a metric's threshold is about."""
    if metric.transform is not None:
        return [{metric.name: row["value"]} for row in found.further if row["metric"] == metric.name]
    if Family.DELAY in metric.families:
        return found.delays if metric.bound else []
    if metric.families:
        return []
    # What is withheld until others are acknowledged is not lost.
    withheld = {(t.system, t.door, t.topic) for t in run.trials if t.measured.family is Family.UNACKED}
    return [row for row in found.deliveries if (row["system"], row["door"], row["topic"]) not in withheld]


def _threshold(name: str, bound: float, measured: float, unit: str, text: str, rows: str = "") -> Threshold:
    return Threshold(name, bound, measured, measured <= bound, unit, text, rows)
