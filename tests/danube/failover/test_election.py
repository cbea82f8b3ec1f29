"""Leader election: one controller of several, and none beside another load manager."""

import pytest
from tests.danube.failover.world import CONTROLLER_TTL_S, World, entries, turn

from sluicegate_danube.failover import keys
from sluicegate_danube.failover.election import ForeignLoadManagerError
from sluicegate_danube.failover.figures import Figures
from sluicegate_danube.failover.load_manager import LeadershipLostError, LoadManager

ID = 2**63 + 5


@pytest.fixture
async def world() -> World:
    """Broker 1 with three topics, and broker 2."""
    made = World()
    await made.start(1)
    await made.start(2)
    for number in range(3):
        await made.provide(f"/default/t{number}", 1)
    return made


async def leader(world: World) -> bytes | None:
    entry = await world.store.get(keys.LEADER)
    return entry.value if entry is not None else None


async def test_the_first_of_two_leads_and_the_other_does_nothing(world: World) -> None:
    first, second = world.controller(ID), world.controller(ID + 1)
    await turn(first)
    await turn(second)
    assert (first.figures.leading, second.figures.leading) == (True, False)
    assert await leader(world) == str(ID).encode()
    await world.leave(1)
    await turn(second)
    assert set((await world.view()).owned) == {1}
    await turn(first)
    assert set((await world.view()).owned) == {2}


async def test_a_controller_that_resigns_is_replaced_at_once(world: World) -> None:
    first, second = world.controller(ID), world.controller(ID + 1)
    await turn(first)
    await first.election.resign()
    await turn(second)
    assert await leader(world) == str(ID + 1).encode()
    assert len((await world.store.list(keys.CONTROLLERS)).entries) == 1


async def test_a_controller_that_dies_is_replaced_when_its_lease_expires(world: World) -> None:
    first, second = world.controller(ID), world.controller(ID + 1)
    await turn(first)
    world.alive.remove(first)
    await world.pass_time(CONTROLLER_TTL_S - 1)
    await turn(second)
    assert second.figures.leading is False
    await world.pass_time(1)
    await turn(second)
    assert second.figures.leading is True


async def test_plans_of_a_paused_leader_are_void_once_another_leads(world: World) -> None:
    first, second = world.controller(ID), world.controller(ID + 1)
    await turn(first)
    fence = first.election.fence
    assert fence is not None
    await world.leave(1)
    view, before = await world.view(), await world.durable()
    world.alive.remove(first)
    await world.pass_time(CONTROLLER_TTL_S)
    assert first.election.fence is None
    await turn(second)
    revision = (await world.view()).revision
    paused = LoadManager(world.store, [fence], Figures())
    with pytest.raises(LeadershipLostError):
        await paused.delete_topic_allocation(view, 1)
    assert (await world.view()).revision == revision
    assert entries(await world.durable()) == entries(before)


async def test_a_lost_lease_is_replaced_by_a_new_one(world: World) -> None:
    controller = world.controller(ID)
    await turn(controller)
    first = controller.election.fence
    world.clock_ns += CONTROLLER_TTL_S * 10**9
    world.leases.clear()
    world.memory.expire()
    await controller.election.keep()
    assert controller.election.fence is None
    await turn(controller)
    assert controller.figures.leading
    assert controller.election.fence not in (None, first)


@pytest.mark.parametrize("value", [b"1", b"not a number"])
async def test_no_controller_starts_where_another_load_manager_leads(world: World, value: bytes) -> None:
    await world.store.put(keys.LEADER, value)
    controller = world.controller(ID)
    for attempt in (controller.election.refuse_foreign, controller.run_once):
        with pytest.raises(ForeignLoadManagerError, match="another load manager leads: /cluster/leader says"):
            await attempt()
    assert await leader(world) == value


async def test_another_controller_does_not_count_as_another_load_manager(world: World) -> None:
    await turn(world.controller(ID))
    await world.controller(ID + 1).election.refuse_foreign()


async def test_take_over_makes_danubes_load_managers_follow(world: World) -> None:
    await world.store.put(keys.LEADER, b"1", await world.store.grant(600))
    controller = world.controller(ID, take_over=True)
    await controller.election.refuse_foreign()
    await turn(controller)
    # A number that is no broker's own id: each broker of Danube takes itself for a follower.
    assert await leader(world) == str(ID).encode()
    assert controller.figures.leading
    await world.leave(1)
    await turn(controller)
    assert set((await world.view()).owned) == {2}


async def test_a_leader_whose_key_is_overwritten_stops(world: World) -> None:
    controller = world.controller(ID)
    await turn(controller)
    await world.store.put(keys.LEADER, b"2")
    await world.leave(1)
    with pytest.raises(ForeignLoadManagerError):
        await turn(controller)
    assert set((await world.view()).owned) == {1}


async def test_foreign_assignments_are_recorded_and_prevent_a_start(
    world: World,
) -> None:
    controller = world.controller(ID)
    await turn(controller)
    after = controller.view.revision
    # Its own writes are not taken for another's.
    await world.leave(1)
    await turn(controller)
    await world.store.put(keys.assignment_key(2, "/default/by-hand"), keys.EMPTY)
    for events in await world.changes(after):
        controller.see(events)
    assert controller.figures.foreign_writes == 1
    await turn(controller)
    with pytest.raises(ForeignLoadManagerError, match="/cluster/brokers/2/default/by-hand within the last"):
        await world.controller(ID + 1).election.refuse_foreign()
    await world.controller(ID + 2, take_over=True).election.refuse_foreign()
    await world.pass_time(60)
    await world.controller(ID + 1).election.refuse_foreign()
