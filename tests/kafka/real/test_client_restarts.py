"""Wrapped and bare clients side by side while Kafka restarts: each message once, in order, for both alike."""

import asyncio
from collections.abc import Callable
from contextlib import AsyncExitStack
from pathlib import Path
from typing import Any

import aiokafka
import confluent_kafka
import pytest
import yaml
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import create_topic
from tests.waiting import LONG_S

from sluicegate.embedded import PolicyEngine
from sluicegate_kafka.client import AIOKafkaConsumer, AIOKafkaProducer, Consumer, Producer

pytestmark = [pytest.mark.slow, pytest.mark.longer]
COUNTS = [1_000, 10_000]
POLICIES = {"max_publish_rate": 1_000_000, "max_dispatch_rate": 1_000_000, "max_message_size": "1MiB"}
LONG_MS = int(LONG_S * 1000)


@pytest.fixture
def engine(own_kafka: KafkaBroker, tmp_path: Path) -> Any:
    entry = {"name": "main", "system": "kafka", "bootstrap": [own_kafka.bootstrap]}
    document = {"state_dir": str(tmp_path / "state"), "brokers": [entry], "policies": {"broker": POLICIES}}
    file = tmp_path / "policies.yaml"
    file.write_text(yaml.safe_dump(document))
    with PolicyEngine.from_file(file, door="client") as opened:
        yield opened


def restart(broker: KafkaBroker) -> None:
    broker.stop()
    broker.start()


@pytest.mark.parametrize("count", COUNTS)
async def test_aiokafka(own_kafka: KafkaBroker, engine: PolicyEngine, count: int) -> None:
    values = [str(number).encode() for number in range(count)]
    options: dict[str, Any] = {"bootstrap_servers": own_kafka.bootstrap}
    exact = options | {"enable_idempotence": True, "request_timeout_ms": LONG_MS}
    reading = options | {"auto_offset_reset": "earliest"}
    for topic in ("bare", "wrapped"):
        create_topic(own_kafka.bootstrap, topic)

    async def send(producer: Any, topic: str, half: list[bytes]) -> None:
        for sent in [await producer.send(topic, value) for value in half]:
            await sent

    async def read(consumer: Any) -> list[bytes]:
        return [(await consumer.getone()).value for _ in values]

    async with AsyncExitStack() as stack, asyncio.timeout(LONG_S):
        producers = {
            "bare": aiokafka.AIOKafkaProducer(**exact),
            "wrapped": AIOKafkaProducer(policies=engine, **exact),
        }
        consumers = {
            "bare": aiokafka.AIOKafkaConsumer("bare", group_id="bare", **reading),
            "wrapped": AIOKafkaConsumer("wrapped", policies=engine, group_id="wrapped", **reading),
        }
        for each in (*producers.values(), *consumers.values()):
            await stack.enter_async_context(each)
        async with asyncio.TaskGroup() as group:
            reads = {topic: group.create_task(read(consumer)) for topic, consumer in consumers.items()}
            for topic, producer in producers.items():
                await send(producer, topic, values[: count // 2])
            rest = [
                group.create_task(send(producer, topic, values[count // 2 :]))
                for topic, producer in producers.items()
            ]
            await asyncio.to_thread(restart, own_kafka)
            await asyncio.gather(*rest)
        for topic, task in reads.items():
            assert task.result() == values, topic
        for consumer in consumers.values():
            assert not await consumer.getmany(timeout_ms=500)


@pytest.mark.parametrize("count", COUNTS)
def test_confluent_kafka(own_kafka: KafkaBroker, engine: PolicyEngine, count: int) -> None:
    values = [str(number).encode() for number in range(count)]
    options: dict[str, Any] = {"bootstrap.servers": own_kafka.bootstrap}
    exact = options | {"enable.idempotence": True, "message.timeout.ms": LONG_MS}
    reading = options | {"auto.offset.reset": "earliest"}
    for topic in ("bare", "wrapped"):
        create_topic(own_kafka.bootstrap, topic)
    producers: dict[str, confluent_kafka.Producer] = {
        "bare": confluent_kafka.Producer(exact),
        "wrapped": Producer(exact, policies=engine),
    }
    consumers: dict[str, confluent_kafka.Consumer] = {
        "bare": confluent_kafka.Consumer(reading | {"group.id": "bare"}),
        "wrapped": Consumer(reading | {"group.id": "wrapped"}, policies=engine),
    }
    for topic, consumer in consumers.items():
        consumer.subscribe([topic])
    told: dict[str, list[bytes]] = {topic: [] for topic in producers}
    for topic, producer in producers.items():
        for value in values[: count // 2]:
            producer.produce(topic, value, on_delivery=noted(told[topic]))
        assert not producer.flush(LONG_S)
    for topic, producer in producers.items():
        for value in values[count // 2 :]:
            producer.produce(topic, value, on_delivery=noted(told[topic]))
    restart(own_kafka)
    for topic, producer in producers.items():
        assert not producer.flush(LONG_S)
        assert told[topic] == values, topic
    for topic, consumer in consumers.items():
        assert [next_value(consumer) for _ in values] == values, topic
        assert consumer.poll(0.5) is None
        consumer.close()
    for producer in producers.values():
        producer.close()


def noted(values: list[bytes]) -> Callable[[Any, Any], None]:
    """A callback that notes what was delivered."""

    def on_delivery(error: Any, message: Any) -> None:
        assert error is None
        values.append(message.value())

    return on_delivery


def next_value(consumer: confluent_kafka.Consumer) -> bytes | None:
    while True:
        message = consumer.poll(LONG_S)
        assert message is not None
        if message.error() is None:
            return message.value()
