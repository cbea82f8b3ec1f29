"""A connection that takes longer than a call may is made nevertheless, once, and then serves."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from benchmarks.harness.redis import RedisServer
from tests.budgets.conftest import LEASE_US, PLACE_LEASE_US
from tests.waiting import LONG_S

from sluicegate.budgets import BudgetStoreError, Limit, Request
from sluicegate.budgets.redis import redis_store
from sluicegate.budgets.redis.redis_store import RedisBudgetStore
from sluicegate.budgets.redis.redis_url import redis_client

TIMEOUT_S = 0.1
REQUEST = Request(Limit("orders", 100, 50), 10, 0.1)


class Link:
    """Passes bytes between clients and a server while it is open.

    :param port: of the server.
    """

    def __init__(self, port: int) -> None:
        self._port = port
        self.connections = 0
        self.open = asyncio.Event()

    async def serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """Serve one client."""
        self.connections += 1
        server, to_server = await asyncio.open_connection("127.0.0.1", self._port)
        try:
            await asyncio.gather(self._pass(reader, to_server), self._pass(server, writer))
        except ConnectionError:
            pass
        finally:
            to_server.close()
            writer.close()

    async def _pass(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while data := await reader.read(65536):
            await self.open.wait()
            writer.write(data)
        writer.close()


@asynccontextmanager
async def linked(server: RedisServer) -> AsyncIterator[tuple[Link, RedisBudgetStore]]:
    """A store over a link that is closed."""
    link = Link(server.port)
    listening = await asyncio.start_server(link.serve, "127.0.0.1", 0)
    port = listening.sockets[0].getsockname()[1]
    client = redis_client(f"redis://127.0.0.1:{port}")
    store = RedisBudgetStore(client, "slow", "a", LEASE_US, PLACE_LEASE_US, TIMEOUT_S)
    try:
        yield link, store
    finally:
        await store.close()
        link.open.set()
        listening.close()


async def fails(store: RedisBudgetStore) -> bool:
    """Whether a call is not answered in time."""
    try:
        await store.reserve([REQUEST])
    except BudgetStoreError:
        return True
    return False


async def test_a_slow_connection_serves_once_it_is_made(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "_LATE_S", LONG_S)
    async with linked(redis_server) as (link, store):
        for _ in range(3):
            assert await fails(store)
        link.open.set()
        async with asyncio.timeout(LONG_S):
            while await fails(store):
                pass
        assert link.connections == 1


async def test_one_that_never_answers_is_given_up(
    redis_server: RedisServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(redis_store, "_LATE_S", TIMEOUT_S)
    async with linked(redis_server) as (link, store):

        async def has_tried_again() -> None:
            while link.connections < 2:
                assert await fails(store)

        await asyncio.wait_for(has_tried_again(), LONG_S)
