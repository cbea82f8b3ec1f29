"""Policies that read properties, on a real broker with stock clients."""

import time

import pulsar as library
import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import ANSWER_S, Family, Form, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.python import PythonFamily, connect, read_topic

ERRORS = {"python": "ChecksumError", "java": "NotAllowedException"}
SENT = {"trace": "1", "x-secret": "2"}
STORED = {"trace": "1"}
COUNT = 20
CODECS = [
    library.CompressionType.LZ4,
    library.CompressionType.ZLib,
    library.CompressionType.ZSTD,
    library.CompressionType.SNAPPY,
]


@pytest.mark.parametrize("family", ["python", "java"], indirect=True)
@pytest.mark.parametrize("form", [Form.SINGLE, Form.BATCHED, Form.COMPRESSED])
def test_a_required_property_is_asked_for_and_another_removed(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, family: Family, form: Form
) -> None:
    topic, values = new_topic(), numbered(COUNT)
    rules = {"required_headers": ["trace"], "remove_headers": "x-*"}
    gate.apply({"topics": [{"name": topic, **rules}]})
    stored = family.produce(gate.service_url, topic, values, form=form, properties=SENT).close()
    refused = family.produce(gate.service_url, topic, values, form=form, properties={"x": "1"}).close()

    assert [one.error for one in stored] == [""] * COUNT
    assert {one.error for one in refused} == {ERRORS[family.name]}
    received = read_topic(pulsar.service_url, topic)
    assert [one.value for one in received] == values
    assert [dict(one.properties) for one in received] == [STORED] * COUNT


@pytest.mark.parametrize("codec", CODECS, ids=str)
def test_clients_unpack_what_was_packed_again(
    gate: Gate,
    pulsar: PulsarBroker,
    new_topic: NewTopic,
    python: PythonFamily,
    codec: library.CompressionType,
) -> None:
    topic, values = new_topic(), numbered(500, pad=300)
    gate.apply({"topics": [{"name": topic, "remove_headers": "x-*"}]})
    settings = {"compression_type": codec, "batching_max_publish_delay_ms": 500}
    published = python.produce(
        gate.service_url, topic, values, form=Form.BATCHED, properties=SENT, settings=settings
    ).close()

    assert all(one.entry for one in published)
    received = read_topic(pulsar.service_url, topic)
    assert [one.value for one in received] == values
    assert [dict(one.properties) for one in received] == [STORED] * len(values)


def test_properties_of_encrypted_messages_are_read_and_those_of_batches_refused(
    gate: Gate, new_topic: NewTopic, python: PythonFamily
) -> None:
    topic, values = new_topic(), numbered(COUNT)
    gate.apply({"topics": [{"name": topic, "required_headers": "trace"}]})
    single = python.produce(gate.service_url, topic, values, form=Form.ENCRYPTED, properties=SENT).close()
    assert [one.error for one in single] == [""] * COUNT
    bare = python.produce(gate.service_url, topic, values, form=Form.ENCRYPTED).close()
    assert {one.error for one in bare} == {ERRORS["python"]}
    batching = {"batching_enabled": True}
    batched = python.produce(
        gate.service_url, topic, values, form=Form.ENCRYPTED, properties=SENT, settings=batching
    ).close()
    assert {one.error for one in batched} == {ERRORS["python"]}


def test_a_header_says_when_a_message_is_delivered(
    gate: Gate, new_topic: NewTopic, python: PythonFamily
) -> None:
    topic, delay_ms = new_topic(), 3_000
    gate.apply({"topics": [{"name": topic, "delay_header": "when", "max_delivery_delay": "1h"}]})
    client = connect(gate.service_url)
    consumer = client.subscribe(topic, "one", library.ConsumerType.Shared)
    producer = client.create_producer(topic)
    with pytest.raises(library.ChecksumError):
        producer.send(b"soon", properties={"when": "soon"})
    with pytest.raises(library.ChecksumError):
        producer.send(b"too late", properties={"when": "2h"})
    began_ms = time.time_ns() // 1_000_000
    producer.send(b"after a delay", properties={"when": "3s"})
    producer.send(b"at a time", properties={"when": str(began_ms + delay_ms)})
    producer.send(b"at once")
    is_due = time.time_ns() // 1_000_000 >= began_ms + delay_ms  # if something stood still
    values = []
    for _ in range(3):
        message = consumer.receive(ANSWER_S * 1_000)
        values.append(message.data())
        if message.data() != b"at once":
            assert time.time_ns() // 1_000_000 >= began_ms + delay_ms
    client.close()
    assert values[0] == b"at once" or is_due
    assert sorted(values) == [b"after a delay", b"at a time", b"at once"]
