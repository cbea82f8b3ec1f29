"""Renews a controller's lease beside all other work, however long that takes."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import TypeAlias

from sluicegate.store.policy_store import StoreError
from sluicegate_danube.failover.election import Election

Sleep: TypeAlias = "Callable[[float], Awaitable[None]]"


async def keep(
    election: Election, failed: Callable[[StoreError], None], sleep: Sleep = asyncio.sleep
) -> None:
    """Renew the lease every third of its time, until cancelled.

    :param failed: called with each error of the store; the lease may last still.
    """
    while True:
        await sleep(election.ttl_s / 3)
        try:
            await election.keep()
        except StoreError as error:
            failed(error)


@asynccontextmanager
async def kept(election: Election, sleep: Sleep = asyncio.sleep) -> AsyncIterator[None]:
    """Renew the lease within the block; what the store does not do is noticed by the work there."""
    task = asyncio.ensure_future(keep(election, lambda error: None, sleep))
    try:
        yield
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)
