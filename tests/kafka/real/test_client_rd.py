"""confluent-kafka's classes with the policies in their own process, on a real Kafka."""

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import pytest
from confluent_kafka import KafkaError, KafkaException, Message, TopicPartition
from tests.kafka.real.conftest import NewFile, NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.waiting import LONG_S

from sluicegate.client.open_policies import Policies
from sluicegate.embedded import PolicyEngine
from sluicegate.host.wall_clock import WallClock
from sluicegate_kafka.client import AIOConsumer, AIOProducer, Consumer, Producer


@pytest.fixture
def clients(kafka: KafkaBroker) -> "Clients":
    return Clients(kafka.bootstrap)


class Clients:
    """Producers and consumers of one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @contextmanager
    def producer(self, policies: Policies, **options: Any) -> Iterator[Producer]:
        settings = {name.replace("_", "."): value for name, value in options.items()}
        with Producer({"bootstrap.servers": self.bootstrap, **settings}, policies=policies) as producer:
            yield producer

    @contextmanager
    def consumer(self, policies: Policies, topic: str, **options: Any) -> Iterator[Consumer]:
        settings = {
            "bootstrap.servers": self.bootstrap,
            "group.id": f"group-{topic}",
            "auto.offset.reset": "earliest",
        }
        settings |= {name.replace("_", "."): value for name, value in options.items()}
        with Consumer(settings, policies=policies) as consumer:
            consumer.subscribe([topic])
            yield consumer


def next_message(consumer: Consumer) -> Message:
    message = consumer.poll(LONG_S)
    assert message is not None
    assert message.error() is None
    return message


def received(consumer: Consumer, count: int) -> list[bytes | None]:
    return [next_message(consumer).value() for _ in range(count)]


def code_of(raised: "pytest.ExceptionInfo[KafkaException]") -> int:
    error: KafkaError = raised.value.args[0]
    return error.code()


def test_what_no_policy_concerns_passes_in_order(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic)
    values = [str(number).encode() for number in range(200)]
    delivered: list[bytes | None] = []
    with clients.producer(file) as producer, clients.consumer(file, topic) as consumer:
        for value in values:
            producer.produce(
                topic, value, on_delivery=lambda error, message: delivered.append(message.value())
            )
        producer.flush()
        assert delivered == values
        assert received(consumer, len(values)) == values


def test_a_large_message_is_refused_as_the_broker_would_and_the_others_are_stored(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_message_size=100)
    with clients.producer(file) as producer, clients.consumer(file, topic) as consumer:
        producer.produce(topic, "a" * 100)
        with pytest.raises(KafkaException, match=r"Limit: 100 bytes.*\[sluicegate [a-z0-9-]+\]") as raised:
            producer.produce(topic, b"b" * 90, key="key", headers={"name": b"content"})
        assert code_of(raised) == KafkaError.MSG_SIZE_TOO_LARGE
        producer.produce(topic, "c")
        producer.flush()
        assert received(consumer, 2) == [b"a" * 100, b"c"]


@pytest.mark.longer
def test_throttled_messages_block_and_are_stored_in_order(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_publish_rate=10)
    values = [str(number).encode() for number in range(25)]
    with clients.producer(file) as producer, clients.consumer(file, topic) as consumer:
        began_s = time.monotonic()
        for value in values:
            producer.produce(topic, value)
        assert time.monotonic() - began_s >= 1.4  # ten of them were the burst
        producer.flush()
        assert received(consumer, len(values)) == values


@pytest.mark.longer
def test_a_message_that_waits_too_long_ends_as_a_time_out_and_is_not_stored(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_publish_rate_bytes=10)
    first = bytes(100)  # takes what ten seconds give; the broker has four to answer
    with clients.producer(file, message_timeout_ms=4_000, linger_ms=1) as producer:
        producer.produce(topic, first)
        with pytest.raises(KafkaException, match=r"held for 4 s") as raised:
            producer.produce(topic, b"second")
        assert code_of(raised) == KafkaError._MSG_TIMED_OUT
        producer.flush()
    with clients.consumer(file, topic) as consumer:
        assert received(consumer, 1) == [first]
        assert consumer.get_watermark_offsets(TopicPartition(topic, 0)) == (0, 1)


@pytest.mark.longer
@pytest.mark.parametrize("many", [1, 7])
def test_dispatched_at_its_rate_nothing_is_lost_doubled_or_reordered(
    clients: Clients, new_topic: NewTopic, new_file: NewFile, many: int
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_dispatch_rate=20)
    values = [str(number).encode() for number in range(50)]
    with clients.producer(file) as producer, clients.consumer(file, topic) as consumer:
        for value in values:
            producer.produce(topic, value)
        producer.flush()
        began_s = time.monotonic()
        read: list[bytes | None] = []
        while len(read) < len(values):
            read += [each.value() for each in consumer.consume(many, 1)]
        assert read == values
        assert time.monotonic() - began_s >= 1.4  # 20 of them were the burst


@pytest.mark.longer
def test_a_delayed_message_is_withheld_and_not_committed(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    soon = new_file(topic, fixed_delivery_delay="1s")
    with clients.producer(soon) as producer, clients.consumer(soon, topic) as consumer:
        producer.produce(topic, b"delayed")
        producer.flush()
        message = next_message(consumer)
        assert WallClock().ms(time.monotonic_ns()) - message.timestamp()[1] >= 1000
    late = new_file(topic, fixed_delivery_delay="1h")
    with clients.producer(late) as producer:
        producer.produce(topic, b"much later")
    here = TopicPartition(topic, 0)
    with clients.consumer(late, topic, auto_commit_interval_ms=100) as consumer:
        assert consumer.poll(3) is None
        (committed,) = consumer.committed([here], LONG_S)
        assert committed.offset == 1


async def test_on_an_event_loop(kafka: KafkaBroker, new_topic: NewTopic, new_file: NewFile) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_publish_rate=10, max_message_size=100)
    values = [str(number).encode() for number in range(15)]
    settings = {"bootstrap.servers": kafka.bootstrap}
    group = settings | {"group.id": f"group-{topic}", "auto.offset.reset": "earliest"}
    async with (
        AIOProducer(settings, policies=file, buffer_timeout=0.1) as producer,
        AIOConsumer(group, policies=file) as consumer,
    ):
        await consumer.subscribe([topic])
        with pytest.raises(KafkaException, match="Limit: 100 bytes"):
            await producer.produce(topic, b"b" * 101)
        began_s = time.monotonic()
        for value in values:
            await producer.produce(topic, value)
        assert time.monotonic() - began_s >= 0.4  # ten of them were the burst
        await producer.flush()
        messages = await consumer.consume(len(values), LONG_S)
        assert [each.value() for each in messages] == values


def test_used_after_close_it_fails_as_the_original_and_takes_no_place(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_producers_per_topic=1, max_consumers_per_topic=1)
    with PolicyEngine.from_file(file) as engine:
        with clients.producer(engine) as producer, clients.consumer(engine, topic) as consumer:
            producer.produce(topic, b"first")
        uses: list[Callable[[], object]] = [
            lambda: producer.produce(topic, b"late"),
            lambda: producer.produce("another", b"late"),
            lambda: consumer.poll(1),
            lambda: consumer.subscribe(["another"]),
        ]
        for use in uses:
            with pytest.raises(RuntimeError, match="closed"):
                use()
        assert not any(len(state.producers) for state in engine.gates.states.values())
        with clients.producer(engine) as producer, clients.consumer(engine, topic):
            producer.produce(topic, b"second")
