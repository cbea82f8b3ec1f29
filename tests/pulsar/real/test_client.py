"""The Python client with the policies in its own process, on a real Pulsar."""

import asyncio
import time
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from pathlib import Path
from typing import Any

import pytest
import yaml
from pulsar import InitialPosition, MessageId, Result, exceptions
from pulsar.asyncio import PulsarException
from tests.pulsar.real.conftest import NewTopic
from tests.pulsar.real.support.broker import PulsarBroker
from tests.waiting import LONG_S, elsewhere, until

from sluicegate.embedded import PolicyEngine
from sluicegate_pulsar.client import Client, Consumer, aio

LONG_MS = int(LONG_S * 1000)

NewFile = Callable[..., str]
"""`new_file(topic, **policies) -> path` of a policy file for that topic."""
NewClient = Callable[..., Any]
"""`new_client(topic, **policies)`: a context with a client that applies them to that topic."""


@pytest.fixture
def new_file(pulsar: PulsarBroker, tmp_path: Path) -> NewFile:
    def write(topic: str, **policies: Any) -> str:
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.yaml"
        address = pulsar.service_url.removeprefix("pulsar://")
        entry = {"name": "pulsar", "system": "pulsar", "bootstrap": [address]}
        document = {
            "state_dir": f"{path}.state",
            "brokers": [entry],
            "policies": {"topics": [{"name": topic, **policies}]},
        }
        path.write_text(yaml.safe_dump(document))
        return str(path)

    return write


@pytest.fixture
def new_client(pulsar: PulsarBroker, new_file: NewFile) -> NewClient:
    @contextmanager
    def make(topic: str, **policies: Any) -> Iterator[Client]:
        with closing(Client(pulsar.service_url, policies=new_file(topic, **policies))) as client:
            yield client

    return make


def subscribed(client: Client, topic: str, **options: Any) -> Consumer:
    return client.subscribe(topic, "mine", initial_position=InitialPosition.Earliest, **options)


def received(consumer: Consumer, count: int) -> list[bytes]:
    messages = []
    for _ in range(count):
        message = consumer.receive(LONG_MS)
        messages.append(message.data())
        consumer.acknowledge(message)
    return messages


def test_what_no_policy_concerns_passes_in_order(new_client: NewClient, new_topic: NewTopic) -> None:
    topic = new_topic("client")
    values = [str(number).encode() for number in range(100)]
    with new_client(topic) as client:
        producer, consumer = client.create_producer(topic), subscribed(client, topic)
        for value in values:
            producer.send_async(value, lambda result, message_id: None)
        producer.flush()
        assert received(consumer, len(values)) == values


def test_a_large_message_is_refused_and_the_others_are_stored(
    new_client: NewClient, new_topic: NewTopic
) -> None:
    topic = new_topic("client")
    with new_client(topic, max_message_size=100) as client:
        producer, consumer = client.create_producer(topic), subscribed(client, topic)
        producer.send(b"a" * 100)
        with pytest.raises(exceptions.MessageTooBig, match=r"Limit: 100 bytes.*\[sluicegate [a-z0-9-]+\]"):
            producer.send(b"b" * 101)
        producer.send(b"c")
        assert received(consumer, 2) == [b"a" * 100, b"c"]


@pytest.mark.longer
def test_throttled_messages_block_and_are_stored_in_order(new_client: NewClient, new_topic: NewTopic) -> None:
    topic = new_topic("client")
    values = [str(number).encode() for number in range(25)]
    with new_client(topic, max_publish_rate=10) as client:
        producer, consumer = client.create_producer(topic), subscribed(client, topic)
        began_s = time.monotonic()
        for value in values:
            producer.send(value)
        assert time.monotonic() - began_s >= 1.4  # ten of them were the burst
        assert received(consumer, len(values)) == values


@pytest.mark.longer
def test_dispatched_at_its_rate_nothing_is_lost_doubled_or_reordered(
    new_client: NewClient, new_topic: NewTopic
) -> None:
    topic = new_topic("client")
    values = [str(number).encode() for number in range(50)]
    with new_client(topic, max_dispatch_rate=20) as client:
        producer, consumer = client.create_producer(topic), subscribed(client, topic)
        for value in values:
            producer.send_async(value, lambda result, message_id: None)
        producer.flush()
        began_s = time.monotonic()
        assert received(consumer, len(values)) == values
        assert time.monotonic() - began_s >= 1.4  # 20 of them were the burst


