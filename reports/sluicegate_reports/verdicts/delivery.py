"""Verdicts on delivery: they count towards the verdict on every policy of the topic."""

from dataclasses import replace

from sluicegate_reports.model.finding import Figures, Finding
from sluicegate_reports.model.runs import Family, Trial, measured_as
from sluicegate_reports.model.verdict import Verdict, worst
from sluicegate_reports.verdicts.thresholds import WITHIN_DELIVERIES

_NEVER = {
    "lost": "lost",
    "altered": "of another size than sent",
    "told_refused": "told refused but delivered",
}
_SELDOM = {"duplicates": "received twice", "reordered": "out of order"}
_UNREAD = {"unread": "not read in time"}


def with_deliveries(finding: Finding, trial: Trial, figures: Figures) -> Finding:
    """A finding, or what is worse: what was lost, repeated, reordered, altered, or stored though refused.

    :param figures: see `transforms.delivery`; those that are missing take no part.
    """
    counts = {name: figures.get(name) or 0 for name in (*_NEVER, *_SELDOM, *_UNREAD)}
    if measured_as(trial).family is Family.UNACKED:
        counts["lost"] = 0  # what is withheld until others are acknowledged is not lost
    if measured_as(trial).family in (Family.ASKED_DELAY, Family.UNACKED):
        counts["reordered"] = 0  # of different delays, or redelivered
    words = {**_NEVER, **_SELDOM, **_UNREAD}
    said = [f"{count:,.0f} {words[name]}" for name, count in counts.items() if count]
    if not said:
        return finding
    acknowledged = figures.get("delivered_of") or 0
    never, seldom = sum(counts[name] for name in _NEVER), sum(counts[name] for name in _SELDOM)
    verdict = Verdict.EXACT
    if never or seldom > WITHIN_DELIVERIES * acknowledged:
        verdict = Verdict.OFF
    elif seldom:
        verdict = Verdict.WITHIN
    text = "; ".join([finding.text, f"of {acknowledged:,.0f} messages {', '.join(said)}"])
    if worst((finding.verdict, verdict)) is finding.verdict:
        return replace(finding, text=text)
    return Finding(verdict, never + seldom, 0, "messages", text)
