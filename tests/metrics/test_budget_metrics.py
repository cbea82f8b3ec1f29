"""Metrics of shared limits: there where limits are shared, and nowhere else."""

from sluicegate.metrics.budget_families import budget_families

SNAPSHOT = {
    "up": 1,
    "age_seconds": None,
    "lost_seconds": 2.5,
    "calls": 7,
    "errors": 3,
    "members": 2,
    "other_policies": 1,
    "limits": 4,
}


def test_a_worker_that_shares_nothing_has_none() -> None:
    assert list(budget_families([{"broker": "main"}])) == []


def test_a_worker_that_shares_limits_tells_of_its_store() -> None:
    families = budget_families([{"broker": "main", "budgets": SNAPSHOT}])
    samples = {sample.name: sample.value for family in families for sample in family.samples}
    assert samples == {
        "sluicegate_budget_store_up": 1,
        "sluicegate_budget_store_members": 2,
        "sluicegate_budget_store_other_policies": 1,
        "sluicegate_budget_store_limits": 4,
        "sluicegate_budget_store_calls_total": 7,
        "sluicegate_budget_store_errors_total": 3,
        "sluicegate_budget_store_lost_seconds_total": 2.5,
    }
