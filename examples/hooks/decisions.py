"""Counts refusals by client, for a page or an alert of your own."""

from collections import Counter

from sluicegate.api import hookimpl

refused: Counter[str] = Counter()


@hookimpl
def sluicegate_decisions(batch):
    refused.update(row["client"] for row in batch if row["action"] == "reject")
