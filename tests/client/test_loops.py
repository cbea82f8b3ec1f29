"""Asyncio clients that are used in another event loop than their own."""

import asyncio
from collections.abc import AsyncIterator, Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import TopicPartition
from tests.client.test_open_policies import new_file
from tests.waiting import LONG_S, elsewhere

from sluicegate.runtime.plugins import CHOICE
from sluicegate_danube.client import DanubeClientBuilder
from sluicegate_danube.reference import ReferenceBroker
from sluicegate_kafka.client import AIOConsumer, AIOKafkaConsumer, AIOKafkaProducer, AIOProducer
from sluicegate_kafka.demo.mock_cluster import mock_cluster

TOPIC = "orders.eu"


@pytest.fixture(autouse=True)
def plugins(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CHOICE, "danube,kafka")


@pytest.fixture
async def bootstrap() -> AsyncIterator[str]:
    async with mock_cluster() as addresses:
        yield addresses[0]


async def test_aiokafka_is_refused_clearly_and_goes_on_in_its_own_loop(
    tmp_path: Path, bootstrap: str
) -> None:
    file = new_file(tmp_path, "kafka", {"max_publish_rate": 1000})
    own: dict[str, Any] = {"policies": file, "bootstrap_servers": bootstrap}
    async with (
        AIOKafkaProducer(**own) as producer,
        AIOKafkaConsumer(TOPIC, auto_offset_reset="earliest", **own) as consumer,
    ):
        await producer.send_and_wait(TOPIC, b"1", partition=0)
        batch = producer.create_batch()
        batch.append(key=None, value=b"lost", timestamp=None)
        calls: tuple[Callable[[], Awaitable[Any]], ...] = (
            lambda: producer.send(TOPIC, b"lost"),
            lambda: producer.send_batch(batch, TOPIC, partition=0),
            lambda: consumer.getone(),
            lambda: consumer.getmany(),
        )
        for call in calls:
            with pytest.raises(RuntimeError, match="belongs to another event loop: open one in each loop"):
                await elsewhere(call)
        await producer.send_and_wait(TOPIC, b"2", partition=0)
        async with asyncio.timeout(LONG_S):
            assert [(await consumer.getone()).value for _ in range(2)] == [b"1", b"2"]


async def test_confluent_kafka_works_in_any_loop_as_the_original(tmp_path: Path, bootstrap: str) -> None:
    file = new_file(tmp_path, "kafka", {"max_publish_rate": 2, "burst_seconds": 1})
    producer = AIOProducer({"bootstrap.servers": bootstrap}, policies=file)
    settings = {"bootstrap.servers": bootstrap, "group.id": "shop"}
    consumer = AIOConsumer(settings, policies=file)

    async def send() -> None:
        # The third one waits.
        reports = [await producer.produce(TOPIC, b"1", partition=0) for _ in range(3)]
        await producer.flush()
        await asyncio.gather(*reports)

    await elsewhere(send)
    await consumer.assign([TopicPartition(TOPIC, 0, 0)])
    async with asyncio.timeout(LONG_S):
        while (message := await elsewhere(lambda: consumer.poll(1))) is None:
            pass
    assert message.value() == b"1"
    await consumer.close()
    await producer.close()


async def test_danube_fails_as_the_original_and_goes_on_in_its_own_loop(tmp_path: Path) -> None:
    file = new_file(tmp_path, "danube", {"max_publish_rate": 1000})
    async with ReferenceBroker() as broker:
        client = await DanubeClientBuilder(policies=file).service_url(broker.urls[0]).build()
        producer = client.new_producer().with_topic("/default/orders").with_name("shop").build()
        await producer.create()
        sent = await producer.send(b"1")
        with pytest.raises(RuntimeError, match="attached to a different loop"):
            await elsewhere(lambda: producer.send(b"lost"))
        assert await producer.send(b"2") > sent
        await producer.close()
        for connection in client.connection_manager._connections.values():
            await connection.channel.close()
        client.close_policies()
