"""Servers that refuse, are full, away or the wrong ones: an error that names the remedy, in time."""

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
from benchmarks.harness.redis import RedisServer, why_no_redis
from tests.budgets.conftest import LEASE_US, PLACE_LEASE_US
from tests.gateway.certificates import Authority
from tests.real.needs import need
from tests.waiting import LONG_S

from sluicegate.budgets import TAKEN, BudgetStoreError, Limit, Place, Request
from sluicegate.budgets.redis.redis_store import RedisBudgetStore
from sluicegate.budgets.redis.redis_url import redis_client

REQUEST = Request(Limit("orders", 100, 50), 10, 0.1)

MakeServer = Callable[..., RedisServer]


@asynccontextmanager
async def opened(
    url: str, fleet: str = "fleet", timeout_s: float = LONG_S
) -> AsyncIterator[RedisBudgetStore]:
    store = RedisBudgetStore(redis_client(url), fleet, "a", LEASE_US, PLACE_LEASE_US, timeout_s)
    try:
        yield store
    finally:
        await store.close()


async def error_of(url: str, timeout_s: float = LONG_S) -> str:
    """What it says."""
    async with opened(url, timeout_s=timeout_s) as store:
        with pytest.raises(BudgetStoreError) as raised:
            await store.reserve([REQUEST])
        return str(raised.value)


@pytest.fixture
def started(tmp_path: Path) -> Iterator[MakeServer]:
    need(why_no_redis())
    servers: list[RedisServer] = []

    def start(*options: str) -> RedisServer:
        servers.append(RedisServer(tmp_path / str(len(servers)), options))
        return servers[-1].start()

    yield start
    for server in servers:
        server.stop()


async def test_a_login_that_is_missing_or_wrong(started: MakeServer) -> None:
    server = started("--requirepass", "right")
    assert "look at user and password of `budgets`" in await error_of(server.url)
    wrong = server.url.replace("//", "//default:wrong@")
    text = await error_of(wrong)
    assert "look at user and password of `budgets`" in text
    assert "wrong@" not in text
    async with opened(server.url.replace("//", "//default:right@")) as store:
        assert await store.hold([Place("producers", "p", 1)]) == [0]


async def test_a_replica_names_the_primary_as_the_remedy(started: MakeServer) -> None:
    primary = started()
    replica = started("--replicaof", "127.0.0.1", str(primary.port))
    assert "name the primary" in await error_of(replica.url)


async def test_a_full_memory_is_named(started: MakeServer) -> None:
    server = started("--maxmemory", "1", "--maxmemory-policy", "noeviction")
    assert "raise its maxmemory" in await error_of(server.url)


async def test_a_server_that_stands_is_given_up_in_time_and_serves_again(started: MakeServer) -> None:
    server = started()
    async with opened(server.url, timeout_s=0.3) as store:
        await store.begin()
        server.pause()
        with pytest.raises(BudgetStoreError, match="no answer within 300 ms"):
            await store.reserve([REQUEST])
        server.resume()
    async with opened(server.url) as store:
        await store.begin()
        await store.reserve([REQUEST])


async def test_a_server_that_is_away(started: MakeServer) -> None:
    server = started()
    async with opened(server.url) as store:
        await store.begin()
        server.stop()
        with pytest.raises(BudgetStoreError, match="Error"):
            await store.reserve([REQUEST])
        server.start()
        [grant] = await store.reserve([REQUEST])
        assert grant.tokens == 0, "it began anew, and is empty"


async def test_tls_that_does_not_fit(started: MakeServer, tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path / "ours").issue("redis", "127.0.0.1")
    files = ("--tls-cert-file", certificate, "--tls-key-file", key, "--tls-auth-clients", "no")
    server = started("--port", "0", "--tls-port", "PORT", *files)
    trusting = server.url.replace("redis:", "rediss:") + f"?ssl_ca_certs={tmp_path / 'ours/ca.pem'}"
    async with opened(trusting) as store:
        await store.begin()
    assert "certificate verify failed" in await error_of(server.url.replace("redis:", "rediss:"))
    assert "Error" in await error_of(server.url)


async def test_two_fleets_in_one_server_do_not_meet(started: MakeServer) -> None:
    server = started()
    async with opened(server.url, "one") as one, opened(server.url, "other") as other:
        for store in (one, other):
            await store.begin()
            assert await store.hold([Place("producers", "p", 1, known=True)]) == [TAKEN]


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:secret@127.0.0.1:port",
        "redis+sentinel://user:secret@a:1,b:2",
        "redis+cluster://user:secret@a:x",
        "ftp://user:secret@a",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(BudgetStoreError, match="write redis://HOST") as raised:
        redis_client(url)
    assert "secret" not in str(raised.value)
