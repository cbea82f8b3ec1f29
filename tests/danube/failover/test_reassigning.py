"""Topics that an operator moves where no controller runs, while the store takes its time."""

import asyncio
from collections.abc import Callable, Sequence

import pytest
from tests.danube.failover.world import CONTROLLER_TTL_S, NS, World, entries

from sluicegate.store.metadata.memory import MemoryMetadata
from sluicegate.store.metadata.metadata_store import Delete, Put, Unchanged
from sluicegate_danube.failover import keys, reassigning
from sluicegate_danube.failover.election import Election
from sluicegate_danube.failover.reassigning import CannotReassignError, Reassigned, Wanted, reassign

TOPICS = 300
"""More than are moved at once."""


class Slow(MemoryMetadata):
    """A store by whose transactions time passes; who sleeps wakes up by that clock."""

    def __init__(self, world: World, each_s: float) -> None:
        super().__init__(world.now_ns, other=world.memory)
        self.each_s = each_s
        self.before: Callable[[int], None] = lambda count: None
        """Called before each transaction with its number."""
        self.count = 0
        self.most_waiting = 0
        self._world = world
        self._sleeping: list[tuple[int, asyncio.Future[None]]] = []

    async def sleep(self, seconds: float) -> None:
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._sleeping.append((self._world.clock_ns + int(seconds * NS), woken))
        await woken

    async def transact(self, conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        self.count += 1
        self.before(self.count)
        self._world.clock_ns += int(self.each_s * NS)
        for due in [each for each in self._sleeping if each[0] <= self._world.clock_ns]:
            self._sleeping.remove(due)
            due[1].set_result(None)
        for _ in range(10):
            await asyncio.sleep(0)
        await self._world.expire()
        made = await super().transact(conditions, changes)
        self.most_waiting = max(self.most_waiting, len((await self._world.view()).unassigned))
        return made


@pytest.fixture
async def world() -> World:
    """Broker 1 with many topics, and broker 2 with none; both outlive the test."""
    made = World()
    for broker in (1, 2):
        await made.start(broker, ttl_s=3600)
    for number in range(TOPICS):
        topic = f"/default/t{number}"
        await made.store.put(keys.namespace_topic_key(topic), b"null")
        await made.store.put(keys.assignment_key(1, topic), keys.EMPTY)
    return made


async def moved(world: World, slow: Slow, wanted: Wanted | None = None) -> Reassigned:
    election = Election(slow, 1001, CONTROLLER_TTL_S, world.now_ns, "reassign")
    return await reassign(slow, wanted or Wanted(source=1), election, slow.sleep)


async def test_a_reassignment_keeps_its_lease_however_long_it_takes(world: World) -> None:
    slow, durable = Slow(world, CONTROLLER_TTL_S / 3), await world.durable()
    done = await moved(world, slow)
    assert world.clock_ns > 3 * CONTROLLER_TTL_S * NS
    assert {(move.source, move.target) for move in done.moved} == {(1, 2)}
    assert (len(done.moved), done.entered, done.left) == (TOPICS, [], [])
    view = await world.view()
    assert (set(view.owned), len(view.owned[2]), view.unassigned) == ({2}, TOPICS, {})
    assert view.leader is None, "it gave its lease up"
    assert await world.store.get(keys.controller_key(1001)) is None
    assert entries(await world.durable()) == entries(durable)


async def test_few_topics_wait_at_a_time(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reassigning, "_AT_ONCE", 100)
    slow = Slow(world, 0)
    assert len((await moved(world, slow)).moved) == TOPICS
    assert slow.most_waiting == 100


@pytest.mark.parametrize("at", range(2, 12))
async def test_a_reassignment_that_loses_its_lease_goes_on(world: World, at: int) -> None:
    """Its process stands still once, for longer than its lease lasts."""
    slow = Slow(world, 0)

    def pause(count: int) -> None:
        if count == at:
            world.clock_ns += 2 * CONTROLLER_TTL_S * NS
            world.memory.expire()

    slow.before = pause
    done = await moved(world, slow)
    view = await world.view()
    assert (len(done.moved), done.entered, view.unassigned) == (TOPICS, [], {})
    assert set(view.owned) == {2}


async def test_what_a_new_leader_is_to_assign_is_entered(world: World) -> None:
    """Another one takes the lead while this command stands still."""
    slow = Slow(world, 0)
    other = Election(world.store, 1002, CONTROLLER_TTL_S, world.now_ns)

    async def overtaken(conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        if slow.count == 3:
            world.clock_ns += 2 * CONTROLLER_TTL_S * NS
            await world.expire()
            await other.campaign()
        return await Slow.transact(slow, conditions, changes)

    slow.transact = overtaken  # type: ignore[method-assign]
    done = await moved(world, slow)
    view = await world.view()
    assert view.leader is not None
    assert view.leader.value == b"1002"
    assert (done.moved, len(done.entered), len(view.unassigned), view.owned) == ([], TOPICS, TOPICS, {})


async def test_a_lead_that_is_lost_again_and_again_is_reported_with_what_waits(world: World) -> None:
    slow = Slow(world, 0)

    def pause(count: int) -> None:
        if count % 3 == 0:
            world.clock_ns += 2 * CONTROLLER_TTL_S * NS
            world.memory.expire()

    slow.before = pause
    with pytest.raises(CannotReassignError, match="lost the lead 3 times") as raised:
        await moved(world, slow)
    view = await world.view()
    waiting = len(view.unassigned)
    assert 0 < waiting <= 250
    assert f"{waiting} of the topics wait without an owner" in str(raised.value)
    assert view.leader is None
    slow.before = lambda count: None
    assert len((await moved(world, slow, Wanted())).moved) == waiting
    await moved(world, slow)
    assert set((await world.view()).owned) == {2}


async def test_waiting_topics_are_assigned_with_those_of_dead_brokers(world: World) -> None:
    await world.provide("/default/waits")
    await world.leave(1)
    done = await moved(world, Slow(world, 1))
    assert len(done.moved) == TOPICS
    done = await moved(world, Slow(world, 1), Wanted())
    assert [(move.topic, move.source, move.target) for move in done.moved] == [("/default/waits", None, 2)]


async def test_a_topic_that_is_named_twice_moves_once(world: World) -> None:
    wanted = Wanted(("/default/t1", "/default/t1"))
    planned = await reassigning.dry_run(world.store, wanted)
    assert [(move.topic, move.target) for move in planned] == [("/default/t1", 2)]
    assert (await moved(world, Slow(world, 0), wanted)).moved == planned


@pytest.mark.parametrize("wanted", [Wanted(source=1, target=1), Wanted(("/default/t1",), target=1)])
async def test_a_topic_that_is_where_it_should_be_is_left_alone(world: World, wanted: Wanted) -> None:
    before = (await world.view()).owners
    assert await reassigning.dry_run(world.store, wanted) == []
    assert await moved(world, Slow(world, 0), wanted) == Reassigned()
    assert (await world.view()).owners == before


@pytest.mark.parametrize("target", [None, 3])
async def test_a_dead_broker_that_comes_back_meanwhile_keeps_the_rest(
    world: World, target: int | None
) -> None:
    for broker in (2, 3):
        await world.start(broker, ttl_s=3600)
    await world.leave(1)
    slow = Slow(world, 0)
    transact = slow.transact

    async def back(conditions: Sequence[Unchanged], changes: Sequence[Put | Delete]) -> bool:
        if slow.count == 3:
            await world.start(1, ttl_s=3600)
        return await transact(conditions, changes)

    slow.transact = back  # type: ignore[method-assign]
    done = await moved(world, slow, Wanted(target=target))
    view = await world.view()
    assert 0 < len(done.moved) < TOPICS
    assert len(view.owned[1]) == TOPICS - len(done.moved)
    assert view.unassigned == {}
