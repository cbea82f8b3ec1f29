"""Verdicts on metrics with a rule of their own, beside the rule of the family."""

from dataclasses import replace

from sluicegate_reports.model.finding import Figures, Finding, worst_finding
from sluicegate_reports.model.runs import Trial, measured_as
from sluicegate_reports.registry import metrics_of


def with_metrics(finding: Finding, trial: Trial, figures: Figures) -> Finding:
    """The worse of a finding and of what a metric's rule found; the text has both."""
    for metric in metrics_of(measured_as(trial).family):
        found = metric.rule(trial, figures) if metric.rule is not None else None
        if found is None:
            continue
        text = "; ".join(filter(None, (finding.text, found.text)))
        # Of equal verdicts the family's own figure stays.
        worse = worst_finding([replace(finding, figure=0), replace(found, figure=-1)])
        finding = replace(finding if worse.verdict is finding.verdict else found, text=text)
    return finding
