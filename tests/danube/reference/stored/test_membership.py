"""A broker's registration, on a clock that is turned by hand."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import pytest
from tests.waiting import until_so

from sluicegate.store.metadata import Entry, MemoryMetadata
from sluicegate.store.policy_store import StoreError
from sluicegate_danube.reference.stored.membership import Membership

KEY, VALUE, TTL_S = "/cluster/register/1", b'"http://a:1"', 9
SECOND = 1_000_000_000


class Shaky(MemoryMetadata):
    """A store that can be away."""

    away = False

    async def keep_alive(self, lease: int) -> None:
        if self.away:
            raise StoreError("the store is away", "wait")
        await super().keep_alive(lease)


class Bench:
    """One membership, its store and its clock; `sleep` ends when the clock is turned."""

    def __init__(self) -> None:
        self.now_ns = SECOND
        self.store = Shaky(lambda: self.now_ns)
        self.told: list[str] = []
        self.member = self.make(VALUE)
        self._turned = asyncio.Event()
        self._sleeping = 0

    def make(self, value: bytes) -> Membership:
        return Membership(
            self.store,
            KEY,
            value,
            TTL_S,
            on_registered=lambda: self._tell("registered"),
            on_lost=lambda: self._tell("lost"),
            now_ns=lambda: self.now_ns,
            sleep=self._sleep,
        )

    def is_valid(self) -> bool:
        return self.member.is_valid

    async def _tell(self, what: str) -> None:
        self.told.append(what)

    async def _sleep(self, seconds: float) -> None:
        due_ns = self.now_ns + int(seconds * SECOND)
        while self.now_ns < due_ns:
            self._sleeping += 1
            await self._turned.wait()
            self._sleeping -= 1

    async def turn(self, seconds: float) -> None:
        """Turn the clock, and have all be done that is due then."""
        await until_so(lambda: self._sleeping)
        self.now_ns += int(seconds * SECOND)
        self.store.expire()
        self._turned.set()
        self._turned = asyncio.Event()
        for _ in range(20):
            await asyncio.sleep(0)

    async def entry(self) -> Entry | None:
        return await self.store.get(KEY)


@asynccontextmanager
async def running(bench: Bench) -> AsyncIterator[Bench]:
    task = asyncio.ensure_future(bench.member.run())
    try:
        await until_so(lambda: bench.told == ["registered"])
        yield bench
    finally:
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


@pytest.fixture
async def bench() -> AsyncIterator[Bench]:
    async with running(Bench()) as made:
        yield made


async def test_a_broker_stays_registered_as_long_as_it_renews(bench: Bench) -> None:
    for _ in range(8):
        await bench.turn(TTL_S / 3)
    assert bench.is_valid()
    found = await bench.entry()
    assert found is not None
    assert found.value == VALUE
    assert bench.told == ["registered"]


async def test_a_pause_longer_than_the_lease_ends_serving_before_anything_else(bench: Bench) -> None:
    bench.now_ns += (TTL_S + 1) * SECOND  # SIGSTOP, SIGCONT: nothing of the process has run yet
    assert not bench.is_valid()
    await bench.turn(0)
    assert bench.told == ["registered", "lost", "registered"]
    assert bench.is_valid()
    assert bench.member.lost == 1


async def test_a_pause_shorter_than_the_lease_changes_nothing(bench: Bench) -> None:
    await bench.turn(TTL_S - 1)
    assert bench.told == ["registered"]
    await bench.turn(TTL_S - 1)
    assert bench.told == ["registered"]


async def test_a_deleted_registration_is_created_again(bench: Bench) -> None:
    await bench.store.delete(KEY)
    await bench.turn(TTL_S / 3)
    assert bench.told == ["registered", "lost", "registered"]
    assert await bench.entry() is not None


async def test_a_long_store_outage_ends_serving(bench: Bench) -> None:
    """It cannot know whether its lease lives on there, so that another may have its topics."""
    bench.store.away = True
    await bench.turn(TTL_S / 3)
    assert bench.is_valid()
    for _ in range(3):
        await bench.turn(TTL_S / 3)
    assert bench.told[:2] == ["registered", "lost"]


async def test_a_short_store_outage_changes_nothing(bench: Bench) -> None:
    bench.store.away = True
    await bench.turn(TTL_S / 3)
    bench.store.away = False
    for _ in range(3):
        await bench.turn(TTL_S / 3)
    assert bench.told == ["registered"]
    assert bench.is_valid()


async def test_two_brokers_cannot_share_an_id(caplog: pytest.LogCaptureFixture) -> None:
    bench = Bench()
    lease = await bench.store.grant(TTL_S)
    await bench.store.put(KEY, b'"http://other:1"', lease)
    task = asyncio.ensure_future(bench.member.run())
    await bench.turn(1)
    assert not bench.is_valid()
    assert "held by another broker" in caplog.text
    await bench.turn(TTL_S)
    await until_so(lambda: bench.told == ["registered"])
    task.cancel()
    await asyncio.gather(task, return_exceptions=True)


async def test_a_restarted_broker_takes_over_its_own_registration() -> None:
    async with running(Bench()) as bench:
        again = bench.make(VALUE)
        task = asyncio.ensure_future(again.run())
        await until_so(lambda: again.is_valid)
        await bench.turn(TTL_S / 3)
        assert bench.member.lost == 1  # the one that was taken for dead finds out
        task.cancel()
        await asyncio.gather(task, return_exceptions=True)


async def test_leaving_ends_the_lease(bench: Bench) -> None:
    await bench.member.leave()
    assert await bench.entry() is None
    assert not bench.is_valid()
