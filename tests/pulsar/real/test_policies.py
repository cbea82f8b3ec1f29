"""Each policy through the gateway: the client gets Pulsar's own error, then the decision id."""

import re
import time
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
from tests.pulsar.real.conftest import NewGate, NewNamespace, NewTopic
from tests.pulsar.real.support.admin import Admin
from tests.pulsar.real.support.family import Family, Receiving, RefusedError, Sending, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.native import ATTACHING, MAX_DELAY_MS, SENDING, Native
from tests.pulsar.real.support.python import PythonFamily
from tests.pulsar.real.support.raw import RawClient
from tests.waiting import until

from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, ServerError

_SIZE = 200
_OF_PYTHON = "Pulsar-CPP-v4.2.0"


def limit(gate: Gate, topic: str, **policies: Any) -> None:
    """Put policies in force for one topic, and none for others."""
    gate.apply({"topics": [{"name": topic, **policies}]})


def attach(family: Family, url: str, topic: str, policy: str, subscription: str) -> Sending | Receiving:
    if policy == "max_producers_per_topic":
        return family.produce(url, topic, [])
    return family.consume(url, topic, subscription)


def second_subscription(policy: str) -> str:
    return "one" if policy == "max_consumers_per_subscription" else "two"


def decision_in(text: str, native: Native, topic: str) -> str:
    """The id behind the text, which must be Pulsar's own before it."""
    found = re.search(re.escape(native.told(topic)) + r" \[sluicegate ([\w-]+)\]", text)
    assert found, f"{text!r} does not tell {native.told(topic)!r} and a decision"
    return found[1]


# -- who attaches -----------------------------------------------------------------------------------


@pytest.mark.seed(
    "S1-001", "S1-002", "S1-003", "S1-004", "S1-030", "S1-034", "S1-037", "S1-038", "S1-041", "S1-043"
)
@pytest.mark.parametrize("policy", list(ATTACHING))
def test_attaching(gate: Gate, new_topic: NewTopic, family: Family, policy: str) -> None:
    native, topic = ATTACHING[policy], new_topic()
    limit(gate, topic, **{policy: 1})
    first = attach(family, gate.service_url, topic, policy, "one")
    with pytest.raises(RefusedError) as refused:
        attach(family, gate.service_url, topic, policy, second_subscription(policy))
    assert refused.value.error == (native.python if family.name == "python" else native.java)
    rows = gate.decided(topic=topic, action="reject")
    assert {(row["policy"], row["current"], row["limit"]) for row in rows} == {(policy, 1, 1)}
    if family.name == "java":
        assert decision_in(refused.value.text, native, topic) in {row["decision_id"] for row in rows}
    first.close()
    # Consumers and producers that have left do not count; subscriptions stay, and may be joined.
    attach(family, gate.service_url, topic, policy, "one").close()


@pytest.mark.parametrize("policy", list(ATTACHING))
def test_attaching_on_the_wire(gate: Gate, new_topic: NewTopic, policy: str) -> None:
    native, topic = ATTACHING[policy], new_topic()
    limit(gate, topic, **{policy: 1})

    def ask(client: RawClient, subscription: str) -> BaseCommand:
        if policy == "max_producers_per_topic":
            return client.producer(topic)
        return client.subscribe(topic, subscription)

    with RawClient(gate.bootstrap) as one, RawClient(gate.bootstrap) as two:
        assert not ask(one, "one").HasField("error")
        answer = ask(two, second_subscription(policy)).error
        told = decision_in(answer.message, native, topic)
        assert int(answer.error) == native.code
        assert gate.decided(decision_id=told)[0]["policy"] == policy
        if policy != "max_subscriptions_per_topic":
            one.close()  # without a word, as by a crash
            until(lambda: not ask(two, second_subscription(policy)).HasField("error"), "its place is free")


