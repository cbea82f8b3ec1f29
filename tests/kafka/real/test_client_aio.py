"""aiokafka's classes with the policies in their own process, on a real Kafka."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.errors import (
    ConsumerStoppedError,
    KafkaTimeoutError,
    MessageSizeTooLargeError,
    ProducerClosed,
)
from tests.kafka.real.conftest import NewFile, NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.waiting import LONG_S, until_so

from sluicegate.client.open_policies import Policies
from sluicegate.embedded import PolicyEngine
from sluicegate.host.wall_clock import WallClock
from sluicegate_kafka.client import AIOKafkaConsumer, AIOKafkaProducer


@pytest.fixture
def clients(kafka: KafkaBroker) -> "Clients":
    return Clients(kafka.bootstrap)


class Clients:
    """Producers and consumers of one broker."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap

    @asynccontextmanager
    async def producer(self, policies: Policies, **options: Any) -> AsyncIterator[AIOKafkaProducer]:
        producer = AIOKafkaProducer(policies=policies, bootstrap_servers=self.bootstrap, **options)
        await producer.start()
        try:
            yield producer
        finally:
            await producer.stop()

    @asynccontextmanager
    async def consumer(
        self, policies: Policies, topic: str, **options: Any
    ) -> AsyncIterator[AIOKafkaConsumer]:
        named = {"auto_offset_reset": "earliest", "group_id": f"group-{topic}"} | options
        consumer = AIOKafkaConsumer(topic, policies=policies, bootstrap_servers=self.bootstrap, **named)
        try:
            await consumer.start()
            await until_so(
                consumer.assignment
            )  # stopped earlier, it may leak a connection that it just opens
            yield consumer
        finally:
            await consumer.stop()


async def received(consumer: AIOKafkaConsumer, count: int) -> list[bytes]:
    async with asyncio.timeout(LONG_S):
        return [(await consumer.getone()).value for _ in range(count)]


async def test_what_no_policy_concerns_passes_in_order(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic)
    values = [str(number).encode() for number in range(200)]
    async with clients.producer(file) as producer, clients.consumer(file, topic) as consumer:
        for value in values:
            await producer.send(topic, value)
        await producer.flush()
        assert await received(consumer, len(values)) == values


async def test_a_large_message_is_refused_as_the_broker_would_and_the_others_are_stored(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_message_size=100)
    async with clients.producer(file) as producer, clients.consumer(file, topic) as consumer:
        await producer.send_and_wait(topic, b"a" * 100)
        with pytest.raises(MessageSizeTooLargeError, match=r"Limit: 100 bytes.*\[sluicegate [a-z0-9-]+\]"):
            await producer.send(topic, b"b" * 98, key=b"key")
        await producer.send_and_wait(topic, b"c")
        assert await received(consumer, 2) == [b"a" * 100, b"c"]


@pytest.mark.longer
async def test_throttled_messages_wait_and_are_stored_in_order(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_publish_rate=10)
    values = [str(number).encode() for number in range(25)]
    async with clients.producer(file) as producer, clients.consumer(file, topic) as consumer:
        began_s = time.monotonic()
        await asyncio.gather(*(producer.send_and_wait(topic, value) for value in values))
        assert time.monotonic() - began_s >= 1.4  # ten of them were the burst
        assert await received(consumer, len(values)) == values


@pytest.mark.longer
async def test_a_message_that_waits_too_long_ends_as_a_time_out_and_is_not_stored(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_publish_rate_bytes=10)
    first = bytes(100)  # takes what ten seconds give; the broker has four to answer
    async with clients.producer(file, request_timeout_ms=4_000) as producer:
        await producer.send_and_wait(topic, first)
        with pytest.raises(KafkaTimeoutError, match=r"held for 4 s"):
            await producer.send(topic, b"second")
        async with clients.consumer(file, topic) as consumer:
            assert await received(consumer, 1) == [first]
            end = await consumer.end_offsets([TopicPartition(topic, 0)])
            assert list(end.values()) == [1]


@pytest.mark.longer
@pytest.mark.parametrize("many", [False, True])
async def test_dispatched_at_its_rate_nothing_is_lost_doubled_or_reordered(
    clients: Clients, new_topic: NewTopic, new_file: NewFile, many: bool
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_dispatch_rate=20)
    values = [str(number).encode() for number in range(50)]
    async with clients.producer(file) as producer, clients.consumer(file, topic) as consumer:
        for value in values:
            await producer.send(topic, value)
        await producer.flush()
        began_s = time.monotonic()
        read: list[bytes] = []
        async with asyncio.timeout(LONG_S):
            while len(read) < len(values):
                if many:
                    batches = await consumer.getmany(timeout_ms=200)
                    read += [record.value for records in batches.values() for record in records]
                else:
                    read.append((await consumer.getone()).value)
        assert read == values
        assert time.monotonic() - began_s >= 1.4  # 20 of them were the burst


@pytest.mark.longer
async def test_a_delayed_record_is_withheld_and_not_committed(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    soon, late = new_file(topic, fixed_delivery_delay="1s"), ""
    async with clients.producer(soon) as producer, clients.consumer(soon, topic) as consumer:
        sent = await producer.send_and_wait(topic, b"delayed")
        async with asyncio.timeout(LONG_S):
            record = await consumer.getone()
        assert WallClock().ms(time.monotonic_ns()) - record.timestamp >= 1000
        assert record.offset == sent.offset
    late = new_file(topic, fixed_delivery_delay="1h")
    async with clients.producer(late) as producer:
        await producer.send_and_wait(topic, b"much later")
    partition = TopicPartition(topic, 0)
    async with clients.consumer(late, topic, auto_commit_interval_ms=100) as consumer:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(2):
                await consumer.getone()
        assert consumer.paused() == set()
        assert await consumer.position(partition) == 1
    async with clients.consumer(late, topic) as consumer:
        assert await consumer.committed(partition) == 1


async def test_used_after_stop_it_fails_as_the_original_and_takes_no_place(
    clients: Clients, new_topic: NewTopic, new_file: NewFile
) -> None:
    topic = new_topic("client")
    file = new_file(topic, max_producers_per_topic=1, max_consumers_per_topic=1)
    with PolicyEngine.from_file(file) as engine:
        for _ in range(2):
            async with clients.producer(engine) as producer, clients.consumer(engine, topic) as consumer:
                await producer.send_and_wait(topic, b"first")
                await asyncio.wait_for(consumer.getone(), LONG_S)
            with pytest.raises(ProducerClosed):
                await producer.send(topic, b"late")
            with pytest.raises(ConsumerStoppedError):
                await consumer.getone()
