"""The Kafka clients of comparison runs, against the mock cluster of librdkafka."""

import asyncio

from aiokafka import AIOKafkaConsumer, TopicPartition
from tests.waiting import LONG_S

from sluicegate_kafka.demo.mock_cluster import mock_cluster
from sluicegate_reports.runner.clients.kafka import Driver
from sluicegate_reports.runner.plan import ArmPlan, ProducerPlan

TOPIC = "ordered"
COUNT = 400
SIZE = 4_000
"""Four fill a batch of the client, so that most messages wait until one before them has left."""


async def read(address: str, count: int) -> list[bytes]:
    """The first messages of the topic."""
    received: list[bytes] = []
    async with AIOKafkaConsumer(bootstrap_servers=address, auto_offset_reset="earliest") as consumer:
        consumer.assign([TopicPartition(TOPIC, 0)])
        while len(received) < count:
            got = await asyncio.wait_for(consumer.getmany(timeout_ms=100), LONG_S)
            received += [record.value for records in got.values() for record in records]
    return received


async def test_messages_that_are_under_way_at_once_keep_their_order() -> None:
    async with mock_cluster() as addresses:
        plan = ArmPlan("r1", "kafka", "proxy", "kafka", addresses, {}, "", (), (), (), drain_s=0)
        producer = Driver(plan).producer(
            ProducerPlan("producer", TOPIC, (), SIZE, 0, COUNT, start_s=0, stop_s=1, retry_s=0)
        )
        await producer.attach()
        sent = [b"%d" % number + bytes(SIZE) for number in range(COUNT)]
        async with asyncio.TaskGroup() as under_way:
            for payload in sent:
                under_way.create_task(producer.publish(payload))
                await asyncio.sleep(0)
        await producer.close()
        received = await read(addresses[0], COUNT)
    assert [payload.rstrip(b"\0") for payload in received] == [b"%d" % number for number in range(COUNT)]
