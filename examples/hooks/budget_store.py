"""Budgets `host:` in this process: for a test of one gateway, with the code of shared limits."""

from sluicegate.api import MemoryBudgets, MemoryBudgetStore, hookimpl


@hookimpl
def sluicegate_budget_store(url, settings, holder):
    if url != "host:":
        return None
    return MemoryBudgetStore(MemoryBudgets(settings.lease * 1000, settings.place_lease * 1000), holder)
