"""Reference brokers that share a store in memory, and what a load manager does there by hand."""

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from tests.waiting import until_so

from sluicegate.demo.ports import free_ports
from sluicegate.store.metadata import Delete, MemoryMetadata, MetadataStore, Put, Unchanged
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.stored import StoredBroker, create_topic

A, B, C = 1, 2, 3
"""Ids of brokers."""


@asynccontextmanager
async def stored_brokers(
    store: MemoryMetadata, *ids: int, ttl_s: int = 60
) -> AsyncIterator[dict[int, StoredBroker]]:
    """Brokers by their ids, within the block."""
    brokers: dict[int, StoredBroker] = {}
    try:
        for broker_id in ids:
            # Of a kind that no outgoing connection is given while a broker is dead.
            broker = StoredBroker(store.another(), broker_id, ttl_s=ttl_s, port=free_ports(1))
            brokers[broker_id] = await broker.__aenter__()
        yield brokers
    finally:
        for broker in brokers.values():
            await broker.__aexit__(None, None, None)


async def assign(store: MetadataStore, topic: str, owner: StoredBroker) -> None:
    """Give an unassigned topic to a broker, as a load manager does; returns once the broker serves it."""
    waits = await store.get(keys.unassigned_key(topic))
    assert waits is not None
    changes: list[Put | Delete] = [
        Delete(waits.key),
        Put(keys.assignment_key(owner.broker_id, topic), keys.EMPTY),
    ]
    assert await store.transact([Unchanged(waits.key, waits.modified)], changes)
    await until_so(lambda: topic in owner.cluster.topics)
    await until_so(lambda: owner.view.owner(topic) == owner.broker_id)


async def provide(store: MetadataStore, topic: str, owner: StoredBroker, *, reliable: bool = False) -> None:
    """Make a topic that a broker serves."""
    assert await create_topic(store, topic, reliable=reliable)
    await assign(store, topic, owner)


async def orphan(store: MetadataStore, topic: str, owner: int) -> None:
    """Take a topic from a broker, as a failover controller does of a dead one."""
    key = keys.assignment_key(owner, topic)
    held = await store.get(key)
    assert held is not None
    changes: list[Put | Delete] = [Delete(key), Put(keys.unassigned_key(topic), keys.EMPTY)]
    assert await store.transact([Unchanged(key, held.modified)], changes)


async def die(store: MetadataStore, broker: StoredBroker) -> None:
    """Kill a broker, and let its lease run out at once."""
    await broker.kill()
    found = await store.get(keys.registration_key(broker.broker_id))
    assert found is not None
    await store.revoke(found.lease)


async def durable(store: MetadataStore) -> list[tuple[str, bytes, int]]:
    """What failover must not touch: keys, values and the revisions that wrote them."""
    return [
        (entry.key, entry.value, entry.modified)
        for prefix in keys.DURABLE
        for entry in (await store.list(prefix)).entries
    ]
