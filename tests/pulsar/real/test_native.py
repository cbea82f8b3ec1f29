"""What Pulsar itself answers to each policy: support/native.py is a table of these answers."""

import time

import pytest
from tests.pulsar.real.conftest import NewNamespace, NewTopic
from tests.pulsar.real.support.admin import Admin, policy_path
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import Family, Receiving, RefusedError, Sending, collect, numbered
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.native import (
    ATTACHING,
    DEFAULT_MAX_MESSAGE_BYTES,
    MAX_DELAY_MS,
    SENDING,
    TOO_BIG_JAVA,
    TOO_BIG_PYTHON,
    Native,
    max_delay,
    rate,
)
from tests.pulsar.real.support.python import PythonFamily, read_topic
from tests.pulsar.real.support.raw import RawClient
from tests.waiting import until

from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand

_SIZE = 200
_RATE = 100


def now_ms() -> int:
    return time.time_ns() // 1_000_000


def attach(family: Family, url: str, topic: str, policy: str, subscription: str) -> Sending | Receiving:
    if policy == "max_producers_per_topic":
        return family.produce(url, topic, [])
    return family.consume(url, topic, subscription)


def second_subscription(policy: str) -> str:
    return "two" if policy == "max_subscriptions_per_topic" else "one"


@pytest.mark.parametrize("level", ["topic", pytest.param("namespace", marks=pytest.mark.longer)])
@pytest.mark.parametrize("policy", list(ATTACHING))
def test_attaching(
    pulsar: PulsarBroker,
    admin: Admin,
    new_topic: NewTopic,
    new_namespace: NewNamespace,
    family: Family,
    policy: str,
    level: str,
) -> None:
    native = ATTACHING[policy]
    namespace = new_namespace()
    if level == "namespace":
        admin.set_policy(namespace, native.policy, 1)
    topic = new_topic(namespace=namespace)
    if level == "topic":
        admin.set_policy(topic, native.policy, 1)
    first = attach(family, pulsar.service_url, topic, policy, "one")
    with pytest.raises(RefusedError) as refused:
        attach(family, pulsar.service_url, topic, policy, second_subscription(policy))
    assert refused.value.error == (native.python if family.name == "python" else native.java)
    if family.name == "java":
        assert native.told(topic) in refused.value.text
    first.close()


@pytest.mark.parametrize("policy", list(ATTACHING))
def test_attaching_on_the_wire(pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, policy: str) -> None:
    native, topic = ATTACHING[policy], new_topic()
    admin.set_policy(topic, native.policy, 1)

    def ask(client: RawClient, subscription: str) -> BaseCommand:
        if policy == "max_producers_per_topic":
            return client.producer(topic)
        return client.subscribe(topic, subscription)

    with RawClient(pulsar.address) as one, RawClient(pulsar.address) as two:
        assert not ask(one, "one").HasField("error")
        answer = ask(two, second_subscription(policy))
    assert (int(answer.error.error), answer.error.message) == (native.code, native.told(topic))


