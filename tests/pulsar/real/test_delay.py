"""A fixed delivery delay on a real broker: never early, each exactly once, in every form and subscription."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

import pulsar as library
import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.delays import IN_ORDER, assert_not_early, at_once, fixed
from tests.pulsar.real.support.family import (
    ANSWER_S,
    Family,
    Form,
    Received,
    Receiving,
    Subscription,
    collect,
    eventually,
    numbered,
)
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import number_of
from tests.pulsar.real.support.python import PythonFamily, connect

WAY_LATER_MS = 60_000
KINDS = list(Subscription)


@dataclass(frozen=True, slots=True)
class Case:
    """How messages are produced."""

    form: Form
    settings: dict[str, Any] = field(default_factory=dict)
    pad: int = 0
    count: int = 20
    deliver_after_ms: int | None = None


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
        found.append(Case(Form.TRANSACTIONAL))
    else:
        # Beyond what the gate says is the largest message, 256 KiB.
        zstd, chunked = {"compression_type": library.CompressionType.ZSTD}, Case(Form.CHUNKED, {}, 300_000, 5)
    return [*found, Case(Form.COMPRESSED, zstd), chunked]


@pytest.mark.seed(
    "S2-001", "S2-003", "S2-006", "S2-008", "S2-009", "S2-016", "S2-022", "S2-023", "S2-024", "S2-025"
)
def test_every_form_to_every_subscription(
    gate: Gate, admin: Admin, new_topic: NewTopic, family: Family
) -> None:
    topics = {new_topic(): case for case in cases(family.name)}
    fixed(gate, topics, max_message_size="256KiB")

    def scenario(topic: str, case: Case) -> None:
        consumers: dict[str, Receiving] = {
            kind: family.consume(gate.service_url, topic, kind, kind) for kind in KINDS
        }
        consumers["Reader"] = family.read(gate.service_url, topic)
        values = numbered(case.count, pad=case.pad)
        producer = family.produce(
            gate.service_url,
            topic,
            values,
            form=case.form,
            settings=case.settings,
            keys=["a", "b"],
            properties={"p": "q"},
            deliver_after_ms=case.deliver_after_ms,
        )
        assert all(one.entry for one in producer.close())
        for consumer in consumers.values():
            collect(consumer, len(values), 2 * ANSWER_S)
        # Acknowledged is what will not come again.
        eventually(lambda: backlogs(admin, topic) == dict.fromkeys(KINDS, 0), "all is acknowledged")
        for kind, consumer in consumers.items():
            consumer.close()
            expect(consumer.received, values, in_order=kind in IN_ORDER or kind == "Reader")
        if case.deliver_after_ms:
            overridden = "pulsar_broker_topic_messages_fixed_delay_overridden_total"
            gate.eventually(lambda: gate.metric(overridden, topic=topic) == len(values), "it is counted")

    at_once(scenario, topics.items())


def backlogs(admin: Admin, topic: str) -> dict[str, int]:
    """What is not acknowledged, by subscription; a reader's has a name that was made up."""
    told = admin.stats(topic)["subscriptions"]
    return {name: one["msgBacklog"] for name, one in told.items() if name in KINDS}


def expect(received: list[Received], values: list[str], *, in_order: bool) -> None:
    """All values once, not early, as they were sent."""
    found = [one.value for one in received]
    assert Counter(found) == Counter(values)
    if in_order:
        assert found == values
    assert_not_early(received)
    for one in received:
        assert one.key == "ab"[number_of(one.value) % 2]
        assert one.properties == {"p": "q"}


@pytest.mark.seed("S2-008", "S2-023")
def test_schemas_are_as_without_a_delay(
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