@pytest.mark.seed("S1-002", "S1-034")
def test_existing_subscriptions_are_not_counted_as_new(
    admin: Admin, new_gate: NewGate, new_topic: NewTopic, python: PythonFamily, java: JavaFamily
) -> None:
    families: list[Family] = [python, java]
    topics = {family.name: new_topic() for family in families}
    for topic in topics.values():
        admin.create_subscription(topic, "old")
    gate = new_gate({"max_subscriptions_per_topic": 2})
    native = ATTACHING["max_subscriptions_per_topic"]
    for family in families:
        topic = topics[family.name]
        family.consume(gate.service_url, topic, "new").close()
        with pytest.raises(RefusedError) as refused:
            family.consume(gate.service_url, topic, "one too many")
        assert refused.value.error == (native.python if family.name == "python" else native.java)
        for known in ("old", "new"):
            family.consume(gate.service_url, topic, known).close()
        assert sorted(admin.subscriptions(topic)) == ["new", "old"]
        # What is deleted at the broker makes room.
        admin.delete_subscription(topic, "old")


@pytest.mark.seed("S1-020", "S1-023", "S1-026")
def test_levels_are_merged(
    gate: Gate, new_topic: NewTopic, new_namespace: NewNamespace, python: PythonFamily
) -> None:
    namespace = new_namespace()
    inherits, own = new_topic(namespace=namespace), new_topic(namespace=namespace)
    gate.apply(
        {
            "broker": {"max_producers_per_topic": 50},
            "namespaces": [{"name": namespace, "max_producers_per_topic": 1}],
            "topics": [{"name": own, "max_producers_per_topic": 2}],
        }
    )
    for topic, most in ((inherits, 1), (own, 2)):
        producers = [python.produce(gate.service_url, topic, []) for _ in range(most)]
        with pytest.raises(RefusedError):
            python.produce(gate.service_url, topic, [])
        for producer in producers:
            producer.close()


@pytest.mark.longer(but="python")
@pytest.mark.seed("S1-091")
def test_attaching_too_fast_waits(new_gate: NewGate, new_topic: NewTopic, family: Family) -> None:
    topic, per_s, attempts = new_topic(), 1, 4
    gate = new_gate({"connection_rate_limit": per_s})
    began = time.monotonic()
    with ThreadPoolExecutor(attempts) as pool:
        producers = list(pool.map(lambda _: family.produce(gate.service_url, topic, []), range(attempts)))
    # A second's worth at once, and then so many a second.
    assert time.monotonic() - began >= (attempts - per_s) / per_s
    assert gate.decided(policy="connection_rate_limit", action="delay")
    for producer in producers:
        producer.close()


@pytest.mark.seed("S1-091")
def test_attaching_far_too_fast_gets_a_retriable_error(new_gate: NewGate, new_topic: NewTopic) -> None:
    topic = new_topic()
    gate = new_gate({"connection_rate_limit": 1}, max_hold="1s")
    with RawClient(gate.bootstrap) as client:
        answers = [client.producer(topic, number) for number in range(1, 3)]
        for number in range(3, 9):
            client.send(producing(topic, number))
        answers += [client.receive(BaseCommand.PRODUCER_SUCCESS, BaseCommand.ERROR) for _ in range(6)]
    codes = {int(answer.error.error) for answer in answers if answer.HasField("error")}
    assert codes == {ServerError.SERVICE_NOT_READY}
    assert any(answer.HasField("producer_success") for answer in answers)


def producing(topic: str, number: int) -> BaseCommand:
    command = BaseCommand(type=BaseCommand.PRODUCER)
    command.producer.topic = topic
    command.producer.producer_id = command.producer.request_id = number
    return command


# -- what is published ------------------------------------------------------------------------------


def expect(native: Native, topic: str, answer: BaseCommand, code: int) -> None:
    assert answer.HasField("send_error")
    assert answer.send_error.error == code
    decision_in(answer.send_error.message, native, topic)


CODES = {"raw": ServerError.NOT_ALLOWED_ERROR, _OF_PYTHON: ServerError.CHECKSUM_ERROR}
"""What fails just the refused message, by what the client calls itself."""


