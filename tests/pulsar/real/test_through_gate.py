"""The gateway without policies: stock clients and admin clients work as they do without it."""

import pytest
from tests.pulsar.real.conftest import NewGate, NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import EVERY_FORM, Family, Form, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.python import PythonFamily, read_topic


@pytest.mark.parametrize(("family", "form"), EVERY_FORM, indirect=["family"])
def test_messages_of_every_kind_arrive(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, family: Family, form: Form
) -> None:
    topic = new_topic(partitions=2)
    pad = 0 if form is not Form.CHUNKED else 3_000 if family.name == "java" else 6_000_000
    values = numbered(2 if pad else 20, pad=pad)
    before = passed(gate)
    published = family.produce(gate.service_url, topic, values, form=form).close()
    assert {one.value for one in published if one.entry} == set(values)
    consumer = family.consume(gate.service_url, topic, "all")
    received = collect(consumer, len(values))
    consumer.close()
    assert sorted(one.value for one in received) == sorted(values)
    gate.eventually(lambda: passed(gate) >= before + len(values), "the gate has counted them")


def passed(gate: Gate) -> float:
    return gate.metric("sluicegate_messages_total", broker="pulsar", direction="publish")


def test_admin_clients_reach_the_broker(gate: Gate, new_topic: NewTopic) -> None:
    topic = new_topic()
    web = gate.web()
    web.create_subscription(topic, "made through the gate")
    assert web.subscriptions(topic) == ["made through the gate"]
    web.set_policy(topic, "maxProducers", 3)
    assert web.policy(topic, "maxProducers") == 3
    web.close()


@pytest.mark.longer
def test_a_gateway_that_is_killed_and_restarted(
    pulsar: PulsarBroker, new_gate: NewGate, new_topic: NewTopic, python: PythonFamily
) -> None:
    gate, topic, values = new_gate(), new_topic(), numbered(40)
    producer = python.produce(gate.service_url, topic, values[:20])
    assert len(producer.close()) == 20
    gate.kill9()
    gate.restart()
    python.produce(gate.service_url, topic, values[20:]).close()
    assert [one.value for one in read_topic(pulsar.service_url, topic)] == values
