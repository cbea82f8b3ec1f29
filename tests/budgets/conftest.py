"""Budgets in this process and in a real Redis; without one its tests skip and say why."""

from collections.abc import AsyncIterator, Iterator
from itertools import count

import pytest
from benchmarks.harness.redis import RedisServer, why_no_redis
from redis.asyncio import Redis
from tests.real.needs import need
from tests.waiting import LONG_S, until

from sluicegate.budgets import BudgetStore, MemoryBudgets, MemoryBudgetStore
from sluicegate.budgets.redis.redis_store import RedisBudgetStore
from sluicegate.budgets.redis.redis_url import redis_client
from sluicegate.testing.budget_contract import LEASE_S, PLACE_LEASE_S, BudgetsUnderTest

LEASE_US, PLACE_LEASE_US = int(LEASE_S * 1e6), int(PLACE_LEASE_S * 1e6)
_BEGAN_US = 10**12
_fleets = count(1)


class InMemory(BudgetsUnderTest):
    """Budgets of this process."""

    def __init__(self) -> None:
        self._now_us = _BEGAN_US
        self._budgets = MemoryBudgets(LEASE_US, PLACE_LEASE_US, lambda: self._now_us)

    async def open(self, holder: str) -> BudgetStore:
        return MemoryBudgetStore(self._budgets, holder)

    def turn(self, seconds: float) -> None:
        self._now_us += round(seconds * 1e6)

    async def lose(self) -> None:
        self._budgets.forget()


class InRedis(BudgetsUnderTest):
    """Budgets of one fleet in a Redis."""

    def __init__(self, url: str) -> None:
        self._url = url
        self._fleet = f"fleet {next(_fleets)}"
        self._now_us = _BEGAN_US
        self._stores: list[RedisBudgetStore] = []

    async def open(self, holder: str) -> RedisBudgetStore:
        store = RedisBudgetStore(
            redis_client(self._url),
            self._fleet,
            holder,
            LEASE_US,
            PLACE_LEASE_US,
            timeout_s=LONG_S,
            now_us=lambda: self._now_us,
        )
        await store.begin()
        self._stores.append(store)
        return store

    def turn(self, seconds: float) -> None:
        self._now_us += round(seconds * 1e6)

    async def lose(self) -> None:
        async with Redis.from_url(self._url.replace("+cluster", "")) as client:
            await client.flushall()

    async def close(self) -> None:
        for store in self._stores:
            await store.close()


@pytest.fixture(scope="package")
def redis_server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """One server for all tests, each with a fleet of its own."""
    need(why_no_redis())
    with RedisServer(tmp_path_factory.mktemp("redis")) as server:
        yield server


@pytest.fixture(scope="package")
def redis_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RedisServer]:
    """A cluster of one server."""
    need(why_no_redis())
    with RedisServer(tmp_path_factory.mktemp("cluster"), is_cluster=True) as server:
        server.ask("CLUSTER", "ADDSLOTSRANGE", "0", "16383")
        until(lambda: b"cluster_state:ok" in server.ask("CLUSTER", "INFO"))
        yield server


@pytest.fixture
async def in_cluster(redis_cluster: RedisServer) -> AsyncIterator[InRedis]:
    """Budgets in a real cluster."""
    budgets = InRedis(redis_cluster.url.replace("redis:", "redis+cluster:"))
    await budgets.open("the first")
    yield budgets
    await budgets.close()


@pytest.fixture
async def in_redis(redis_server: RedisServer) -> AsyncIterator[InRedis]:
    """Budgets in a real Redis."""
    budgets = InRedis(redis_server.url)
    await budgets.open("the first")
    yield budgets
    await budgets.close()
