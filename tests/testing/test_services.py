"""What a front gets of its gateway in a test."""

import asyncio

import pytest

from sluicegate.api import GateFaults, Listener, Operation, OperationKind, Services, TopicName
from sluicegate.testing import ManualServices, RecordingSink


def name_of(topic: str) -> TopicName:
    return TopicName(topic, topic.partition("/")[0])


def batch(topic: str, largest: int) -> Operation:
    return Operation(OperationKind.PUBLISH, topic, messages=1, bytes=largest, largest=largest)


def test_policies_hold_for_every_topic_and_decisions_go_to_the_sink() -> None:
    sink = RecordingSink()
    services: Services = ManualServices(
        name_of, {"max_message_size": "1KiB"}, sink=sink, faults=GateFaults(), budget=10
    )
    for topic in ("eu/orders", "us/orders"):
        gate = services.gates.get(topic, False, 0)
        assert gate.topic == name_of(topic)
        assert gate.publish(batch(topic, 1024), 0) is None
        assert gate.publish(batch(topic, 1025), 0) is not None
    assert len(sink.decisions) == 2
    assert [layer.name for layer in services.policies.layers if layer.settings] == [""]
    assert not services.budget.take(11)


async def test_listeners_and_facts_are_kept_and_work_is_left_to_the_test() -> None:
    services = ManualServices(name_of)
    await services.listen(Listener("bootstrap", "127.0.0.1", 1, ()))
    assert services.listeners["bootstrap"].port == 1
    services.stop_listening("bootstrap")
    assert services.listeners == {}
    services.remember("node.1", "a:1")
    services.remember("other", "b")
    services.remember("other", "")
    assert (services.recall("node."), services.kept) == ({"node.1": "a:1"}, {"node.1": "a:1"})

    asked = []

    async def ask() -> None:
        await asyncio.sleep(0)
        asked.append("nodes")

    services.spawn(ask())
    assert asked == []
    await services.spawned.pop()
    assert asked == ["nodes"]
    assert services.wall_ms(2_500_000) == 2
    assert services.broker_tls is None
    with pytest.raises(AttributeError):
        services.tls_for(None)
