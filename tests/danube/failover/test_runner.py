"""The controller as it runs: it follows the store, renews its lease, and outlives the store's failures."""

import asyncio
from collections.abc import AsyncGenerator, AsyncIterator, Sequence
from contextlib import asynccontextmanager
from time import monotonic_ns

import pytest
from tests.danube.failover.world import World, entries
from tests.waiting import until_so

from sluicegate.store.metadata.memory import MemoryMetadata
from sluicegate.store.metadata.metadata_store import Delete, Entry, Event, Put, Unchanged
from sluicegate.store.policy_store import StoreError, StoreUnavailableError
from sluicegate_danube.failover import keys, runner
from sluicegate_danube.failover.controller import Controller
from sluicegate_danube.failover.election import Election, ForeignLoadManagerError

TTL_S = 3600
"""No test waits for a lease of a controller: it is renewed after 20 minutes."""


@pytest.fixture
async def world() -> World:
    """Broker 1 with three topics, and broker 2; the store's clock is turned by hand."""
    made = World()
    await made.start(1)
    await made.start(2)
    for number in range(3):
        await made.provide(f"/default/t{number}", 1)
    return made


@asynccontextmanager
async def running(
    world: World, controller: int = 1001, grace_ns: int = 0, store: MemoryMetadata | None = None
) -> AsyncIterator[Controller]:
    """A controller that runs within the block."""
    own = store or world.memory.another()
    made = Controller(own, Election(own, controller, TTL_S, monotonic_ns), grace_ns)
    stopping = asyncio.Event()
    task = asyncio.ensure_future(runner.run(made, own, TTL_S, stopping))
    try:
        yield made
    finally:
        stopping.set()
        await task


async def owners(world: World) -> set[int]:
    return set((await world.view()).owned)


@pytest.mark.seed("S3-006", "S3-017")
async def test_topics_move_as_soon_as_the_registration_is_gone(world: World) -> None:
    before = await world.durable()
    async with running(world) as controller:
        await until_so(lambda: controller.figures.leading)
        await world.leave(1)
        await until_so(lambda: controller.figures.failovers == 1)
        assert await owners(world) == {2}
    assert entries(await world.durable()) == entries(before)
    # It gave its lease up.
    assert await world.store.get(keys.LEADER) is None


async def test_topics_move_after_the_grace_period(world: World) -> None:
    async with running(world, grace_ns=50_000_000) as controller:
        await until_so(lambda: controller.figures.leading)
        await world.leave(1)
        await until_so(lambda: controller.figures.failovers == 1)
        assert controller.figures.last_failover_took_s >= 0.05


async def test_the_standby_resumes_where_the_first_ended(world: World) -> None:
    async with running(world, 1001) as first:
        await until_so(lambda: first.figures.leading)
        async with running(world, 1002) as second:
            await until_so(lambda: second.view.leader is not None)
            assert not second.figures.leading
            await world.store.revoke(first.election._lease or 0)
            await until_so(lambda: first.figures.leading != second.figures.leading)
            await world.leave(1)
            await until_so(lambda: first.figures.failovers + second.figures.failovers == 1)
            assert await owners(world) == {2}


async def test_compacted_changes_trigger_a_new_listing(world: World) -> None:
    async with running(world) as controller:
        await until_so(lambda: controller.figures.leading)
        await world.leave(1)
        await world.memory.compact()
        await until_so(lambda: controller.figures.failovers == 1)
        assert await owners(world) == {2}


class Unreliable(MemoryMetadata):
    """A store that can be made to answer nothing."""

    error: StoreError | None = None

    def _refuse(self) -> None:
        if self.error is not None:
            raise self.error

    async def get(self, key: str) -> Entry | None:
        self._refuse()
        return await super().get(key)

    async def transact(self, conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        self._refuse()
        return await super().transact(conditions, changes)

    async def watch(self, prefix: str, after: int) -> AsyncGenerator[Sequence[Event], None]:
        async for events in super().watch(prefix, after):
            self._refuse()
            yield events


@pytest.mark.parametrize(
    "error",
    [
        StoreUnavailableError("etcd cannot be reached", "start it"),
        StoreUnavailableError("etcd did not answer within 2 s", "check its load"),
        StoreUnavailableError("etcd has no quorum", "start its other members"),
        StoreError("etcd refuses user or password", "correct them"),
    ],
    ids=["down", "slow", "no quorum", "wrong credentials"],
)
async def test_topics_move_only_once_the_store_is_back(
    world: World, caplog: pytest.LogCaptureFixture, error: StoreError
) -> None:
    unreliable = Unreliable(world.now_ns, other=world.memory)
    async with running(world, store=unreliable) as controller:
        await until_so(lambda: controller.figures.leading)
        unreliable.error = error
        before = entries(await world.durable())
        await world.leave(1)
        await until_so(lambda: controller.figures.store_errors > 1)
        assert await owners(world) == {1}
        unreliable.error = None
        await until_so(lambda: controller.figures.failovers == 1)
        assert await owners(world) == {2}
        assert entries(await world.durable()) == before
    assert error.message in caplog.text
    assert caplog.text.count("no topic moves while the metadata store cannot be used") == 1
    assert "the metadata store answers again" in caplog.text


async def test_the_runner_ends_when_another_load_manager_leads(world: World) -> None:
    own = world.memory.another()
    controller = Controller(own, Election(own, 1001, TTL_S, monotonic_ns))
    task = asyncio.ensure_future(runner.run(controller, own, TTL_S, asyncio.Event()))
    await until_so(lambda: controller.figures.leading)
    await world.store.put(keys.LEADER, b"2")
    with pytest.raises(ForeignLoadManagerError):
        await task
    assert not controller.figures.leading
    assert await world.store.get(keys.controller_key(1001)) is None


async def test_the_runner_stops_in_bounded_time_without_the_store(world: World) -> None:
    class Silent(MemoryMetadata):
        async def revoke(self, lease: int) -> None:
            raise StoreError("no answer", "look after etcd")

    silent = Silent(world.now_ns, other=world.memory)
    async with running(world, store=silent) as controller:
        await until_so(lambda: controller.figures.leading)
