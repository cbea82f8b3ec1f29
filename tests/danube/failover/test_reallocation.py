"""What moves when a broker dies, and what stays, key by key."""

import json
from contextlib import aclosing

import pytest
from tests.danube.failover.world import CONTROLLER_TTL_S, World, entries, turn

from sluicegate.store.metadata.metadata_store import Listing
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.controller import Controller
from sluicegate_danube.failover.election import Election
from sluicegate_danube.failover.figures import Figures
from sluicegate_danube.failover.load_manager import LoadManager
from sluicegate_danube.failover.values import PlacementHint, hint_value

NS = 1_000_000_000


@pytest.fixture
async def world() -> World:
    """Broker 1 with three topics, and broker 2 with none."""
    made = World()
    await made.start(1)
    await made.start(2)
    for name in ("/default/a", "/default/b", "/other/a"):
        await made.provide(name, 1)
    return made


@pytest.mark.seed("S3-001", "S3-002", "S3-003", "S3-014")
async def test_only_assignments_are_deleted_and_each_topic_becomes_unassigned(world: World) -> None:
    await world.leave(1)
    view, before = await world.view(), await world.durable()
    manager = LoadManager(world.store, (), Figures())
    released, alone = await manager.delete_topic_allocation(view, 1)
    assert (released, alone) == (["/default/a", "/default/b", "/other/a"], set())
    after = [event for events in await world.changes(view.revision) for event in events]
    assert sorted(event.key for event in after if event.entry is None) == [
        f"/cluster/brokers/1{topic}" for topic in released
    ]
    assert sorted((e.key, e.entry.value) for e in after if e.entry is not None) == [
        (f"/cluster/unassigned{topic}", b"null") for topic in released
    ]
    assert entries(await world.durable()) == entries(before)


@pytest.mark.seed("S3-004", "S3-005", "S3-006", "S3-017")
async def test_topics_of_a_dead_broker_move_to_a_live_one(world: World) -> None:
    before = await world.durable()
    controller = world.controller()
    await turn(controller)
    await world.kill(1)
    await turn(controller)
    assert await world.owners() == {"/default/a": [2], "/default/b": [2], "/other/a": [2]}
    assert (await world.view()).unassigned == {}
    assert entries(await world.durable()) == entries(before)


