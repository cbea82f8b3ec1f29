"""Tokens of a shared limit are leased from a real Redis."""

import asyncio
from pathlib import Path

from benchmarks.harness.redis import RedisServer

from sluicegate.budgets import Limit, Request
from sluicegate.config.models import Budgets
from sluicegate.runtime.plugins import load_plugins


async def lease(url: str) -> None:
    """Use the store as a gateway does."""
    settings = Budgets(url=url, timeout=2_500, lease=10_000)
    store = load_plugins(()).open_budgets(settings, "holder")
    await store.reserve([Request(Limit("orders", 100, 50), want=10, seconds=0.1)])
    [standing] = await store.standings()
    print(f"shared {standing.limit.name}, holders {standing.holders}")
    await store.close()


with RedisServer(Path("redis").absolute()) as server:
    asyncio.run(lease(server.url))
