"""`kill -9` of a Danube topic's owner, again and again, on an etcd: how long until messages go through."""

import asyncio
import itertools
import time
from collections.abc import AsyncIterator
from contextlib import ExitStack, asynccontextmanager
from dataclasses import dataclass

import grpc
from danube import DanubeClient, DanubeClientBuilder, DispatchStrategy, Producer

from benchmarks.harness.arms import Bench
from benchmarks.harness.danube_cluster import Broker, DanubeCluster
from benchmarks.harness.etcd import Etcd, why_no_etcd
from benchmarks.harness.names import SLUICEGATE
from benchmarks.harness.processes import UnavailableError
from benchmarks.harness.proxies import Gate
from benchmarks.harness.samples import percentile
from benchmarks.harness.scenario import Scenario
from sluicegate.store.metadata import Listing, MetadataStore, open_metadata
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.stored import create_topic

TTL_S = 2
_KILLS = 10
_TOPIC = "/default/failover-kills"
_POLL_S = 0.01
_WAIT_S = 120
_rounds = itertools.count(1)


@dataclass(frozen=True, slots=True)
class _Kill:
    """Seconds from the kill."""

    reassigned_s: float
    """Until the topic is assigned to the other broker: detection and reassignment."""
    first_message_s: float
    """Until a message is acknowledged that an unchanged producer sent through the gate after the kill."""
    first_received_s: float
    """Until a new consumer behind the gate has a message that was sent after the kill."""
    durable_changed: int
    """Entries below `/topics` and `/namespaces` that were changed until then."""


def _measure(bench: Bench, _: str, quick: bool) -> dict[str, float]:
    if reason := why_no_etcd():
        raise UnavailableError(reason)
    directory = bench.directory / f"failover-kills-{next(_rounds)}"
    with ExitStack() as stack:
        etcd = stack.enter_context(Etcd(directory / "etcd"))
        cluster = stack.enter_context(DanubeCluster(directory / "cluster", etcd, brokers=2, ttl_s=TTL_S))
        bootstrap = [broker.address for broker in cluster.brokers]
        policies = {"broker": {"max_producers_per_topic": 10}}
        gate = Gate(stack, directory / "gate", "danube", bootstrap, policies, {"resume_producers": True})
        gate.wait()
        cluster.run_only(*cluster.brokers, *cluster.controllers)
        kills = asyncio.run(_kills(cluster, f"http://{gate.address}", 2 if quick else _KILLS))
    values = {
        "kills": float(len(kills)),
        "durable_changed": float(sum(kill.durable_changed for kill in kills)),
    }
    for name in ("reassigned_s", "first_message_s", "first_received_s"):
        taken = [getattr(kill, name) for kill in kills]
        values |= {f"{name}_median": percentile(taken, 0.5), f"{name}_longest": max(taken)}
    return values


async def _kills(cluster: DanubeCluster, url: str, count: int) -> list[_Kill]:
    opened = open_metadata(cluster.etcd.url)
    if opened is None:
        raise RuntimeError(f"no store at {cluster.etcd.url}")
    store = opened[0]
    try:
        await create_topic(store, _TOPIC)
        async with _client(url) as client:
            producer = await _producer(client)
            return [await _kill(cluster, store, client, producer) for _ in range(count)]
    finally:
        await store.close()


async def _kill(
    cluster: DanubeCluster, store: MetadataStore, client: DanubeClient, producer: Producer
) -> _Kill:
    """One kill; the broker is started again after it."""
    owner = await _owner(cluster, store)
    [other] = [broker for broker in cluster.brokers if broker is not owner]
    await _send(producer, b"before")
    await asyncio.sleep(0.5)  # brokers write beside their work which clients they have
    before = await _durable(store)
    began = time.monotonic()
    owner.kill()
    reassigned = asyncio.ensure_future(_assigned(store, other))
    await _send(producer, b"after")
    first_message_s = time.monotonic() - began
    reassigned_s = await reassigned - began
    # The new owner records the recreated producer; nothing else may change.
    durable = await _durable(store)
    changed = {entry for entry in before ^ durable if "/producers/" not in entry[0]}
    first_received_s = await _received(client, producer) - began
    await asyncio.to_thread(owner.start)
    return _Kill(reassigned_s, first_message_s, first_received_s, len(changed))


async def _owner(cluster: DanubeCluster, store: MetadataStore) -> Broker:
    async with asyncio.timeout(_WAIT_S):
        while True:
            for broker in cluster.brokers:
                if await store.get(keys.assignment_key(broker.number, _TOPIC)) is not None:
                    return broker
            await asyncio.sleep(_POLL_S)


async def _assigned(store: MetadataStore, broker: Broker) -> float:
    async with asyncio.timeout(_WAIT_S):
        while await store.get(keys.assignment_key(broker.number, _TOPIC)) is None:  # noqa: ASYNC110 - of etcd
            await asyncio.sleep(_POLL_S)
    return time.monotonic()


async def _durable(store: MetadataStore) -> set[tuple[str, bytes, int]]:
    """Keys, values and the revisions that wrote them."""
    listings: list[Listing] = [await store.list(prefix) for prefix in keys.DURABLE]
    return {(entry.key, entry.value, entry.modified) for listing in listings for entry in listing.entries}


async def _send(producer: Producer, payload: bytes) -> None:
    """Send until it is acknowledged: statuses that the client does not retry are tried again here."""
    async with asyncio.timeout(_WAIT_S):
        while True:
            try:
                await producer.send(payload)
            except grpc.RpcError:
                await asyncio.sleep(_POLL_S)
            else:
                return


async def _received(client: DanubeClient, producer: Producer) -> float:
    """When a consumer that is made now has a message."""
    builder = client.new_consumer().with_topic(_TOPIC).with_consumer_name("consumer")
    consumer = builder.with_subscription("subscription").build()
    await consumer.subscribe()
    messages = await consumer.receive()
    try:
        async with asyncio.timeout(_WAIT_S):
            while messages.empty():
                await _send(producer, b"to be received")
                await asyncio.sleep(_POLL_S)
        return time.monotonic()
    finally:
        await consumer.close()


async def _producer(client: DanubeClient) -> Producer:
    builder = client.new_producer().with_topic(_TOPIC).with_name("producer")
    producer = builder.with_dispatch_strategy(DispatchStrategy.NON_RELIABLE).build()
    async with asyncio.timeout(_WAIT_S):
        while True:
            try:
                await producer.create()
            except grpc.RpcError:
                await asyncio.sleep(_POLL_S)
            else:
                return producer


@asynccontextmanager
async def _client(url: str) -> AsyncIterator[DanubeClient]:
    client = await DanubeClientBuilder().service_url(url).build()
    try:
        yield client
    finally:
        for connection in client.connection_manager._connections.values():  # noqa: SLF001 - it has no close
            await connection.channel.close()


SCENARIOS = (
    Scenario(
        "failover-kills",
        f"kill -9 of a Danube topic's owner, {_KILLS} times, on a real etcd; leases of {TTL_S} s",
        (SLUICEGATE,),
        _measure,
        rounds=1,
        cold_round=False,
    ),
)