@pytest.mark.seed("S1-008", "S1-050", "S1-051", "S2-004", "S2-010", "S2-027")
@pytest.mark.parametrize("version", list(CODES))
def test_refusals_on_the_wire(gate: Gate, new_topic: NewTopic, version: str) -> None:
    topic, code = new_topic(), CODES[version]
    limit(gate, topic, max_message_size=_SIZE, max_delivery_delay=f"{MAX_DELAY_MS}ms")
    now_ms = time.time_ns() // 1_000_000
    with RawClient(gate.bootstrap, version) as client:
        client.producer(topic)
        assert client.publish(b"x" * _SIZE).HasField("send_receipt")
        large = client.publish(b"x" * (_SIZE + 1), sequence_id=1)
        assert client.publish(b"x", sequence_id=2).HasField("send_receipt")
        late = client.publish(b"x", sequence_id=3, deliver_at_time=now_ms + 3_600_000)
        in_time = now_ms + MAX_DELAY_MS // 2
        assert client.publish(b"x", sequence_id=4, deliver_at_time=in_time).HasField("send_receipt")
    expect(SENDING["max_message_size"], topic, large, code)
    expect(SENDING["max_delivery_delay"], topic, late, code)


@pytest.mark.seed("S2-004", "S2-015", "S2-027")
def test_only_messages_with_too_long_a_delay_fail(
    gate: Gate, new_topic: NewTopic, admin: Admin, family: Family
) -> None:
    topic, native = new_topic(), SENDING["max_delivery_delay"]
    limit(gate, topic, max_delivery_delay=f"{MAX_DELAY_MS}ms")
    refused = family.produce(gate.service_url, topic, numbered(3), deliver_after_ms=60_000).close()
    assert [one.value for one in refused] == numbered(3)
    if family.name == "java":
        assert {one.error for one in refused} == {native.java}
        for one in refused:
            decision_in(one.text, native, topic)
    else:
        assert {one.error for one in refused} == {"ChecksumError"}
    accepted = family.produce(gate.service_url, topic, ["x"], deliver_after_ms=MAX_DELAY_MS // 2).close()
    assert accepted[0].entry is not None
    assert admin.stats(topic)["msgInCounter"] == 1
    rejected = "pulsar_broker_topic_messages_delayed_rejected_total"
    gate.eventually(lambda: gate.metric(rejected, topic=topic) == len(refused), "they are counted")


# -- what is delivered ------------------------------------------------------------------------------


@pytest.mark.longer(but="python")
@pytest.mark.seed("S1-090")
def test_delivery_pauses_at_the_limit_of_unacknowledged_messages(
    gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic, most = new_topic(), 10
    limit(gate, topic, max_unacked_messages_per_consumer=most)
    family.produce(gate.service_url, topic, numbered(5 * most)).close()
    lazy = family.consume(gate.service_url, topic, "one", acknowledge=False)
    collect(lazy, most)
    assert gate.decided(topic=topic, policy="max_unacked_messages_per_consumer")
    assert len(lazy.received) == most
    # One that acknowledges gets on, in spite of the other one; then it gets what the other one had.
    diligent = family.consume(gate.service_url, topic, "two")
    assert len(collect(diligent, 5 * most)) == 5 * most
    assert len(lazy.received) == most
    lazy.close()
    third = family.consume(gate.service_url, topic, "one")
    assert {one.value for one in collect(third, 5 * most)} == set(numbered(5 * most))
    for consumer in (diligent, third):
        consumer.close()


@pytest.mark.seed("S1-009", "S1-026")
def test_0_lifts_an_inherited_limit(gate: Gate, new_topic: NewTopic, python: PythonFamily) -> None:
    topic = new_topic()
    gate.apply(
        {"broker": {"max_producers_per_topic": 1}, "topics": [{"name": topic, "max_producers_per_topic": 0}]}
    )
    producers = [python.produce(gate.service_url, topic, ["x"]) for _ in range(3)]
    assert all(producer.close()[0].entry for producer in producers)
