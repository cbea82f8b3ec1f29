"""Registers the budget store in Redis through the same hook as third-party stores."""

from typing import Any

from sluicegate.budgets.budget_store import BudgetStore, BudgetStoreError
from sluicegate.hooks import hookimpl

_SCHEMES = ("redis", "rediss", "unix")


@hookimpl
def sluicegate_budget_store(url: str, settings: Any, holder: str) -> BudgetStore | None:
    """Open a Redis, its Sentinels or a cluster.

    :raises BudgetStoreError: if the URL is malformed, or redis-py is not installed.
    """
    if url.partition("://")[0].partition("+")[0] not in _SCHEMES:
        return None
    try:
        from sluicegate.budgets.redis.redis_store import RedisBudgetStore
        from sluicegate.budgets.redis.redis_url import redis_client
    except ImportError as error:
        raise BudgetStoreError(
            f"Redis needs a package that is not installed ({error}): pip install 'sluicegate[budgets]'"
        ) from error
    return RedisBudgetStore(
        redis_client(url),
        settings.name,
        holder,
        settings.lease * 1000,
        settings.place_lease * 1000,
        settings.timeout / 1000,
    )
