"""Kafka's doors: the proxy, and the wrappers of each class of the Python clients.

How Kafka's clients are told by what other systems have:

- a producer attaches with its first message, and that message is refused where others refuse the producer;
- all messages go to one partition, one to a batch, so that what is counted by batch is counted by message;
- a subscription is a consumer group;
- a message names its schema in the wire format of Confluent's serializers, and the door takes it off again.
"""

from collections.abc import AsyncIterator, Callable, Iterable
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import aiokafka
from confluent_kafka import Producer
from tests.conformance.aiokafka_clients import AiokafkaDoor
from tests.conformance.confluent_clients import AioDoor, BlockingDoor
from tests.conformance.policing import Policed, by_client, by_gateway, in_thread
from tests.waiting import LONG_S

from sluicegate.embedded import PolicyEngine
from sluicegate.testing.conformance import Ability, Door, DoorKind, Driver, Setup, without_in_clients
from sluicegate.testing.conformance.door import OpenDoor
from sluicegate_kafka.client import AIOKafkaConsumer, AIOKafkaProducer
from sluicegate_kafka.demo.mock_cluster import mock_cluster
from sluicegate_kafka.plugin import KafkaDriver

Broker = Callable[[Setup], AbstractAsyncContextManager[str]]
"""Gives the address of a broker that has the topics of a door, while it is open."""

_ABILITIES = frozenset(
    {Ability.HEADERS, Ability.SCHEMA, Ability.COMPRESS, Ability.CLIENT_ID, Ability.PRODUCERS_LEAVE}
)
_NO_HEADERS = "a message that this producer batches has no headers"
_IN_CLIENTS = without_in_clients("kafka", KafkaDriver.capabilities)
_MOCK = "not on the mock cluster, but on a real Kafka"
_JOINING = "subscriptions, of which joining one makes no other"
_CREATING = ("creating topics", "partitions of topics that are created")
_STORAGE = {
    "storage quota": "aiokafka sends again what is paused for 40 s: see tests/kafka/real/test_storage"
}
_OF_HEADERS = dict.fromkeys(("required_headers", "forbidden_headers", "remove_headers"), _NO_HEADERS)


def driver(broker: Broker, *, is_mock: bool) -> Driver:
    """Kafka's doors to a broker.

    :param is_mock: whether it is the mock cluster, which lists no groups, creates no topics by request, and
        takes no second member of aiokafka into a group.
    """
    member = {_JOINING: f"{_MOCK}: it takes no second member of aiokafka"} if is_mock else {}
    creation = dict.fromkeys(_CREATING, f"{_MOCK}: it creates no topics by request") if is_mock else {}

    @asynccontextmanager
    async def proxy(setup: Setup) -> AsyncIterator[Door]:
        async with (
            broker(setup) as address,
            by_gateway(setup, "kafka", {"bootstrap": [address]}, lists=not is_mock) as (policed, gateway),
        ):
            classes = aiokafka.AIOKafkaProducer, aiokafka.AIOKafkaConsumer
            yield AiokafkaDoor(policed, *classes, {"bootstrap_servers": gateway})

    def wrapped(new: Callable[[Policed, PolicyEngine, str], Door]) -> OpenDoor:
        @asynccontextmanager
        async def opened(setup: Setup) -> AsyncIterator[Door]:
            async with (
                broker(setup) as address,
                by_client(setup, "kafka", {"bootstrap": [address]}) as (policed, engine),
            ):
                yield new(policed, engine, address)

        return opened

    return Driver(
        "kafka",
        KafkaDriver.capabilities,
        {
            "proxy": DoorKind(proxy, _ABILITIES | {Ability.CREATE_TOPIC}, {}, _STORAGE | creation | member),
            "aiokafka": DoorKind(wrapped(_wrapped_aiokafka), _ABILITIES, _IN_CLIENTS, member),
            "confluent-kafka": DoorKind(wrapped(BlockingDoor), _ABILITIES, _IN_CLIENTS),
            "confluent-kafka asyncio": DoorKind(
                wrapped(AioDoor), _ABILITIES - {Ability.HEADERS}, {**_IN_CLIENTS, **_OF_HEADERS}
            ),
        },
    )


def _wrapped_aiokafka(policed: Policed, engine: PolicyEngine, address: str) -> AiokafkaDoor:
    options = {"bootstrap_servers": address, "policies": engine}
    return AiokafkaDoor(policed, AIOKafkaProducer, AIOKafkaConsumer, options)


@asynccontextmanager
async def _mock(setup: Setup) -> AsyncIterator[str]:
    async with mock_cluster() as (address,):
        await in_thread(_make_topics, address, setup.topics)
        yield address


def _make_topics(address: str, topics: Iterable[str]) -> None:
    asking = Producer({"bootstrap.servers": address})
    for topic in topics:
        asking.list_topics(topic, LONG_S)


DRIVER = driver(_mock, is_mock=True)
"""The doors to an embedded broker."""
