"""A broker dies, its topics move: seen by Danube's own client, without a gateway."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import aclosing

import grpc
import pytest
from danube import DanubeClient
from danube.proto import DanubeApi_pb2 as pb
from tests.danube.support.clients import consuming, danube_client, producing
from tests.danube.support.stored import A, B, assign, die, durable, orphan, provide, stored_brokers
from tests.waiting import until_so

from sluicegate.store.metadata import Listing, MemoryMetadata, follow
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.stored import StoredBroker

LOOKUP = pb.TopicLookupResponse


@pytest.fixture
async def store() -> AsyncIterator[MemoryMetadata]:
    made = MemoryMetadata()
    yield made
    await made.close()


@pytest.fixture
async def brokers(store: MemoryMetadata) -> AsyncIterator[dict[int, StoredBroker]]:
    async with stored_brokers(store, A, B) as made:
        yield made


async def owner_of(client: DanubeClient, topic: str, asked: StoredBroker) -> str:
    found = await client.lookup_service.lookup_topic(asked.url, topic)
    return str(found.broker_url)


async def test_every_broker_reads_the_owner_from_the_store(
    store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    await provide(store, topic, brokers[B])
    async with danube_client(brokers[A].url) as client:
        for asked, kind in ((brokers[A], LOOKUP.Redirect), (brokers[B], LOOKUP.Connect)):
            found = await client.lookup_service.lookup_topic(asked.url, topic)
            assert (found.response_type, found.connect_url) == (kind, brokers[B].url)
        assert await client.lookup_service.topic_partitions(brokers[A].url, topic) == [topic]


@pytest.mark.seed("S3-007", "S3-010", "S3-011", "S3-017")
async def test_the_new_owner_serves_at_once_and_durable_metadata_stays(
    store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    await provide(store, topic, brokers[A])
    async with danube_client(brokers[A].url) as client:
        async with producing(client, topic) as producer, consuming(client, topic) as consumer:
            await producer.send(b"before")
            assert await consumer.take(1) == [b"before"]
        await until_so(lambda: brokers[B].view.subscriptions(topic) == ["subscription"])
        before = await durable(store)
        await die(store, brokers[A])
        await orphan(store, topic, A)
        await until_so(lambda: brokers[B].view.owner(topic) is None)
        with pytest.raises(grpc.aio.AioRpcError) as waiting:
            await owner_of(client, topic, brokers[B])
        assert waiting.value.code() is grpc.StatusCode.UNAVAILABLE
        await assign(store, topic, brokers[B])
        assert await durable(store) == before
        assert await owner_of(client, topic, brokers[B]) == brokers[B].url
    async with (
        danube_client(brokers[B].url) as client,
        consuming(client, topic) as consumer,
        producing(client, topic) as producer,
    ):
        await producer.send(b"after")
        assert await consumer.take(1) == [b"after"]  # from now on: nothing of before


@pytest.mark.seed("S3-008")
async def test_a_subscription_is_made_when_its_first_consumer_attaches(
    store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    await provide(store, topic, brokers[A])
    async with danube_client(brokers[A].url) as client, consuming(client, topic):
        await until_so(lambda: brokers[B].view.subscriptions(topic) == ["subscription"])
    await die(store, brokers[A])
    await orphan(store, topic, A)
    await assign(store, topic, brokers[B])
    served = brokers[B].cluster
    assert served.topics[topic].subscriptions == {}
    assert served.subscription_names(topic) == ["subscription"]
    async with danube_client(brokers[B].url) as client, consuming(client, topic):
        assert list(served.topics[topic].subscriptions) == ["subscription"]


async def test_the_first_producer_of_a_topic_provisions_it(
    store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    async def manage() -> None:
        async with aclosing(follow(store, keys.unassigned_key(topic))) as news:
            async for each in news:
                if not isinstance(each, Listing) or each.entries:
                    break
        await assign(store, topic, brokers[B])

    managing = asyncio.ensure_future(manage())
    async with danube_client(brokers[A].url) as client, producing(client, topic, reliable=True) as producer:
        await producer.send(b"x")
        assert brokers[B].cluster.topics[topic].reliable
    await managing


async def test_an_earlier_producer_is_unknown_at_the_new_owner(
    store: MemoryMetadata, brokers: dict[int, StoredBroker], topic: str
) -> None:
    await provide(store, topic, brokers[A])
    async with danube_client(brokers[A].url) as client, producing(client, topic) as producer:
        await producer.send(b"before")
        await orphan(store, topic, A)
        await assign(store, topic, brokers[B])
        with pytest.raises(grpc.aio.AioRpcError) as unknown:
            await producer.send(b"x")
        assert unknown.value.code() is grpc.StatusCode.NOT_FOUND
        await producer._recreate_producer(0)
        await producer.send(b"after")


async def test_a_broker_with_an_expired_lease_closes_its_clients_and_registers_again(
    store: MemoryMetadata, topic: str
) -> None:
    async with stored_brokers(store, A, ttl_s=12) as brokers, stored_brokers(store, B) as others:
        broker = brokers[A]
        await provide(store, topic, broker)
        async with danube_client(broker.url) as client, producing(client, topic, max_retries=1) as producer:
            await producer.send(b"x")
            found = await store.get(keys.registration_key(A))
            assert found is not None
            await store.revoke(found.lease)
            await orphan(store, topic, A)
            await assign(store, topic, others[B])
            assert broker.membership is not None
            member = broker.membership
            await until_so(lambda: member.lost == 1 and member.is_valid)
            assert topic not in broker.cluster.topics
            await until_so(lambda: broker.view.owner(topic) == B)
            assert await owner_of(client, topic, others[B]) == others[B].url
            again = await store.get(keys.registration_key(A))
            assert again is not None
            assert again.value == found.value
