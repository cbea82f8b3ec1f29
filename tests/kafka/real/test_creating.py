"""Topics that clients create on a real broker, by a request and by first use, under policies."""

import asyncio
from collections.abc import Iterator

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.errors import KafkaError
from confluent_kafka import KafkaException, Producer
from confluent_kafka.admin import AdminClient
from confluent_kafka.cimpl import NewPartitions, NewTopic
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.gate import Gate
from tests.waiting import LONG_S, until

NO_CREATION = (
    "44 Topic shut.a may not be created. Use an existing one, or set policy allow_topic_creation to true."
)
TOO_MANY = (
    "44 Partition limit reached for topic small.a. Current: 3, Limit: 2. "
    "Ask for fewer partitions or increase max_partitions policy."
)
POLICIES = {
    "namespaces": [{"name": "shut", "allow_topic_creation": False}, {"name": "small", "max_partitions": 2}]
}
SHORT_MS = 3_000
"""How long a producer looks for a topic that does not come."""


@pytest.fixture(scope="module")
def creating(
    kafka_libs: None, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[tuple[KafkaBroker, Gate]]:
    """A broker that creates topics by first use, and a gateway in front of it."""
    directory = tmp_path_factory.mktemp("creating")
    with (
        KafkaBroker(directory / "node", properties={"auto.create.topics.enable": "true"}) as broker,
        Gate(directory / "gate", broker.bootstrap, POLICIES) as gate,
    ):
        yield broker, gate


def topics_of(broker: KafkaBroker) -> dict[str, int]:
    """Partitions by topic, as the broker itself lists them."""
    listed = AdminClient({"bootstrap.servers": broker.bootstrap}).list_topics(timeout=LONG_S).topics
    return {name: len(topic.partitions) for name, topic in listed.items()}


def test_an_administrator_creates_what_policies_allow(creating: tuple[KafkaBroker, Gate]) -> None:
    broker, gate = creating
    admin = AdminClient({"bootstrap.servers": gate.bootstrap})
    wanted = [NewTopic("shut.a", 1, 1), NewTopic("small.a", 3, 1), NewTopic("small.b", 2, 1)]
    refusals: dict[str, str] = {}
    for name, future in admin.create_topics(wanted).items():
        error = future.exception(LONG_S)
        if isinstance(error, KafkaException):
            refusals[name] = f"{error.args[0].code()} {error.args[0].str()}".partition(" [")[0]
    assert refusals == {"shut.a": NO_CREATION, "small.a": TOO_MANY}
    until(lambda: topics_of(broker).get("small.b") == 2, "the broker lists it")
    assert not topics_of(broker).keys() & refusals.keys()
    with pytest.raises(KafkaException, match=r"Current: 3, Limit: 2\."):
        admin.create_partitions([NewPartitions("small.b", 3)])["small.b"].result(LONG_S)
    assert topics_of(broker)["small.b"] == 2


async def _sent_by_aiokafka(bootstrap: str, topic: str, timeout_ms: int) -> bool:
    async with AIOKafkaProducer(bootstrap_servers=bootstrap, request_timeout_ms=timeout_ms) as producer:
        try:
            await producer.send_and_wait(topic, b"x")
        except KafkaError:
            return False
    return True


def _sent_by_librdkafka(bootstrap: str, topic: str, timeout_ms: int) -> bool:
    stored: list[bool] = []
    producer = Producer({"bootstrap.servers": bootstrap, "message.timeout.ms": timeout_ms})
    producer.produce(topic, b"x", on_delivery=lambda error, message: stored.append(error is None))
    assert producer.flush(LONG_S) == 0
    return stored == [True]


def test_a_producer_of_librdkafka_creates_only_what_it_may(creating: tuple[KafkaBroker, Gate]) -> None:
    broker, gate = creating
    assert not _sent_by_librdkafka(gate.bootstrap, "shut.rdkafka", SHORT_MS)
    assert _sent_by_librdkafka(gate.bootstrap, "small.rdkafka", LONG_S * 1_000)
    assert "shut.rdkafka" not in topics_of(broker)
    assert "small.rdkafka" in topics_of(broker)


@pytest.mark.longer
def test_a_producer_of_aiokafka_creates_only_what_it_may(creating: tuple[KafkaBroker, Gate]) -> None:
    broker, gate = creating
    assert not asyncio.run(_sent_by_aiokafka(gate.bootstrap, "shut.aiokafka", SHORT_MS))
    assert asyncio.run(_sent_by_aiokafka(gate.bootstrap, "small.aiokafka", LONG_S * 1_000))
    assert "shut.aiokafka" not in topics_of(broker)
    assert "small.aiokafka" in topics_of(broker)
