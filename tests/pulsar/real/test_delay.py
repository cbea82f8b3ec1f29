"""A fixed delivery delay on a real broker: never early, each exactly once, in every form and subscription."""

import pulsar as library
import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.delays import Case, at_once, deliver, fixed
from tests.pulsar.real.support.family import ANSWER_S, Family, Form
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.python import PythonFamily, connect

WAY_LATER_MS = 60_000


def cases(family: str) -> list[Case]:
    """All forms that a library can produce; delayed ones go out singly, whatever the settings say."""
    found = [
        Case(Form.SINGLE, deliver_after_ms=WAY_LATER_MS),
        Case(Form.SINGLE, deliver_after_ms=1),
        Case(Form.BATCHED),
        Case(Form.COMPRESSED),
        Case(Form.ENCRYPTED),
    ]
    if family == "java":
        zstd, chunked = {"compressionType": "ZSTD"}, Case(Form.CHUNKED, pad=3_000, count=5)
    else:
        # Beyond what the broker says is the largest message, 5 MiB.
        zstd = {"compression_type": library.CompressionType.ZSTD}
        chunked = Case(Form.CHUNKED, {}, 5_400_000, 2)
    return [*found, Case(Form.COMPRESSED, zstd), chunked]


@pytest.mark.seed(
    "S2-001", "S2-003", "S2-006", "S2-008", "S2-009", "S2-016", "S2-022", "S2-023", "S2-024", "S2-025"
)
def test_every_kind_of_message_reaches_every_subscription_type(
    gate: Gate, admin: Admin, new_topic: NewTopic, family: Family
) -> None:
    topics = {new_topic(): case for case in cases(family.name)}
    fixed(gate, topics)

    def scenario(topic: str, case: Case) -> None:
        deliver(gate, admin, topic, family, case)
        if case.deliver_after_ms:
            overridden = "pulsar_broker_topic_messages_fixed_delay_overridden_total"
            gate.eventually(lambda: gate.metric(overridden, topic=topic) == case.count, "it is counted")

    at_once(scenario, topics.items())


@pytest.mark.seed("S2-008", "S2-023")
def test_a_delay_leaves_schemas_unchanged(
    pulsar: PulsarBroker, gate: Gate, new_topic: NewTopic, python: PythonFamily
) -> None:
    topic = new_topic()
    fixed(gate, [topic])
    schema = library.schema.StringSchema()
    client = connect(gate.service_url)
    direct = connect(pulsar.service_url)
    consumer = client.subscribe(topic, "one", library.ConsumerType.Shared, schema=schema)
    for sender in (direct, client):
        sender.create_producer(topic, schema=schema).send("a string")
    messages = [consumer.receive(ANSWER_S * 1_000) for _ in range(2)]
    assert [message.value() for message in messages] == ["a string"] * 2
    versions = {message.schema_version() for message in messages}
    assert len(versions) == 1
    assert versions != {b""}
    client.close()
    direct.close()
