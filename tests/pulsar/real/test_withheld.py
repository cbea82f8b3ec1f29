"""Messages withheld from consumers of a real broker: on time, in order, none lost or doubled."""

import time

import pytest
from tests.pulsar.real.conftest import NewGate, NewTopic
from tests.pulsar.real.support.family import Family, Received, Subscription, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.waiting import until

DELAY_MS = 1_500
ONE_BY_ONE = [Subscription.EXCLUSIVE, Subscription.FAILOVER]


def check_times(received: list[Received]) -> None:
    assert min(one.at_ms - one.published_ms for one in received) >= DELAY_MS


@pytest.mark.longer(but="python")
@pytest.mark.seed("S2-006", "S2-024")
@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_a_fixed_delay_where_the_broker_has_none(
    gate: Gate, new_topic: NewTopic, family: Family, kind: Subscription
) -> None:
    topic, values = new_topic(), numbered(30)
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": f"{DELAY_MS}ms"}]})
    consumer = family.consume(gate.service_url, topic, "late", kind)
    family.produce(gate.service_url, topic, values, interval_ms=20).close()
    received = collect(consumer, len(values))
    consumer.close()
    assert [one.value for one in received] == values
    check_times(received)


@pytest.mark.longer(but="python")
@pytest.mark.parametrize("kind", ONE_BY_ONE)
def test_a_rejected_message_and_those_behind_it_are_redelivered(
    gate: Gate, new_topic: NewTopic, family: Family, kind: Subscription
) -> None:
    topic, values = new_topic(), numbered(20)
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": f"{DELAY_MS}ms"}]})
    consumer = family.consume(gate.service_url, topic, "again", kind, nacks=1)
    family.produce(gate.service_url, topic, values, interval_ms=100).close()
    until(lambda: {one.value for one in consumer.received} == set(values), "all have come")
    until(lambda: [one.value for one in consumer.received].count(values[0]) > 1, "the first came again")
    consumer.close()
    check_times(consumer.received)


@pytest.mark.longer(but="python")
def test_withheld_messages_go_to_the_consumer_that_takes_over(
    gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic, values = new_topic(), numbered(20)
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": f"{DELAY_MS}ms"}]})
    consumers = [family.consume(gate.service_url, topic, "one", Subscription.FAILOVER) for _ in range(2)]
    family.produce(gate.service_url, topic, values).close()
    consumers[0].close()
    early = consumers[0].received
    until(lambda: len(consumers[1].received) + len(early) >= len(values), "all have come")
    consumers[1].close()
    received = consumers[1].received + early
    assert sorted(one.value for one in received) == sorted(values)
    check_times(received)


@pytest.mark.longer(but="python")
@pytest.mark.seed("S1-006")
@pytest.mark.parametrize("kind", [Subscription.EXCLUSIVE, Subscription.SHARED])
def test_small_buffers_lose_no_messages(
    new_gate: NewGate, new_topic: NewTopic, family: Family, kind: Subscription
) -> None:
    topic, values = new_topic(), numbered(1_000, pad=5_000)
    own = new_gate({"topics": [{"name": topic, "max_dispatch_rate": 400}]}, consumer_buffer="256KiB")
    family.produce(own.service_url, topic, values).close()
    began_ms = time.time_ns() // 1_000_000
    consumer = family.consume(own.service_url, topic, "slow", kind)
    received = collect(consumer, len(values))
    consumer.close()
    assert [one.value for one in received] == values
    assert received[-1].at_ms - began_ms >= 1_400
