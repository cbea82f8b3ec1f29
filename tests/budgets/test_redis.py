"""Servers that refuse, are full, away or the wrong ones: an error that names the remedy, in time."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager
from dataclasses import replace
from pathlib import Path
from subprocess import CalledProcessError
from typing import TypeVar

import pytest
from benchmarks.harness.redis import RedisSentinel, RedisServer, why_no_redis
from tests.budgets.conftest import LEASE_US, PLACE_LEASE_US
from tests.gateway.certificates import Authority
from tests.real.needs import need
from tests.waiting import LONG_S, until

from sluicegate.budgets import NOT_YET, TAKEN, BudgetStoreError, Limit, Member, Place, Request
from sluicegate.budgets.redis.redis_store import RedisBudgetStore
from sluicegate.budgets.redis.redis_url import redis_client

T = TypeVar("T")
BUCKET = "sluicegate:1:fleet:{orders}:bucket"
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


async def eventually(call: Callable[[], Awaitable[T]]) -> T:
    """What it gives once the store answers."""
    async with asyncio.timeout(LONG_S):
        while True:
            try:
                return await call()
            except BudgetStoreError:
                await asyncio.sleep(0.05)


def is_primary(server: RedisServer) -> bool:
    try:
        return b"role:master" in server.ask("INFO", "replication")
    except CalledProcessError:  # Sentinel closes the connections of what it makes a primary
        return False


@pytest.fixture
def started(tmp_path: Path) -> Iterator[MakeServer]:
    need(why_no_redis())
    servers: list[RedisServer] = []

    def start(*options: str, is_cluster: bool = False) -> RedisServer:
        servers.append(RedisServer(tmp_path / str(len(servers)), options, is_cluster=is_cluster))
        return servers[-1].start()

    yield start
    for server in servers:
        server.stop()


async def test_a_login_that_is_missing_or_wrong(started: MakeServer) -> None:
    server = started("--requirepass", "right")
    assert "write user and password into the URL of `budgets`" in await error_of(server.url)
    wrong = server.url.replace("//", "//default:wrong@")
    text = await error_of(wrong)
    assert "write user and password into the URL of `budgets`" in text
    assert "wrong@" not in text
    async with opened(server.url.replace("//", "//default:right@")) as store:
        assert await store.hold([Place("producers", "p", 1)]) == [NOT_YET]


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
    text = await error_of(server.url.replace("redis:", "rediss:"))
    assert "certificate verify failed" in text
    assert "name the authority of the server's certificate by ?ssl_ca_certs=FILE" in text
    assert "if the server wants TLS, write rediss://" in await error_of(server.url)
    missing = server.url.replace("redis:", "rediss:") + f"?ssl_ca_certs={tmp_path / 'none.pem'}"
    assert "look at the files in the URL of `budgets`" in await error_of(missing)


async def test_tls_to_a_server_without_it_names_both_as_the_cause(started: MakeServer) -> None:
    url = started().url.replace("redis:", "rediss:")
    assert "whether the server speaks TLS, as rediss:// says" in await error_of(url, timeout_s=0.3)


async def test_a_user_that_may_do_too_little(started: MakeServer) -> None:
    server = started()
    url = server.url.replace("//", "//joe:secret@")
    user = ("ACL", "SETUSER", "joe", "on", ">secret")
    server.ask(*user, "+@all", "-eval", "-evalsha")
    assert "give it the commands of the groups @scripting" in await error_of(url)
    server.ask(*user, "~sluicegate:*", "-@all", "+@scripting")
    assert "give it the commands of the groups @scripting" in await error_of(url)
    server.ask(*user, "+@read", "+@write", "+@connection", "+@fast")
    async with opened(url) as store:
        await store.reserve([REQUEST])
        await store.hold([Place("producers", "p", 1)])
        assert len(await store.standings()) == 1


async def test_a_cluster_that_does_not_serve_is_away(started: MakeServer) -> None:
    server = started(is_cluster=True)
    assert "slots" in await error_of(server.url.replace("redis:", "redis+cluster:"))


async def test_two_fleets_in_one_server_do_not_meet(started: MakeServer) -> None:
    server = started()
    async with opened(server.url, "one") as one, opened(server.url, "one*}{") as other:
        for store in (one, other):
            await store.begin()
            assert await store.hold([Place("producers", "p", 1, known=True)]) == [TAKEN]
            assert await store.join(Member("g", "kafka/0", "x")) == 1
        await one.reserve([REQUEST])
        assert await other.standings() == []


async def test_another_version_is_named_and_its_keys_stay(started: MakeServer) -> None:
    server = started()
    server.ask("SET", "sluicegate:fleet", "2 1000")
    text = await error_of(server.url)
    assert "fleet 'fleet' are of another version (2; this gateway knows 1)" in text
    assert "give this fleet another `budgets.name`" in text
    async with opened(server.url) as store:
        for call in (store.hold([Place("producers", "p", 1)]), store.join(Member("g", "w", "x"))):
            with pytest.raises(BudgetStoreError, match="another version"):
                await call
    assert server.ask("KEYS", "*").split() == [b"sluicegate:fleet"]


async def test_a_bucket_that_was_evicted_begins_empty(started: MakeServer) -> None:
    server = started("--maxmemory-policy", "allkeys-lru")
    async with opened(server.url) as store:
        await store.begin()
        [grant] = await store.reserve([REQUEST])
        assert server.ask("EXISTS", BUCKET).strip() == b"1"
        server.ask("CONFIG", "SET", "maxmemory", "1")
        until(lambda: server.ask("EXISTS", BUCKET).strip() == b"0")
        server.ask("CONFIG", "SET", "maxmemory", "0")
        [grant] = await store.reserve([replace(REQUEST, known=True, last=grant)])
        assert grant.tokens == 0


async def test_all_is_flushed_in_the_middle(started: MakeServer) -> None:
    server = started()
    async with opened(server.url) as store:
        await store.begin()
        server.ask("FLUSHALL")
        server.ask("SCRIPT", "FLUSH")
        [grant] = await store.reserve([REQUEST])
        assert grant.tokens == 0
        assert await store.hold([Place("producers", "p", 1, known=True)]) == [TAKEN]


async def test_buckets_expire(started: MakeServer) -> None:
    server = started()
    async with opened(server.url) as store:
        [grant] = await store.reserve([REQUEST])
        await store.reserve([replace(REQUEST, last=grant)])
        assert 5_000 < int(server.ask("TTL", BUCKET)) <= 5_400


async def test_sentinels_name_the_new_primary(started: MakeServer, tmp_path: Path) -> None:
    primary = started("--repl-diskless-sync-delay", "0")
    replica = started("--replicaof", "127.0.0.1", str(primary.port))
    until(lambda: b"master_link_status:up" in replica.ask("INFO", "replication"))
    with RedisSentinel(tmp_path / "sentinel", primary) as sentinel:
        until(lambda: str(replica.port).encode() in sentinel.ask("SENTINEL", "REPLICAS", "budgets"))
        async with opened(f"redis+sentinel://127.0.0.1:{sentinel.port}/budgets") as store:
            # On a busy machine Sentinel may take the primary for dead earlier.
            assert await eventually(lambda: store.join(Member("g", "kafka/0", "x"))) == 1
            primary.kill()
            until(lambda: is_primary(replica))
            assert await eventually(lambda: store.join(Member("g", "kafka/0", "x"))) == 1


@pytest.mark.parametrize(
    "url",
    [
        "redis://user:secret@127.0.0.1:port",
        "redis://user:secret@127.0.0.1?unknown=1",
        "redis+sentinel://user:secret@a:1,b:2",
        "redis+cluster://user:secret@a:x",
        "ftp://user:secret@a",
    ],
)
def test_a_url_that_is_none(url: str) -> None:
    with pytest.raises(BudgetStoreError, match="write redis://HOST") as raised:
        redis_client(url)
    assert "secret" not in str(raised.value)


async def test_what_is_kept_of_a_task_ends_by_itself(started: MakeServer) -> None:
    server = started()
    async with opened(server.url) as store:
        await store.attend("main|t", "told", 5)
        await store.publish("main|t", "found")
        start = "sluicegate:1:fleet:{task:main|t}:"
        for key in ("leader", "reports", "ends"):
            assert 0 < int(server.ask("PTTL", start + key)) <= 3_600_000


async def test_calls_for_which_no_message_waits_have_more_time(started: MakeServer) -> None:
    server = started()
    async with opened(server.url, timeout_s=0.01) as store:
        server.pause()
        with pytest.raises(BudgetStoreError, match="no answer within 1000 ms"):
            await store.attend("t", "", 5)
        server.resume()
