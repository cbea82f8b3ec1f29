"""Metrics of what each worker shares with others, where it does."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from prometheus_client.core import Metric

from sluicegate.metrics.families import counter, gauge

_GAUGES = {
    "up": "1 if the last call to the budget store was answered.",
    "age_seconds": "Time since the last call that the budget store answered; absent before the first.",
    "members": "Workers that share the limits, as last heard.",
    "other_policies": "Workers whose policies are of another version; absent while unknown.",
    "limits": "Shared limits in use.",
}
_COUNTERS = {
    "calls": "Calls to the budget store.",
    "errors": "Calls that failed or were not answered in time.",
    "lost_seconds": "Time in which limits were not leased, as the budget store did not answer.",
}


def budget_families(snapshots: Sequence[Mapping[str, Any]]) -> Iterable[Metric]:
    """State of the budget store as each worker sees it; nothing where no limits are shared.

    :param snapshots: of the workers, as `Worker.snapshot` makes them.
    """
    sharing = [(each["broker"], each["budgets"]) for each in snapshots if "budgets" in each]
    if snapshots and not sharing:
        return
    for make, texts in ((gauge, _GAUGES), (counter, _COUNTERS)):
        for name, text in texts.items():
            family = make(f"sluicegate_budget_store_{name}", text, "")
            for broker, budgets in sharing:
                if budgets.get(name) is not None:
                    family.add_metric([broker], budgets[name])
            yield family
