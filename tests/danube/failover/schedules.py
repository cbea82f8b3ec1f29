"""Schedules of what happens to a cluster, and of what goes wrong between any two steps of its controllers."""

from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import dataclass
from typing import TypeAlias

from hypothesis import strategies as st
from tests.danube.failover.faulty import DiedError, Fault, FaultyStore, Law
from tests.danube.failover.world import CONTROLLER_TTL_S, World, turn

from sluicegate.store.policy_store import StoreError
from sluicegate_danube.failover.controller import Controller
from sluicegate_danube.failover.figures import Figures
from sluicegate_danube.failover.load_manager import LoadManager
from sluicegate_danube.failover.values import PlacementHint

BROKERS = range(1, 5)
TOPICS = [f"/default/t{number}" for number in range(7)]
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
    """Plays rounds with two controllers.

    :param world: a cluster in memory if not given.
    """

    def __init__(self, world: World | None = None) -> None:
        self.world = world or World()
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
                    await world.view(), broker, hint=PlacementHint(excluded=broker)
                )
            case "remove":
                await world.remove(TOPICS[broker])
            case "pause":
                # No other controller is paused: the acting controller's lease ends, and no other.
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
        controller._store = controller.election.store = own
        try:
            with suppress(StoreError):
                await turn(controller)
        except DiedError:
            self.controllers[number] = None
        finally:
            controller._store = controller.election.store = self.world.store
        return own.steps

    async def play(self, rounds: list[Round]) -> None:
        """What happens in each round, and then its controller's turn."""
        for each in rounds:
            for event in each.happens:
                await self.happen(event, each.controller)
                await self.law.check(None)
            await self.take_turn(each.controller, each.faults, each.meanwhile)

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
