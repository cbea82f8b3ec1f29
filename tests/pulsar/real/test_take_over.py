"""A gateway takes over from another one beside a real Pulsar, and its clients do not notice."""

from benchmarks.harness.gateway import knocking
from tests.pulsar.real.conftest import NewGate, NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.python import PythonFamily, read_topic
from tests.pulsar.real.support.steady import Steady


def test_clients_of_a_gateway_that_is_taken_over_lose_nothing(
    pulsar: PulsarBroker, python: PythonFamily, new_topic: NewTopic, new_gate: NewGate
) -> None:
    gate = new_gate({"max_publish_rate": 100})  # less than is sent, so there is always something held
    topic = new_topic("taken-over")
    steady = Steady(python, gate.service_url, topic)
    with knocking(gate.port) as knocks, steady:
        steady.goes_on(20)
        gate.take_over()
        steady.goes_on(20)
    assert knocks.connected
    assert not knocks.refused
    published = steady.producer.published
    assert all(one.entry for one in published), "a send has failed"
    stored = read_topic(pulsar.service_url, topic)
    judge(published, stored).assert_clean()