@pytest.mark.longer
def test_unacknowledged_messages_hold_the_next_one_back(new_client: NewClient, new_topic: NewTopic) -> None:
    topic = new_topic("client")
    with new_client(topic, max_unacked_messages_per_consumer=2) as client:
        producer, consumer = client.create_producer(topic), subscribed(client, topic)
        for value in (b"1", b"2", b"3"):
            producer.send(value)
        first, _ = consumer.receive(LONG_MS), consumer.receive(LONG_MS)
        with pytest.raises(exceptions.Timeout):
            consumer.receive(500)
        consumer.acknowledge(first)
        third = consumer.receive(LONG_MS)
        assert third.data() == b"3"
        producer.send(b"4")
        producer.send(b"5")
        consumer.acknowledge(first)  # once more, which frees nothing
        with pytest.raises(exceptions.Timeout):
            consumer.receive(500)
        consumer.acknowledge_cumulative(third)
        assert [consumer.receive(LONG_MS).data() for _ in range(2)] == [b"4", b"5"]


def test_a_reader_reads_at_the_dispatch_rate_and_acknowledges_by_itself(
    new_client: NewClient, new_topic: NewTopic
) -> None:
    topic = new_topic("client")
    values = [str(number).encode() for number in range(30)]
    policies = {"max_dispatch_rate": 20, "max_consumers_per_topic": 1, "max_unacked_messages_per_consumer": 2}
    with new_client(topic, **policies) as client:
        producer = client.create_producer(topic)
        for value in values:
            producer.send_async(value, lambda result, message_id: None)
        producer.flush()
        reader = client.create_reader(topic, MessageId.earliest)
        with pytest.raises(exceptions.ConsumerBusy, match="Consumer limit"):
            client.create_reader(topic, MessageId.earliest)
        began_s = time.monotonic()
        assert [reader.read_next(LONG_MS).data() for _ in values] == values
        assert time.monotonic() - began_s >= 0.4  # 20 of them were the burst
        assert not reader.has_message_available()
        reader.close()
        client.create_reader(topic, MessageId.earliest).close()


@pytest.mark.longer
def test_listeners_get_messages_once_they_may_pass(new_client: NewClient, new_topic: NewTopic) -> None:
    topic = new_topic("client")
    values = [str(number).encode() for number in range(30)]
    with new_client(topic, max_dispatch_rate=20) as client:
        producer = client.create_producer(topic)
        for value in values:
            producer.send_async(value, lambda result, message_id: None)
        producer.flush()
        heard: list[bytes] = []

        def on_message(receiver: Any, message: Any) -> None:
            heard.append(message.data())
            if isinstance(receiver, Consumer):
                receiver.acknowledge(message)

        began_s = time.monotonic()
        subscribed(client, topic, message_listener=on_message)
        until(lambda: len(heard) == len(values))
        assert heard == values
        assert time.monotonic() - began_s >= 0.4  # 20 of them were the burst
        client.create_reader(topic, MessageId.earliest, reader_listener=on_message)
        until(lambda: len(heard) == 2 * len(values))
        assert heard[len(values) :] == values


def test_a_closed_client_gives_back_the_places_of_all_that_it_opened(
    pulsar: PulsarBroker, new_file: NewFile, new_topic: NewTopic
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_producers_per_topic=1, max_consumers_per_topic=1)
    with PolicyEngine.from_file(file) as engine:
        for _ in range(2):
            client = Client(pulsar.service_url, policies=engine)
            producer = client.create_producer(topic)
            subscribed(client, topic)
            client.close()
            with pytest.raises(exceptions.PulsarException):
                producer.send(b"late")
            with pytest.raises(exceptions.PulsarException):
                client.create_producer(topic)


async def test_on_an_event_loop(pulsar: PulsarBroker, new_file: NewFile, new_topic: NewTopic) -> None:
    topic = new_topic("client")
    policies = {"max_producers_per_topic": 1, "max_message_size": 100, "max_dispatch_rate": 20}
    values = [str(number).encode() for number in range(50)]
    client = aio.Client(pulsar.service_url, policies=new_file(topic, **policies))
    try:
        producer = await client.create_producer(topic)
        with pytest.raises(PulsarException, match="Producer limit") as raised:
            await client.create_producer(topic)
        assert raised.value.error() is Result.ProducerBusy
        with pytest.raises(PulsarException, match="Limit: 100 bytes") as raised:
            await producer.send(b"b" * 101)
        assert raised.value.error() is Result.MessageTooBig
        consumer = await client.subscribe(topic, "mine", initial_position=InitialPosition.Earliest)
        for value in values:
            await producer.send(value)
        began_s, read = time.monotonic(), []
        async with asyncio.timeout(LONG_S):
            for _ in values:
                message = await consumer.receive()
                read.append(message.data())
                await consumer.acknowledge(message)
        assert read == values
        assert time.monotonic() - began_s >= 1.4  # 20 of them were the burst
        # The original works in any loop, and so does what waits for its rate.
        await elsewhere(lambda: producer.send(b"elsewhere"))
        message = await elsewhere(consumer.receive)
        assert message.data() == b"elsewhere"
        await elsewhere(lambda: consumer.acknowledge(message))
        await consumer.close()
        reader = await client.create_reader(topic, MessageId.earliest)
        assert [(await reader.read_next()).data() for _ in values] == values
        await reader.close()
    finally:
        await client.close()
