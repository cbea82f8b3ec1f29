"""Verdicts on metrics with a rule of their own, beside the rule of the family."""

from dataclasses import replace

from sluicegate_reports.model.finding import Figures, Finding
from sluicegate_reports.model.runs import Trial, measured_as
from sluicegate_reports.model.verdict import worst
from sluicegate_reports.registry import metrics_of


def with_metrics(finding: Finding, trial: Trial, figures: Figures) -> Finding:
    """The worse of a finding and of what a metric's rule says; the text has both."""
    for metric in metrics_of(measured_as(trial).family):
        by_rule = metric.rule(trial, figures) if metric.rule is not None else None
        if by_rule is None:
            continue
        text = "; ".join(filter(None, (finding.text, by_rule.text)))
        # Of equal verdicts the family's own figure stays.
        keeps = worst((finding.verdict, by_rule.verdict)) is finding.verdict
        finding = replace(finding if keeps else by_rule, text=text)
    return finding
