"""Claims of commands, before a real broker; and rules that no policy may weaken."""

import struct
import time

import pytest
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.family import Family, Form, RefusedError, Subscription, collect, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.python import PythonFamily
from tests.pulsar.real.support.raw import RawClient, message

from sluicegate_pulsar.codec.pulsar_pb2 import BaseCommand, SingleMessageMetadata


def limit(gate: Gate, topic: str, **policies: object) -> None:
    """Put policies in force for one topic, and none for others."""
    gate.apply({"topics": [{"name": topic, **policies}]})


def batch(count: int) -> bytes:
    """The payload of a batch that is neither compressed nor encrypted."""
    head = SingleMessageMetadata(payload_size=1).SerializeToString()
    return (struct.pack(">I", len(head)) + head + b"x") * count


@pytest.mark.seed("S1-005")
def test_batches_count_by_their_actual_messages(
    gate: Gate, new_topic: NewTopic, python: PythonFamily
) -> None:
    """Each claims to be one message; at 100/s the second hundred has to wait for a second, and so on."""
    topic, count = new_topic(), 4
    limit(gate, topic, max_publish_rate="100/s")
    consumer = python.consume(gate.service_url, topic, "one")
    with RawClient(gate.bootstrap) as client:
        assert client.producer(topic).HasField("producer_success")
        began = time.monotonic()
        for number in range(count):
            client.send(*message(batch(100), sequence_id=number * 100, num_messages_in_batch=100))
        for _ in range(count):
            client.receive(BaseCommand.SEND_RECEIPT)
        took = time.monotonic() - began
    assert took >= count - 1
    assert len(collect(consumer, 100 * count)) == 100 * count
    consumer.close()


@pytest.mark.seed("S1-008")
def test_a_plain_message_cannot_pose_as_a_chunk(gate: Gate, new_topic: NewTopic) -> None:
    topic = new_topic()
    limit(gate, topic, max_message_size=1_000)
    with RawClient(gate.bootstrap) as client:
        client.producer(topic)
        command, rest = message(bytes(1_001))
        command.send.is_chunk = True
        client.send(command, rest)
        assert client.receive(BaseCommand.SEND_RECEIPT, BaseCommand.SEND_ERROR).HasField("send_error")


@pytest.mark.seed("S1-008")
def test_a_chunked_message_is_limited_as_a_whole(gate: Gate, new_topic: NewTopic, java: Family) -> None:
    topic = new_topic()
    limit(gate, topic, max_message_size=10_000)
    consumer = java.consume(gate.service_url, topic, "one")
    small, large = numbered(1, "small", pad=5_000), numbered(1, "large", pad=20_000)
    producer = java.produce(gate.service_url, topic, [*large, *small], form=Form.CHUNKED)
    told = {one.value.split(":")[0]: one.entry is not None for one in producer.close()}
    assert told == {"small": True, "large": False}
    assert [one.value for one in collect(consumer, 1)] == small
    consumer.close()


@pytest.mark.longer(but="python")
@pytest.mark.seed("S1-039")
@pytest.mark.parametrize("allowed", [0, 5], ids=["unlimited", "five"])
def test_an_exclusive_subscription_has_one_consumer_under_any_limit(
    gate: Gate, new_topic: NewTopic, family: Family, allowed: int
) -> None:
    """Brokers see to that themselves; a gateway that answered for them could let another one in."""
    topic = new_topic()
    limit(gate, topic, max_consumers_per_subscription=allowed, max_consumers_per_topic=allowed)
    url, kind = gate.service_url, Subscription.EXCLUSIVE
    first = family.consume(url, topic, "one", kind)
    with pytest.raises(RefusedError) as refused:
        family.consume(url, topic, "one", kind)
    assert refused.value.error == ("ConsumerBusy" if family.name == "python" else "ConsumerBusyException")
    assert not gate.decisions(topic=topic, action="reject")
    others = [family.consume(url, topic, name, Subscription.EXCLUSIVE) for name in ("two", "three")]
    first.close()
    family.consume(url, topic, "one", kind).close()
    for other in others:
        other.close()


@pytest.mark.seed("S1-039")
def test_an_exclusive_subscription_does_not_bypass_a_lower_limit(
    gate: Gate, new_topic: NewTopic, family: Family
) -> None:
    topic = new_topic()
    limit(gate, topic, max_consumers_per_topic=1)
    first = family.consume(gate.service_url, topic, "one", Subscription.EXCLUSIVE)
    with pytest.raises(RefusedError):
        family.consume(gate.service_url, topic, "two", Subscription.EXCLUSIVE)
    assert [row["policy"] for row in gate.decided(topic=topic, action="reject")][:1] == [
        "max_consumers_per_topic"
    ]
    first.close()


@pytest.mark.seed("S1-008")
@pytest.mark.parametrize("domain", ["persistent", "non-persistent"])
def test_a_name_without_a_domain_means_both(gate: Gate, new_topic: NewTopic, domain: str) -> None:
    short = new_topic().removeprefix("persistent://")
    limit(gate, short, max_message_size=1_000)
    with RawClient(gate.bootstrap) as client:
        client.producer(f"{domain}://{short}")
        assert client.publish(bytes(1_001)).HasField("send_error")
