"""Large messages on a real broker: their payload passes unread, and is stored as it was sent."""

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import Form, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.python import PythonFamily, read_topic
from tests.pulsar.real.support.raw import RawClient, message

MIB = 1024 * 1024


@pytest.mark.parametrize("form", [Form.SINGLE, Form.BATCHED])
def test_messages_of_a_mebibyte_are_stored_exactly_and_refused_ones_not_at_all(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, python: PythonFamily, form: Form
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, "max_publish_rate_bytes": "1GiB/s"}]})
    values = numbered(40, pad=MIB) if form is Form.SINGLE else numbered(400, pad=20_000)
    settings = {"batching_max_allowed_size_in_bytes": MIB} if form is Form.BATCHED else {}
    published = python.produce(gate.service_url, topic, values, form=form, settings=settings).close()
    stored = read_topic(pulsar.service_url, topic)
    assert all(one.entry is not None for one in published)
    judge(published, stored).assert_clean()
    gate.apply({"topics": [{"name": topic, "max_message_size": 5_000}]})
    refused = python.produce(gate.service_url, topic, values[:5], form=Form.SINGLE).close()
    assert all(one.entry is None for one in refused)
    assert len(read_topic(pulsar.service_url, topic)) == len(stored)


def test_a_client_that_dies_in_the_middle_of_a_message_leaves_nothing_of_it(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic
) -> None:
    topic = new_topic()
    client = RawClient(gate.bootstrap)
    client.producer(topic)
    for number in range(2):
        assert client.publish(bytes(MIB), sequence_id=number).HasField("send_receipt")
    command, rest = message(bytes(MIB), sequence_id=2, producer_id=1)
    body = command.SerializeToString()
    sizes = (4 + len(body) + len(rest)).to_bytes(4) + len(body).to_bytes(4)
    client.socket.sendall((sizes + body + rest)[: MIB // 2])
    client.socket.close()
    assert len(read_topic(pulsar.service_url, topic)) == 2
