"""A fixed delivery delay on a real broker: never early, each exactly once, in every form and subscription."""

import random
import time
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

import pulsar as library
import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.admin import Admin, topic_path
from tests.pulsar.real.support.broker import PulsarBroker
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
from tests.pulsar.real.support.raw import RawClient

from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

DELAY_MS = 1_500
WAY_LATER_MS = 60_000
IN_ORDER = (Subscription.EXCLUSIVE, Subscription.FAILOVER)
KINDS = list(Subscription)
WIRE_KINDS = {"Exclusive": 0, "Shared": 1, "Failover": 2, "Key_Shared": 3}


def fixed(gate: Gate, topics: Iterable[str], **broker: object) -> None:
    """Fix the delay of these topics."""
    named = [{"name": topic, "fixed_delivery_delay": f"{DELAY_MS}ms"} for topic in topics]
    gate.apply({"broker": broker, "topics": named})


def at_once(scenarios: Sequence[Callable[[], None]]) -> None:
    """Run what mostly waits side by side; the first failure is raised."""
    with ThreadPoolExecutor(len(scenarios)) as pool:
        for done in [pool.submit(scenario) for scenario in scenarios]:
            done.result()


def assert_not_early(received: Iterable[Received]) -> None:
    early = {one.value[:20]: one.at_ms - one.published_ms for one in received}
    assert min(early.values(), default=DELAY_MS) >= DELAY_MS, early


# -- all forms ----------------------------------------------------------------------------------------


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

    at_once([lambda one=one: scenario(*one) for one in topics.items()])  # type: ignore[misc]


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


# -- consumers that go --------------------------------------------------------------------------------


@pytest.mark.seed("S2-024", "S2-027")
@pytest.mark.parametrize("crashes", [False, True], ids=["closes", "crashes"])
def test_a_consumer_goes_while_messages_are_withheld(
    gate: Gate, admin: Admin, new_topic: NewTopic, family: Family, crashes: bool
) -> None:
    topics = {new_topic(): kind for kind in KINDS}
    fixed(gate, topics)

    def scenario(topic: str, kind: Subscription) -> None:
        values = numbered(10)
        if crashes:
            raw = RawClient(gate.bootstrap)
            assert not raw.subscribe(topic, "one", kind=WIRE_KINDS[kind]).HasField("error")
            raw.send(permits(1_000))
        else:
            first = family.consume(gate.service_url, topic, "one", kind)
        family.produce(gate.service_url, topic, values, keys=["a", "b"]).close()
        if kind in IN_ORDER:  # for the others it is the broker that withholds
            eventually(lambda: given(admin, topic) >= len(values), "the gate has all messages")
        before: list[Received] = []
        if crashes:
            raw.close()
            eventually(lambda: not consumers(admin, topic), "the broker has noticed")
        else:
            first.close()
            before = first.received
        second = family.consume(gate.service_url, topic, "one", kind)
        collect(second, len(values) - len(before))
        second.close()
        # On a busy machine the first may have got some, when they were due.
        assert_not_early([*before, *second.received])
        found = [one.value for one in (*before, *second.received)]
        assert Counter(found) == Counter(values)
        assert kind not in IN_ORDER or found == values

    at_once([lambda one=one: scenario(*one) for one in topics.items()])  # type: ignore[misc]


def permits(count: int) -> BaseCommand:
    command = BaseCommand(type=BaseCommand.FLOW)
    command.flow.consumer_id = 1
    command.flow.message_permits = count
    return command


def given(admin: Admin, topic: str) -> int:
    """How many messages the broker has sent to the subscription's consumers."""
    found: int = admin.stats(topic)["subscriptions"]["one"]["msgOutCounter"]
    return found


def consumers(admin: Admin, topic: str) -> list[object]:
    found: list[object] = admin.stats(topic)["subscriptions"]["one"]["consumers"]
    return found


# -- what it is good for ------------------------------------------------------------------------------


@pytest.mark.seed("S2-018", "S2-028")
def test_one_delay_instead_of_many_spares_the_broker_its_state(
    pulsar: PulsarBroker, gate: Gate, admin: Admin, new_topic: NewTopic
) -> None:
    """Random delays leave holes between what is acknowledged, which a cursor can persist only so many of."""
    count, topics = 150, {"direct": new_topic(), "gate": new_topic()}
    urls = {"direct": pulsar.service_url, "gate": gate.service_url}
    fixed(gate, [topics["gate"]])
    delays: dict[str, set[int]] = {}
    holes: dict[str, int] = {}

    def scenario(way: str, topic: str) -> None:
        client = connect(urls[way])
        consumer = client.subscribe(topic, "one", library.ConsumerType.Shared)
        places = publish_at_random(client, topic, count)
        holes[way] = acknowledge_all(consumer, count, lambda: holes_now(admin, topic))
        delays[way] = {delay_ms(admin, topic, place) for place in places}
        client.close()

    at_once([lambda one=one: scenario(*one) for one in topics.items()])  # type: ignore[misc]
    assert len(delays["direct"]) > count // 2
    assert delays["gate"] == {DELAY_MS}
    assert holes["direct"] > 5 * max(1, holes["gate"]), holes


def publish_at_random(client: Any, topic: str, count: int) -> list[Any]:
    """Ask for delays of 1 to 4 s; returns the places of the messages."""
    chance = random.Random(18)
    producer = client.create_producer(topic)
    return [
        producer.send(b"x", deliver_after=timedelta(milliseconds=chance.randint(1_000, 4_000)))
        for _ in range(count)
    ]


def delay_ms(admin: Admin, topic: str, place: Any) -> int:
    """How much later than its publication an entry is to be delivered."""
    headers = admin.entry_headers(topic, place.ledger_id(), place.entry_id())
    published, due = (
        datetime.fromisoformat(headers[f"x-pulsar-{what}-time"]) for what in ("publish", "deliver-at")
    )
    return round((due - published).total_seconds() * 1_000)


def acknowledge_all(consumer: Any, count: int, look: Callable[[], int]) -> int:
    """Receive and acknowledge so many messages; returns the most that `look` has seen meanwhile."""
    most, received, deadline = 0, 0, time.monotonic() + ANSWER_S
    while received < count:
        assert time.monotonic() < deadline, f"{received} of {count} received"
        try:
            consumer.acknowledge(consumer.receive(timeout_millis=50))
            received += 1
        except library.Timeout:
            most = max(most, look())
    return most


def holes_now(admin: Admin, topic: str) -> int:
    told = admin.get(f"{topic_path(topic)}/internalStats")["cursors"]["one"]
    found: int = told["totalNonContiguousDeletedMessagesRange"]
    return found