@pytest.mark.seed("S3-006")
@pytest.mark.parametrize("survivors", [2, 3, 7])
async def test_two_hundred_topics_spread_evenly_in_few_transactions(survivors: int) -> None:
    world = World()
    for broker in range(survivors + 1):
        await world.start(broker)
    for number in range(200):
        await world.provide(f"/default/t{number}", 0)
    before = await world.durable()
    await world.leave(0)
    revision = (await world.view()).revision
    await turn(world.controller())
    view = await world.view()
    counts = [len(view.owned[broker]) for broker in range(1, survivors + 1)]
    assert (sum(counts), view.unassigned) == (200, {})
    assert max(counts) <= 1.2 * min(counts)
    assert entries(await world.durable()) == entries(before)
    # 64 topics at most in a transaction, and two for the controller's own keys.
    assert view.revision - revision <= 2 * (200 // 50) + 2


async def test_the_broker_with_fewest_topics_then_lowest_usage_is_next(world: World) -> None:
    for broker, usage in ((2, 90), (3, 10), (4, 50)):
        if broker > 2:
            await world.start(broker)
        report = {"resources_usage": [{"resource": "CPU", "usage": usage}], "topics_len": 0}
        await world.store.put(keys.load_key(broker), json.dumps(report).encode())
    await world.provide("/default/c", 3)
    await world.leave(1)
    await turn(world.controller())
    # First those without topics, the less busy before; then all have one, and the least busy has another.
    assert await world.owners() == {
        "/default/a": [4],
        "/default/b": [2],
        "/default/c": [3],
        "/other/a": [3],
    }


async def test_load_comes_from_reports_or_else_from_topic_counts() -> None:
    world = World()
    for broker in (1, 2, 3, 4):
        await world.start(broker)
    for broker, usage in ((2, 100), (3, 69)):
        report = {"resources_usage": [{"resource": "CPU", "usage": usage}], "topics_len": 0}
        await world.store.put(keys.load_key(broker), json.dumps(report).encode())
    for number in range(50):
        await world.provide(f"/default/t{number}", 1)
    await world.leave(1)
    await turn(world.controller())
    owned = (await world.view()).owned
    assert {broker: len(topics) for broker, topics in owned.items()} == {2: 10, 3: 20, 4: 20}


@pytest.mark.seed("S3-012")
async def test_a_broker_back_within_the_grace_period_keeps_its_topics(world: World) -> None:
    controller = world.controller(grace_ns=3 * NS)
    await turn(controller)
    before = (await world.view()).owned[1]
    for _ in range(5):
        await world.leave(1)
        await turn(controller)
        await world.pass_time(2)
        await turn(controller)
        assert (await world.view()).owned == {1: before}
        await world.start(1)
        await turn(controller)
    await world.leave(1)
    await turn(controller)
    assert controller.absences.due_ns() == world.clock_ns + 3 * NS
    await world.pass_time(3)
    await turn(controller)
    assert (await world.view()).owned == {2: before}


async def test_a_broker_that_drains_gets_no_topics(world: World) -> None:
    await world.start(3)
    await world.store.put(keys.state_key(2), b'{"mode": "draining", "reason": "admin_unload"}')
    await world.leave(1)
    await turn(world.controller())
    assert set((await world.view()).owned) == {3}


async def test_a_broker_restarted_under_a_new_id_gets_topics_under_that_id_only(
    world: World,
) -> None:
    await world.start(3, address="http://10.0.0.2:6650")  # broker 2 before, whose lease still lasts
    await world.leave(1)
    await turn(world.controller())
    assert set((await world.view()).owned) == {3}


async def test_topics_wait_for_a_live_broker(world: World) -> None:
    controller = world.controller()
    await world.leave(1)
    await world.leave(2)
    await turn(controller)
    view = await world.view()
    assert (view.owners, len(view.unassigned)) == ({}, 3)
    assert controller.figures.failovers == 0
    await world.start(9)
    await turn(controller)
    assert set((await world.view()).owned) == {9}
    assert (controller.figures.failovers, controller.figures.owners_changed) == (1, 3)


@pytest.mark.parametrize(
    ("hint", "owner"),
    [
        (PlacementHint(excluded=2), 3),
        (PlacementHint(excluded=3), 2),
        (PlacementHint(excluded=1, target=3), 3),
        (PlacementHint(excluded=1, target=9), 2),
    ],
)
async def test_unassigned_entries_may_prefer_a_broker(world: World, hint: PlacementHint, owner: int) -> None:
    await world.start(3)
    await world.provide("/default/new")
    await world.store.put(keys.unassigned_key("/default/new"), hint_value(hint))
    await turn(world.controller())
    assert (await world.owners())["/default/new"] == [owner]


async def test_topics_without_durable_entries_are_left_alone(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.store.put(keys.assignment_key(1, "/default/ghost"), keys.EMPTY)
    await world.store.put(keys.assignment_key(1, "/nowhere/ghost"), keys.EMPTY)
    await world.leave(1)
    controller = world.controller()
    for _ in range(3):
        await turn(controller)
    assert (await world.view()).owned[1] == {"/default/ghost", "/nowhere/ghost"}
    assert (controller.figures.topics["unlisted"], controller.figures.failovers) == (2, 1)
    assert caplog.text.count("2 topics of dead broker 1 have no durable entry and are left alone") == 1


async def test_topics_without_policy_or_schema_move_and_are_reported(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    await world.store.delete(keys.topic_key("/default/a", "policy"))
    await world.store.delete(keys.topic_key("/default/b", "schema"))
    await world.store.delete(keys.topic_key("/other/a", "schema"))
    await world.store.put(keys.topic_key("/other/a", "schema_subject"), b'"orders"')
    await world.leave(1)
    controller = world.controller()
    await turn(controller)
    assert set((await world.view()).owned) == {2}
    assert controller.figures.incomplete == {"policy": 1, "schema": 1}
    assert "3 to broker 2; 1 without a policy: /default/a; 1 without a schema: /default/b" in caplog.text


async def test_one_failover_logs_one_line(world: World, caplog: pytest.LogCaptureFixture) -> None:
    controller = world.controller()
    await turn(controller)
    caplog.clear()
    await world.leave(1)
    await turn(controller)
    await turn(controller)
    warnings = [record.getMessage() for record in caplog.records if record.levelname == "WARNING"]
    assert warnings == [
        "broker 1 (http://10.0.0.1:6650) is dead: 3 topics moved in 0.000 s, 3 to broker 2",
    ]


STRANGE = [
    ("/cluster/brokers/1/no-topic", b"null"),
    ("/cluster/brokers/one/default/t", b"null"),
    ("/cluster/register/1x", b'"http://10.0.0.9:1"'),
    ("/cluster/load/2", b"\xff"),
    ("/cluster/unassigned/default/strange", b'{"reason": "because"}'),
    ("/cluster/unassigned/t", b"null"),
    ("/cluster/brokers/2/state", b"[]"),
    ("/cluster/register/3", b"{}"),
]


async def test_keys_and_values_of_unknown_shape_are_counted_and_kept(world: World) -> None:
    for key, value in STRANGE:
        await world.store.put(key, value)
    await world.start(4)
    await world.leave(1)
    controller = world.controller()
    await turn(controller)
    assert controller.figures.strange_keys == len(STRANGE)
    for key, value in STRANGE:
        entry = await world.store.get(key)
        assert entry is not None
        assert entry.value == value
    # Brokers whose registration or state cannot be read get nothing.
    assert set((await world.view()).owned) == {4}


async def test_a_broker_with_an_unreadable_registration_counts_as_live(world: World) -> None:
    entry = await world.store.get(keys.registration_key(1))
    assert entry is not None
    await world.store.put(entry.key, b"?", entry.lease)
    await turn(world.controller())
    assert set((await world.view()).owned) == {1}


async def test_unfinished_moves_of_another_load_manager_are_cleaned_up(world: World) -> None:
    # It assigns first and deletes the unassigned entry afterwards; here it died in between.
    await world.store.put(keys.unassigned_key("/default/a"), keys.EMPTY)
    # An unload enters the topic first and takes it from its broker afterwards: not to be touched.
    await world.store.put(keys.unassigned_key("/default/b"), hint_value(PlacementHint(excluded=1)))
    # It took a topic of a dead broker, assigned it, and the old assignment is still there.
    await world.store.put(keys.assignment_key(7, "/other/a"), keys.EMPTY)
    await turn(world.controller())
    view = await world.view()
    assert set(view.unassigned) == {"/default/b"}
    assert {topic: list(owners) for topic, owners in view.owners.items()} == {
        "/default/a": [1],
        "/default/b": [1],
        "/other/a": [1],
    }


async def test_two_live_owners_are_reported_and_left_alone(world: World) -> None:
    await world.store.put(keys.assignment_key(2, "/default/a"), keys.EMPTY)
    controller = world.controller()
    await turn(controller)
    assert controller.figures.topics["owned_twice"] == 1
    assert (await world.owners())["/default/a"] == [1, 2]


async def test_a_registration_under_an_id_in_use_is_reported(
    world: World, caplog: pytest.LogCaptureFixture
) -> None:
    controller = world.controller()
    await controller.refresh()
    after = controller.view.revision
    await world.start(1, address="http://10.0.0.77:6650")
    for events in await world.changes(after):
        controller.see(events)
    assert controller.figures.registered_again == 1
    assert "broker 1 (http://10.0.0.1:6650) is registered again under the same id" in caplog.text


@pytest.mark.parametrize("jump_s", [3_600, -3_600])
async def test_a_clock_jump_moves_no_topics_of_a_live_broker(world: World, jump_s: int) -> None:
    """The broker is back within its grace, and the controller has not seen that when its clock jumps."""
    clock = [10 * 3_600 * NS]
    election = Election(world.store, 1001, CONTROLLER_TTL_S, lambda: clock[0])
    controller = Controller(world.store, election, 3 * NS, lambda: clock[0])
    await world.leave(1)
    await turn(controller)
    before, durable = (await world.view()).owned[1], entries(await world.durable())
    await world.start(1)
    clock[0] += jump_s * NS
    for _ in range(2):
        await controller.run_once()
        await controller.election.keep()
        assert (await world.view()).owned == {1: before}

    await controller.refresh()
    await world.leave(1)
    for _ in range(2):
        await turn(controller)
        await controller.election.keep()
        clock[0] += 3 * NS
    assert (await world.view()).owned == {2: before}, "graces count from the jump on"
    assert entries(await world.durable()) == durable


async def test_a_change_that_overtakes_a_listing_is_not_lost(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    controller = world.controller()
    await turn(controller)
    before = await world.store.list(keys.CLUSTER)

    async def late(prefix: str) -> Listing:
        return before

    with monkeypatch.context() as answers:
        answers.setattr(world.memory, "list", late)
        await world.provide("/default/new")
        async with aclosing(world.store.watch(keys.CLUSTER, before.revision)) as changes:
            controller.see(await anext(changes))
        await controller.refresh()
    await controller.run_once()
    assert (await world.owners())["/default/new"] == [2]
