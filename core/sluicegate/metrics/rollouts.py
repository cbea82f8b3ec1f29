"""Metrics of policies that are rolled out."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.metrics_core import Metric

from sluicegate.metrics.families import counter
from sluicegate.runtime.labels import label

_OUTCOMES = {"asked": "asked", "would": "would_refuse", "did": "refused"}


def rollout_families(snapshots: Sequence[Mapping[str, Any]]) -> Iterable[Metric]:
    """What policies did in each mode that is set for them, by the rule that sets it."""
    family = counter(
        "sluicegate_rollout_operations",
        "Operations that a policy with a mode checked (asked), refused or held (refused), or would have.",
        "policy level name mode outcome",
    )
    for snapshot in snapshots:
        for row in snapshot["rollouts"]:
            for key, outcome in _OUTCOMES.items():
                values = [row["policy"], row["level"], label(row["name"]), row["mode"], outcome]
                family.add_metric([*values, snapshot["broker"]], row[key])
    yield family
