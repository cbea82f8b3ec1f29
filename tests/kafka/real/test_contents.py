"""Headers of stock clients: required, and removed before the broker stores them."""

import asyncio

import pytest
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.errors import PolicyViolationError
from confluent_kafka import Consumer, Producer
from tests.kafka.real.conftest import NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.gate import Gate
from tests.waiting import LONG_S

RULES = {"required_headers": ["trace"], "remove_headers": "x-*"}
SENT: list[tuple[str, str | bytes | None]] = [("trace", b"1"), ("x-secret", b"2")]
STORED = [("trace", b"1")]


async def _sent_by_aiokafka(bootstrap: str, topic: str) -> list[str]:
    """Which of two messages, with and without the header, were stored."""
    answers: list[str] = []
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, compression_type="gzip") as producer:
        for headers in (SENT, []):
            try:
                await producer.send_and_wait(topic, b"v" * 100, headers=headers)
                answers.append("stored")
            except PolicyViolationError:
                answers.append("refused")
    return answers


async def _read_by_aiokafka(bootstrap: str, topic: str) -> list[tuple[str, bytes]]:
    async with AIOKafkaConsumer(topic, bootstrap_servers=bootstrap, auto_offset_reset="earliest") as consumer:
        message = await asyncio.wait_for(consumer.getone(), LONG_S)
    return list(message.headers)


def test_aiokafka_is_refused_and_its_headers_are_removed(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, **RULES}]})

    assert asyncio.run(_sent_by_aiokafka(gate.bootstrap, topic)) == ["stored", "refused"]
    assert asyncio.run(_read_by_aiokafka(kafka.bootstrap, topic)) == STORED


@pytest.mark.parametrize("codec", ["none", "snappy", "lz4", "zstd"])
def test_librdkafka_reads_what_was_compressed_again(
    kafka: KafkaBroker, gate: Gate, new_topic: NewTopic, codec: str
) -> None:
    topic = new_topic()
    gate.apply({"topics": [{"name": topic, **RULES}]})
    codes: list[int] = []
    producer = Producer({"bootstrap.servers": gate.bootstrap, "compression.type": codec, "linger.ms": 0})
    for headers in (SENT, []):
        producer.produce(
            topic,
            b"v" * 1_000,
            headers=headers,
            on_delivery=lambda error, _: codes.append(error.code() if error else 0),
        )
        assert producer.flush(LONG_S) == 0
    assert codes == [0, 44]

    settings = {"bootstrap.servers": kafka.bootstrap, "group.id": topic, "auto.offset.reset": "earliest"}
    consumer = Consumer(settings)
    consumer.subscribe([topic])
    message = consumer.poll(LONG_S)
    consumer.close()
    assert message is not None
    assert message.error() is None
    assert message.headers() == STORED
    assert message.value() == b"v" * 1_000
