"""Never more attached than there are places, whatever gateways, clients and single calls of the store do."""

import asyncio
from dataclasses import dataclass, field
from random import Random

from hypothesis import example, given
from hypothesis import strategies as st
from tests.leasing.gateways import LEASE_NS, MS, Fleet, Gateway, S, producer

from sluicegate.model import Operation

PRODUCERS = "max_producers_per_topic"
_PLACES = 3
_NAMES = st.sampled_from("abcdef")
_GATEWAYS = st.integers(0, 2)
_STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("attach"), _GATEWAYS, _NAMES),
        st.tuples(st.just("leave"), _GATEWAYS, _NAMES),
        st.tuples(st.just("rename"), _GATEWAYS, _NAMES),
        st.tuples(st.just("move"), _GATEWAYS, _NAMES),
        st.tuples(st.just("notice"), _GATEWAYS, _NAMES),
        st.tuples(st.just("kill"), _GATEWAYS, st.just("")),
        st.tuples(st.just("away"), _GATEWAYS, st.just("")),
        st.tuples(st.just("lose"), _GATEWAYS, st.just("")),
        st.tuples(st.just("forget"), st.just(0), st.just("")),
        st.tuples(st.just("wait"), st.integers(1, 9), st.just("")),
    ),
    max_size=60,
)


@dataclass
class World:
    """Three gateways, of which each producer knows one at a time, while others may not know that it left."""

    fleet: Fleet = field(default_factory=lambda: Fleet({PRODUCERS: _PLACES}, "pause"))
    starts: int = 0
    where: dict[str, tuple[Gateway, str]] = field(default_factory=dict)
    """The gateway of each producer that has attached, and its key there."""
    left: set[tuple[str, str]] = field(default_factory=set)
    """Names of gateways that do not know yet that one has left, with its key."""

    def __post_init__(self) -> None:
        for _ in range(3):
            self.start()

    def start(self) -> None:
        self.starts += 1
        self.fleet.add(f"gateway {self.starts}")

    async def step(self, what: str, number: int, name: str) -> None:
        gateway = self.fleet.gateways[number % 3]
        if name:
            await self.step_of_producer(what, gateway, name)
        elif what == "kill":
            self.fleet.gateways.remove(gateway)
            self.where = {each: at for each, at in self.where.items() if at[0] is not gateway}
            self.left = {each for each in self.left if each[0] != gateway.name}
            self.start()
        elif what in ("away", "lose"):
            gateway.store.is_away, gateway.store.loses_answers = what == "away", what == "lose"
            await self.fleet.wait(500 * MS)
            gateway.store.is_away = gateway.store.loses_answers = False
            await gateway.holder.turn()
        elif what == "forget":
            self.fleet.budgets.forget()
        elif what == "wait":
            await self.fleet.wait(number * 200 * MS)
        assert len({key for each in self.fleet.gateways for key in each.state.producers}) <= _PLACES

    async def step_of_producer(self, what: str, gateway: Gateway, name: str) -> None:
        if what == "attach":
            key = f"id {name}" if ord(name) % 2 else f"name {name}"
            if name not in self.where and await gateway.attach(self.operation(key)) == "in":
                self.attached(name, gateway, key)
        elif what == "leave" and name in self.where:
            gateway, key = self.where.pop(name)
            gateway.gate.detach(self.operation(key))
        elif what == "rename" and name in self.where:
            gateway, key = self.where[name]
            if f"name {name}" not in gateway.state.producers:
                gateway.state.producers.rename(key, f"name {name}", roams=True)
                self.where[name] = gateway, f"name {name}"
        elif what == "move" and name in self.where:
            before, key = self.where[name]
            if key.startswith("name") and await gateway.attach(self.operation(key)) == "in":
                self.left.add((before.name, key))
                self.attached(name, gateway, key)
        elif what == "notice":
            self.notice(gateway, f"name {name}")

    def attached(self, name: str, gateway: Gateway, key: str) -> None:
        self.where[name] = gateway, key
        self.left.discard((gateway.name, key))

    def notice(self, gateway: Gateway, key: str) -> None:
        if (gateway.name, key) in self.left:
            self.left.remove((gateway.name, key))
            gateway.gate.detach(self.operation(key))

    @staticmethod
    def operation(key: str) -> Operation:
        return producer(key, roams=key.startswith("name"))


_RENEWED_WHERE_IT_LEFT = [
    ("attach", 2, "b"),
    ("attach", 0, "a"),
    ("attach", 0, "c"),
    ("move", 0, "b"),
    ("wait", 5, ""),
    ("notice", 2, "b"),
    ("wait", 1, ""),
    ("attach", 1, "d"),
]


@given(_STEPS)
@example(_RENEWED_WHERE_IT_LEFT)
def test_there_are_never_more_than_places(steps: list[tuple[str, int, str]]) -> None:
    async def play() -> None:
        world = World()
        for step in steps:
            await world.step(*step)
        world.where.clear()
        for gateway in world.fleet.gateways:  # in the end all places are to be had again
            for key in list(gateway.state.producers):
                gateway.gate.detach(producer(key))
        await world.fleet.wait(2 * LEASE_NS)
        answers = [await world.fleet.gateways[0].attach(producer(f"new {number}")) for number in range(4)]
        assert answers == ["in"] * _PLACES + ["out"]

    asyncio.run(play())


async def most_and_least(fleet: Fleet, producers: int, seed: int) -> tuple[int, dict[int, int]]:
    """Let producers without a place ask at any gateway until they have one; kill each gateway once.

    :return: the most that were attached together, and how long it took after each kill, in ns, until all
        places were taken again.
    """
    random = Random(seed)
    most, slowest, began_ns = 0, dict[int, int](), fleet.now_ns
    attached: dict[str, Gateway] = {}
    kills = {2 * S: 0, 10 * S: 1}
    while fleet.now_ns < began_ns + 20 * S:
        for after_ns in [at for at in kills if fleet.now_ns - began_ns >= at]:
            dead = fleet.gateways.pop(kills.pop(after_ns))
            attached = {name: at for name, at in attached.items() if at is not dead}
            fleet.add(f"{dead.holder} again")
            slowest[after_ns] = 0
        for number in random.sample(range(producers), producers):
            name = f"id {number}"
            gateway = random.choice(fleet.gateways)
            if name not in attached and gateway.decide(producer(name)) == "in":
                attached[name] = gateway
        most = max(most, len(attached))
        assert len(attached) == sum(len(each.state.producers) for each in fleet.gateways)
        if len(attached) < 10:
            for after_ns in slowest:
                if fleet.now_ns - began_ns < after_ns + 8 * S:
                    slowest[after_ns] = fleet.now_ns - began_ns - after_ns
        await fleet.wait(100 * MS)
    return most, slowest


async def test_a_hundred_producers_share_ten_places_though_each_gateway_dies_once() -> None:
    fleet = Fleet({PRODUCERS: 10})
    fleet.add("one")
    fleet.add("two")

    most, slowest = await most_and_least(fleet, producers=100, seed=1)

    assert most == 10
    assert all(ns <= LEASE_NS + S for ns in slowest.values()), slowest
