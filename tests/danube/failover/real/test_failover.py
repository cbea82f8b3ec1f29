"""A broker dies: the steps of seed 002, and what else may go wrong meanwhile, with real processes."""

import asyncio

import grpc
import pytest
from danube import DanubeClient
from tests.danube.failover.real.support.watching import Durable, until_at, until_some_key
from tests.danube.failover.real.support.world import World
from tests.danube.support.clients import consuming, danube_client, producing

from sluicegate.model import Level
from sluicegate.store.metadata import MetadataStore
from sluicegate.store.plugin import sluicegate_metadata_store
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.stored import create_topic


async def provision(store: MetadataStore, topic: str, world: World) -> None:
    """Make a topic while only A runs; returns once A serves it, as the gateway says."""
    a = world.brokers[0]
    assert await create_topic(store, topic, policy={"max_message_size": 4096})
    await until_at(a.url, topic, a.url)
    await until_at(world.gate.url, topic, world.gate.url_of(a))


def set_policy(world: World, topic: str, field: str, value: int) -> None:
    """Set a policy where the gateway has its policies, and wait until it is in force."""
    policies = sluicegate_metadata_store(world.store_url)
    assert policies is not None
    with world.gate.taking():
        policies.set(Level.TOPIC, topic, field, value, "test")
        policies.close()


async def goes_through(client: DanubeClient, topic: str, name: str) -> None:
    """Produce and consume, as new clients do."""
    async with producing(client, topic, name) as producer, consuming(client, topic, name=name) as consumer:
        sent = [b"%s %d" % (name.encode(), number) for number in range(3)]
        for payload in sent:
            await producer.send(payload)
        assert await consumer.take(3) == sent


async def attached(store: MetadataStore, topic: str) -> None:
    """Return once the store knows the subscription: brokers write beside their work."""
    await until_some_key(store, keys.topic_key(topic, "subscriptions/subscription"))


@pytest.mark.seed("S3-001", "S3-002", "S3-003", "S3-011", "S3-015", "S3-016", "S3-017", "S3-018")
async def test_the_steps_of_the_seed(world: World, store: MetadataStore) -> None:
    topic = "/default/failover-test"
    a, b, _ = world.brokers
    world.cluster.run_only(a, *world.controllers)
    await provision(store, topic, world)
    set_policy(world, topic, "max_producers_per_topic", 1)
    async with danube_client(world.gate.url) as client:
        await goes_through(client, topic, "before")
        await attached(store, topic)
        b.start()
        await until_at(b.url, topic, a.url)
        durable = await Durable.of(store)
        a.kill()
        await until_at(b.url, topic, b.url)
        await until_at(world.gate.url, topic, world.gate.url_of(b))
        await durable.assert_untouched(store)
        await goes_through(client, topic, "after")  # A's producer no longer counts, and the limit holds on
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            async with producing(client, topic, "one too many", max_retries=1):
                pass
        assert refused.value.code() is grpc.StatusCode.RESOURCE_EXHAUSTED
    [row] = await asyncio.to_thread(world.gate.decided, operation="owner_changed", topic=topic)
    assert row["client"] == f"{a.address} -> {b.address}"


@pytest.mark.seed("S3-003", "S3-013", "S3-017")
async def test_etcd_is_killed_and_restarted_in_the_middle(
    world: World, store: MetadataStore, topic: str
) -> None:
    a, b, _ = world.brokers
    world.cluster.run_only(a, *world.controllers)
    await provision(store, topic, world)
    async with danube_client(world.gate.url) as client, producing(client, topic) as producer:
        await producer.send(b"before")
        await until_some_key(store, keys.topic_key(topic, f"producers/{producer._producers[0].producer_id}"))
        b.start()
        durable = await Durable.of(store)
        a.kill()
        world.etcd.kill()
        world.etcd.start()
        await until_at(world.gate.url, topic, world.gate.url_of(b))
        await until_at(b.url, topic, b.url)
        await durable.assert_untouched(store)
        await producer.send(b"after")  # an unchanged client goes on
        await goes_through(client, topic, "again")
        set_policy(world, topic, "max_message_size", 10)  # the gateway follows etcd again, too
        with pytest.raises(grpc.aio.AioRpcError) as refused:
            await producer.send(b"more than that")
        assert refused.value.code() is grpc.StatusCode.INVALID_ARGUMENT


@pytest.mark.seed("S3-003", "S3-017")
async def test_the_new_owner_dies_too(world: World, store: MetadataStore, topic: str) -> None:
    a, b, _ = world.brokers
    world.cluster.run_only(a, *world.controllers)
    await provision(store, topic, world)
    async with danube_client(world.gate.url) as client:
        await goes_through(client, topic, "before")
        await attached(store, topic)
        b.start()
        durable = await Durable.of(store)
        a.kill()
        await until_some_key(store, keys.assignment_key(b.number, topic))
        b.kill()
        await until_some_key(store, keys.unassigned_key(topic))  # no broker is left to take it
        await durable.assert_untouched(store)
        await asyncio.to_thread(a.start)
        await until_at(a.url, topic, a.url)
        await until_at(world.gate.url, topic, world.gate.url_of(a))
        await durable.assert_untouched(store)
        await goes_through(client, topic, "after")