def test_too_large_for_a_topic_on_the_wire(pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic) -> None:
    topic = new_topic()
    admin.set_policy(topic, "maxMessageSize", _SIZE)
    with RawClient(pulsar.address) as client:
        client.producer(topic)
        assert client.publish(b"x" * (_SIZE // 2)).HasField("send_receipt")
        # Metadata counts too, so a payload of the limit is already too large.
        answer = client.publish(b"x" * _SIZE, sequence_id=1)
        assert client.publish(b"x", sequence_id=2).HasField("send_receipt")
    expect(SENDING["max_message_size"], topic, answer)


def test_too_late_on_the_wire(pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic) -> None:
    topic = new_topic()
    admin.set_policy(topic, "delayedDelivery", max_delay())
    at_ms = now_ms()
    with RawClient(pulsar.address) as client:
        client.producer(topic)
        assert client.publish(b"x", deliver_at_time=at_ms + MAX_DELAY_MS // 2).HasField("send_receipt")
        answer = client.publish(b"x", sequence_id=1, deliver_at_time=at_ms + 3_600_000)
    expect(SENDING["max_delivery_delay"], topic, answer)


def expect(native: Native, topic: str, answer: BaseCommand) -> None:
    assert answer.HasField("send_error")
    assert (int(answer.send_error.error), answer.send_error.message) == (native.code, native.told(topic))


@pytest.mark.parametrize("policy", list(SENDING))
def test_java_fails_only_the_refused_message(
    pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, java: JavaFamily, policy: str
) -> None:
    topic, native = new_topic(), SENDING[policy]
    values = ["first", "refused" + " " * _SIZE, "last"]
    admin.set_policy(topic, native.policy, _SIZE if policy == "max_message_size" else max_delay())
    if policy == "max_message_size":
        published = java.produce(pulsar.service_url, topic, values).close()
        failed = [one for one in published if one.entry is None]
        assert [one.value for one in failed] == values[1:2]
    else:
        failed = java.produce(pulsar.service_url, topic, values, deliver_after_ms=60_000).close()
        assert [one.value for one in failed] == values
    assert {(one.error, one.text) for one in failed} == {(native.java, native.told(topic))}


@pytest.mark.parametrize("policy", list(SENDING))
def test_the_python_client_resends_forever(
    pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, python: PythonFamily, policy: str
) -> None:
    topic, native = new_topic(), SENDING[policy]
    assert not native.python
    admin.set_policy(topic, native.policy, _SIZE if policy == "max_message_size" else max_delay())
    producer = python.produce(
        pulsar.service_url,
        topic,
        ["refused" + " " * _SIZE, "behind it"],
        deliver_after_ms=60_000 if policy == "max_delivery_delay" else None,
    )
    again = f"Created new producer: Producer{{topic=PersistentTopic{{topic={topic}}}"
    until(lambda: pulsar.log.read_text().count(again) >= 4, "three reconnections")
    assert producer.published == []
    producer.abandon()
    # What is behind the refused message is refused too, or stored once for each time.
    stored = [one.value for one in read_topic(pulsar.service_url, topic)]
    assert set(stored) == ({"behind it"} if policy == "max_message_size" else set())
    assert len(stored) != 1


def test_a_message_above_the_announced_maximum(
    pulsar: PulsarBroker, new_topic: NewTopic, family: Family
) -> None:
    topic, huge = new_topic(), "x" * DEFAULT_MAX_MESSAGE_BYTES
    with RawClient(pulsar.address) as client:
        assert client.connected.connected.max_message_size == DEFAULT_MAX_MESSAGE_BYTES
    published = family.produce(pulsar.service_url, topic, ["first", huge + "x", "last"]).close()
    errors = {one.value[:5]: one.error for one in published}
    assert errors == {
        "first": "",
        "xxxxx": TOO_BIG_PYTHON if family.name == "python" else TOO_BIG_JAVA,
        "last": "",
    }


@pytest.mark.longer(but="python")
def test_the_publish_rate_delays_and_refuses_nothing(
    pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    admin.set_policy(topic, "publishRate", rate("publishRate", _RATE))
    began_ms = now_ms()
    published = family.produce(pulsar.service_url, topic, numbered(4 * _RATE)).close()
    assert all(one.entry for one in published)
    # From before the first one was sent: a client that stalls hears of many answers at once.
    assert published[-1].at_ms - began_ms >= 1_500


@pytest.mark.longer(but="python")
@pytest.mark.parametrize("policy", ["dispatchRate", "subscriptionDispatchRate"])
def test_dispatch_rates_delay_deliveries(
    pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, family: Family, policy: str
) -> None:
    topic, values = new_topic(), numbered(3 * _RATE)
    admin.set_policy(topic, policy, rate(policy, _RATE))
    family.produce(pulsar.service_url, topic, values).close()
    began_ms = now_ms()
    consumers = [family.consume(pulsar.service_url, topic, name) for name in ("one", "two")]
    for consumer in consumers:
        collect(consumer, len(values))
    received = [one for consumer in consumers for one in consumer.received]
    took_ms = max(one.at_ms for one in received) - began_ms
    for consumer in consumers:
        consumer.close()
    # The rate of the topic is shared, but at the start each subscription gets a second's worth.
    assert (3_400 if policy == "dispatchRate" else 1_500) <= took_ms


@pytest.mark.longer(but="python")
def test_delivery_pauses_at_the_limit_of_unacknowledged_messages(
    pulsar: PulsarBroker, admin: Admin, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    admin.set_policy(topic, "maxUnackedMessagesOnConsumer", 10)
    family.produce(pulsar.service_url, topic, numbered(50)).close()
    consumer = family.consume(pulsar.service_url, topic, "one", acknowledge=False)

    def blocked() -> bool:
        told = admin.stats(topic)["subscriptions"]["one"]["consumers"]
        return any(one["blockedConsumerOnUnackedMsgs"] for one in told)

    collect(consumer, 10)
    until(blocked, "blocked")
    assert len(consumer.received) == 10
    consumer.close()


def test_a_fixed_delay_is_accepted_and_ignored(admin: Admin, new_topic: NewTopic) -> None:
    topic = new_topic()
    value = {"active": True, "tickTime": 100, "fixedDeliveryDelayInMillis": 2_000}
    admin.post(policy_path(topic, "delayedDelivery"), value)
    until(lambda: admin.policy(topic, "delayedDelivery") is not None, "taken")
    assert "fixedDeliveryDelayInMillis" not in admin.policy(topic, "delayedDelivery")
