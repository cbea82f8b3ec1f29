"""Attachments wait for their places at every door, as they wait for the connection rate."""

from typing import Any, Generic, TypeVar

import pytest
from tests.bench import Bench
from tests.grpc.lab import TOPIC
from tests.grpc.semantics.calls.lab import Lab
from tests.kafka.session.messages import batch, join, produce
from tests.kafka.session.wire import Wire as KafkaWire
from tests.leasing.gateways import LEASE_NS, MS, Fleet
from tests.pulsar.session.consumers.test_consuming import answer_list
from tests.pulsar.session.deliveries import subscribe
from tests.pulsar.session.messages import producer
from tests.pulsar.session.wire import Bench as PulsarBench
from tests.pulsar.session.wire import Wire as PulsarWire

from sluicegate.budgets import MemoryBudgets, MemoryBudgetStore
from sluicegate.engine.state import TopicState
from sluicegate.leasing.places import PlaceHolder
from sluicegate.model import Action, TopicName
from sluicegate.sessions.work import Until
from sluicegate.testing import build_gate

AnyWire = TypeVar("AnyWire", KafkaWire, PulsarWire)


class Door(Generic[AnyWire]):
    """One of two gateways with one store, on the clock of its wire."""

    def __init__(self, budgets: MemoryBudgets, bench: Bench, wire: AnyWire, name: str) -> None:
        store = MemoryBudgetStore(budgets, name)
        self.wire: AnyWire = wire
        self.holder = PlaceHolder(store, "broker", name, LEASE_NS, "share", lambda: 2, lambda: self.wire.now)
        bench.gates.broker.places = self.holder

    async def sends(self, *frames: bytes) -> None:
        """The client sends something, and the store answers."""
        self.wire.client_sends(*frames)
        for _ in range(3):
            await self.holder.turn()
            self.wire.wait(0.005)


@pytest.fixture
def budgets() -> MemoryBudgets:
    """A store that has been there for long."""
    now_us = [0]
    made = MemoryBudgets(200_000, LEASE_NS // 1000, lambda: now_us[0])
    now_us[0] = 10 * LEASE_NS // 1000
    return made


def kafka(budgets: MemoryBudgets, name: str, **policies: int) -> Door[KafkaWire]:
    """A gateway in front of Kafka."""
    bench = Bench(**policies)
    return Door(budgets, bench, KafkaWire(bench), name)


def pulsar(budgets: MemoryBudgets, name: str, **policies: int) -> Door[PulsarWire]:
    """A gateway in front of Pulsar."""
    bench = PulsarBench(**policies)
    return Door(budgets, bench, PulsarWire(bench), name)


async def test_a_kafka_producer_waits_for_its_place(budgets: MemoryBudgets) -> None:
    one, two = (kafka(budgets, name, max_producers_per_topic=1) for name in ("one", "two"))
    for door, passed in ((one, 1), (two, 0)):
        await door.sends(produce({"t": batch(b"x")}))
        assert len(door.wire.forwarded()) == passed
        assert len(door.wire.answered()) == 1 - passed


async def test_a_kafka_producer_with_an_id_is_the_same_everywhere(budgets: MemoryBudgets) -> None:
    one, two = (kafka(budgets, name, max_producers_per_topic=1) for name in ("one", "two"))
    for door in (one, two):
        await door.sends(produce({"t": batch(b"x", producer_id=5)}))
        assert len(door.wire.forwarded()) == 1


@pytest.mark.parametrize("policy", ["max_consumers_per_topic", "max_consumers_per_subscription"])
async def test_a_member_of_a_kafka_group_waits_for_its_place(budgets: MemoryBudgets, policy: str) -> None:
    one, two = (kafka(budgets, name, **{policy: 1}) for name in ("one", "two"))
    for door, member, passed in ((one, "m1", 1), (two, "m2", 0), (two, "m1", 1)):
        await door.sends(join("g", "t", member=member))
        assert len(door.wire.forwarded()) == passed
        assert len(door.wire.answered()) == 1 - passed


async def test_a_pulsar_producer_waits_for_its_place(budgets: MemoryBudgets) -> None:
    one, two = (pulsar(budgets, name, max_producers_per_topic=1) for name in ("one", "two"))
    for door, passed in ((one, 1), (two, 0)):
        await door.sends(producer(1, 1))
        assert len(door.wire.sent_up()) == passed
        assert len(door.wire.sent_down()) == 1 - passed


async def test_a_pulsar_consumer_waits_for_its_place(budgets: MemoryBudgets) -> None:
    one, two = (pulsar(budgets, name, max_consumers_per_topic=1) for name in ("one", "two"))
    for door, passed in ((one, 1), (two, 0)):
        await door.sends(subscribe(1, 1))
        assert len(door.wire.sent_up()) == passed
        assert len(door.wire.sent_down()) == 1 - passed


async def test_a_subscription_of_kafka_waits_for_its_place(budgets: MemoryBudgets) -> None:
    one, two = (kafka(budgets, name, max_subscriptions_per_topic=1) for name in ("one", "two"))
    for door, group, passed in ((one, "g", 1), (two, "h", 0), (two, "g", 1)):
        door.wire.shared.learned.listing.learned({}, door.wire.now, door.wire.now)  # none is there yet
        await door.sends(join(group, "t", member="m"))
        assert len(door.wire.forwarded()) == passed
        assert len(door.wire.answered()) == 1 - passed


async def test_a_subscription_of_pulsar_waits_for_its_place(budgets: MemoryBudgets) -> None:
    one, two = (pulsar(budgets, name, max_subscriptions_per_topic=1) for name in ("one", "two"))
    for door, subscription, passed in ((one, "a", 1), (two, "b", 0), (two, "a", 1)):
        await door.sends(subscribe(1, 1, subscription=subscription))
        if door.wire.asked:
            answer_list(door.wire)  # the broker does not name any yet
            await door.sends()
            door.wire.asked.clear()
        assert len(door.wire.sent_up()) == passed
        assert len(door.wire.sent_down()) == 1 - passed


@pytest.mark.parametrize("kind", ["producer", "consumer", "subscription"])
async def test_calls_of_grpc_wait_for_their_places(kind: str) -> None:
    policies = {f"max_{kind}s_per_topic": 1}
    fleet = Fleet(policies)
    labs = [Lab(**policies), Lab(**policies)]
    for lab, name in zip(labs, ("one", "two"), strict=True):
        gateway = fleet.add(name)
        state = TopicState(TopicName(TOPIC, "default"), 0, gateway.state.broker)
        lab._gates[TOPIC, False] = build_gate(policies, now_ns=0, topic=state.topic, state=state)

    async def asks(index: int, name: str) -> Action | None:
        lab = labs[index]
        if kind == "producer":
            asking = lab.ask_producer(name, now_ns=fleet.now_ns)
        else:
            more: dict[str, Any] = {"subscription": name} if kind == "subscription" else {}
            asking = lab.ask_consumer(f"consumer of {name}", now_ns=fleet.now_ns, **more)
        assert isinstance(asking.waits, Until)
        await fleet.gateways[index].holder.turn()
        decision = asking.again(fleet.now_ns + 4 * MS)
        if decision is None:
            asking.attached(1, fleet.now_ns)
        return None if decision is None else decision.action

    assert await asks(0, "a") is None
    assert await asks(1, "b") is Action.REJECT
    assert await asks(1, "a") is None
