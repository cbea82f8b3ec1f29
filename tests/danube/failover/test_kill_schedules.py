"""Brokers and controllers die at any step, stores fail at any step: each topic keeps one owner, or waits."""

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

import pytest
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from tests.danube.failover.faulty import DiedError, Fault, FaultyStore, Law
from tests.danube.failover.world import CONTROLLER_TTL_S, World, turn

from sluicegate.store.base import StoreError
from sluicegate_danube.failover.controller import Controller
from sluicegate_danube.failover.figures import Figures
from sluicegate_danube.failover.load_manager import LoadManager
from sluicegate_danube.failover.values import Wish

BROKERS = range(1, 5)
TOPICS = [f"/default/t{number}" for number in range(7)]
PHASES = set(Phase) - {Phase.explain}
"""What failed is told in the log; explaining it takes minutes."""
Event: TypeAlias = tuple[str, int]

EVENTS = ["leave", "start", "restart", "unload", "remove"]
broker_events = st.tuples(st.sampled_from(EVENTS), st.sampled_from(BROKERS))
events = broker_events | st.sampled_from([("other controller", 0), ("pause", 0)])


@dataclass(frozen=True)
class Round:
    """What happens, and then one turn of a controller with what goes wrong in it."""

    happens: list[Event]
    controller: int
    faults: dict[int, Fault]
    meanwhile: dict[int, Event]


steps = st.integers(0, 20)
rounds = st.builds(
    Round,
    st.lists(events, max_size=3),
    st.sampled_from([0, 1]),
    st.dictionaries(steps, st.sampled_from(Fault), max_size=2),
    st.dictionaries(steps, events, max_size=3),
)


class Schedule:
    """Plays rounds with two controllers."""

    def __init__(self) -> None:
        self.world = World()
        self.law = Law(self.world)
        self.ids = iter(range(1001, 10**6))
        self.controllers: list[Controller | None] = [None, None]

    async def begin(self, alive: list[int]) -> None:
        for broker in alive:
            await self.world.start(broker)
        for number, topic in enumerate(TOPICS):
            await self.world.provide(topic, alive[number % len(alive)])
        await self.law.begin()

    async def happen(self, event: Event, acting: int) -> None:
        """Something happens to the cluster, between two steps of the controller that acts."""
        what, broker = event
        world = self.world
        match what:
            case "leave" | "restart" if broker in world.leases:
                await world.leave(broker)
        match what:
            case "start" | "restart" if broker not in world.leases:
                await world.start(broker)
            case "unload":
                await LoadManager(world.store, (), Figures()).delete_topic_allocation(
                    await world.view(), broker, wish=Wish(without=broker)
                )
            case "remove":
                await world.remove(TOPICS[broker])
            case "pause":
                # Nobody else is paused: the acting controller's lease ends, and no other.
                world.alive = [each for each in self.controllers if each is not None]
                world.alive = [each for each in world.alive if each is not self.controllers[acting]]
                await world.pass_time(CONTROLLER_TTL_S + 1)
            case "other controller":
                await self.take_turn(1 - acting, {}, {})

    async def take_turn(self, number: int, faults: dict[int, Fault], meanwhile: dict[int, Event]) -> int:
        """A turn of one of the two controllers; one that has died is replaced before.

        :return: how many steps it took.
        """
        controller = self.controllers[number]
        if controller is None:
            controller = self.world.controller(next(self.ids))
            self.controllers[number] = controller

        def happening(event: Event) -> Callable[[], Awaitable[None]]:
            return lambda: self.happen(event, number)

        own = FaultyStore(
            self.world,
            self.law,
            controller.election.controller,
            faults,
            {step: happening(event) for step, event in meanwhile.items()},
        )
        controller._store = controller.election._store = own
        try:
            with suppress(StoreError):
                await turn(controller)
        except DiedError:
            self.controllers[number] = None
        finally:
            controller._store = controller.election._store = self.world.store
        return own.steps

    async def end(self) -> None:
        """All is well again: some broker lives, and a controller finishes."""
        if not self.world.leases:
            await self.world.start(BROKERS[0])
        self.world.alive = []
        await self.world.pass_time(CONTROLLER_TTL_S + 1)
        self.controllers = [None, None]
        for _ in range(2):
            await self.take_turn(0, {}, {})
        view = await self.world.view()
        assert view.unassigned == {}
        assert sorted(view.owners) == sorted(self.law.topics)
        assert all(
            len(owners) == 1 and owners.keys() <= self.world.leases.keys() for owners in view.owners.values()
        )


@pytest.mark.seed("S3-001", "S3-002", "S3-003")
@pytest.mark.parametrize("what", [*Fault, *EVENTS, "pause", "other controller"])
def test_one_thing_goes_wrong_between_any_two_steps(what: Fault | str) -> None:
    async def scheduled(step: int, broker: int) -> int:
        schedule = Schedule()
        await schedule.begin([1, 2, 3])
        await schedule.take_turn(0, {}, {})
        await schedule.happen(("leave", 1), 0)
        await schedule.law.check(None)
        faults = {step: what} if isinstance(what, Fault) else {}
        meanwhile = {} if isinstance(what, Fault) else {step: (what, broker)}
        steps = await schedule.take_turn(0, faults, meanwhile)
        await schedule.end()
        return steps

    step = 0
    while step <= max([asyncio.run(scheduled(step, broker)) for broker in (1, 2, 3)]):
        step += 1
    assert step > 8


@pytest.mark.seed("S3-003", "S3-006", "S3-017")
@settings(
    max_examples=200,
    phases=PHASES,
    suppress_health_check=[HealthCheck.too_slow],
)
@given(
    alive=st.lists(st.sampled_from(BROKERS), min_size=1, max_size=4, unique=True),
    play=st.lists(rounds, min_size=1, max_size=6),
)
def test_no_topic_is_lost_or_owned_twice_whoever_dies_at_whatever_step(
    alive: list[int], play: list[Round]
) -> None:
    async def scheduled() -> None:
        schedule = Schedule()
        await schedule.begin(alive)
        for each in play:
            for event in each.happens:
                await schedule.happen(event, each.controller)
                await schedule.law.check(None)
            await schedule.take_turn(each.controller, each.faults, each.meanwhile)
        await schedule.end()

    asyncio.run(scheduled())
