"""Brokers whose delayed delivery is switched off deliver at once; the gateway delays in their place."""

from collections.abc import Iterator

import pytest
from tests.pulsar.real.conftest import NewTopic, _shown
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.delays import DELAY_MS, assert_not_early, fixed
from tests.pulsar.real.support.family import Family, Subscription, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.python import PythonFamily

SHARED = [Subscription.SHARED, Subscription.KEY_SHARED]
_INACTIVE = {"active": False, "tickTime": 100}


@pytest.fixture(scope="module")
def hasty_pulsar(pulsar_libs: None, tmp_path_factory: pytest.TempPathFactory) -> Iterator[PulsarBroker]:
    """One node that delays nothing."""
    directory = tmp_path_factory.mktemp("hasty") / "node"
    with _shown(PulsarBroker(directory, delayedDeliveryEnabled="false")) as broker:
        yield broker
    broker.admin.close()


def deliver(gate: Gate, topic: str, family: Family) -> None:
    """Produce to a topic with a fixed delay: both kinds of subscription must get all, once and not early."""
    consumers = {kind: family.consume(gate.service_url, topic, kind, kind) for kind in SHARED}
    values = numbered(10)
    producer = family.produce(gate.service_url, topic, values, keys=["a", "b"])
    assert all(one.entry for one in producer.close())
    for consumer in consumers.values():
        received = collect(consumer, len(values))
        assert sorted(one.value for one in received) == sorted(values)
        assert_not_early(received)
        consumer.close()


@pytest.mark.longer(but="python")
@pytest.mark.seed("S2-001", "S2-006", "S2-024")
def test_a_broker_with_delays_disabled(
    hasty_pulsar: PulsarBroker, tmp_path_factory: pytest.TempPathFactory, family: Family
) -> None:
    topic = f"persistent://public/default/{family.name}"
    hasty_pulsar.admin.create_topic(topic)
    directory = tmp_path_factory.mktemp("gate") / "run"
    with Gate(directory, hasty_pulsar.address, admin_url=hasty_pulsar.admin_url) as gate:
        fixed(gate, [topic])
        deliver(gate, topic, family)


@pytest.mark.longer(but="python")
@pytest.mark.seed("S2-001", "S2-006", "S2-024")
def test_a_topic_with_delays_disabled(gate: Gate, admin: Admin, new_topic: NewTopic, family: Family) -> None:
    topic = new_topic()
    fixed(gate, [topic])
    admin.set_policy(topic, "delayedDelivery", _INACTIVE)
    deliver(gate, topic, family)


@pytest.mark.seed("S2-001", "S2-006")
def test_delays_disabled_while_messages_wait_at_the_broker(
    gate: Gate, admin: Admin, new_topic: NewTopic, python: PythonFamily
) -> None:
    """The policy changes at the broker itself, without the gateway's knowledge."""
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "fixed_delivery_delay": "5s"}]})
    consumer = python.consume(gate.service_url, topic, "one")
    values = numbered(5)
    producer = python.produce(gate.service_url, topic, values)
    assert all(one.entry for one in producer.close())
    admin.set_policy(topic, "delayedDelivery", _INACTIVE)
    received = collect(consumer, len(values))
    assert sorted(one.value for one in received) == values
    assert min(one.at_ms - one.published_ms for one in received) >= 5_000 > DELAY_MS
    consumer.close()
