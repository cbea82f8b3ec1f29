"""How fast topics of a dead Danube broker have new owners, and how evenly: in memory and on etcd."""

import asyncio
import json
import time
from collections.abc import AsyncIterator
from contextlib import aclosing, asynccontextmanager
from pathlib import Path

from benchmarks.harness.arms import Bench
from benchmarks.harness.etcd import Etcd, why_no_etcd
from benchmarks.harness.names import METADATA_ETCD, METADATA_MEMORY
from benchmarks.harness.processes import UnavailableError
from benchmarks.harness.scenario import Scenario
from sluicegate.store.metadata.memory import MemoryMetadata
from sluicegate.store.metadata.metadata_store import Listing, MetadataStore
from sluicegate.store.metadata.opening import open_metadata
from sluicegate_danube.failover import keys, runner
from sluicegate_danube.failover.controller import Controller
from sluicegate_danube.failover.election import Election

TOPICS, SURVIVORS = 200, 3
DEAD = 100
TTL_S = 3
_CONTROLLER_TTL_S = 5


def _failover(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    if arm == METADATA_MEMORY:
        return asyncio.run(_in_memory(quick))
    if reason := why_no_etcd():
        raise UnavailableError(reason)
    with Etcd(Path(bench.directory) / f"etcd-{time.monotonic_ns()}") as member:
        return asyncio.run(_on_etcd(member.url, quick))


async def _in_memory(quick: bool) -> dict[str, float]:
    store = MemoryMetadata()
    return await _measured(store.another(), store.another(), quick)


async def _on_etcd(url: str, quick: bool) -> dict[str, float]:
    opened = [open_metadata(url) for _ in range(2)]
    stores = [each[0] for each in opened if each is not None]
    return await _measured(stores[0], stores[1], quick)


async def _measured(world: MetadataStore, own: MetadataStore, quick: bool) -> dict[str, float]:
    """One broker's lease ends, and another client watches what becomes of its topics."""
    count = TOPICS // 10 if quick else TOPICS
    try:
        lease = await _fill(world, count)
        before = await _durable(world)
        async with _running(own) as controller:
            while not controller.figures.leading:  # noqa: ASYNC110 - nothing tells of it
                await asyncio.sleep(0.01)
            watching = asyncio.ensure_future(_watched(world, count))
            await asyncio.sleep(0)  # the watch begins before the lease is renewed for the last time
            renewed_s, cpu_s = time.monotonic(), time.process_time()
            await world.keep_alive(lease)
            gone_s, given_s, owners = await watching
            cpu_s = time.process_time() - cpu_s
        if await _durable(world) != before:
            raise RuntimeError("durable metadata has changed")
    finally:
        await world.close()
        await own.close()
    counts = [list(owners.values()).count(broker) for broker in range(1, SURVIVORS + 1)]
    return {
        "reassigned_ms": (given_s - gone_s) * 1000,
        "beyond_ttl_ms": (given_s - renewed_s - TTL_S) * 1000,
        "max_over_min": max(counts) / min(counts),
        "cpu_ms": cpu_s * 1000,
    }


@asynccontextmanager
async def _running(store: MetadataStore) -> AsyncIterator[Controller]:
    """A controller as `sluicegate danube failover run` has it."""
    controller = Controller(store, Election(store, 2**63, _CONTROLLER_TTL_S, time.monotonic_ns))
    stopping = asyncio.Event()
    task = asyncio.ensure_future(runner.run(controller, store, _CONTROLLER_TTL_S, stopping))
    try:
        yield controller
    finally:
        stopping.set()
        await task


async def _fill(store: MetadataStore, count: int) -> int:
    """Brokers that live, and one with all topics; gives the lease of that one."""
    for broker in range(1, SURVIVORS + 1):
        await store.put(keys.registration_key(broker), json.dumps(f"http://10.0.0.{broker}:6650").encode())
    for number in range(count):
        topic = f"/default/topic-{number}"
        for key in (keys.namespace_topic_key(topic), keys.topic_key(topic)):
            await store.put(key, keys.EMPTY)
        for part in ("policy", "schema", "delivery"):
            await store.put(keys.topic_key(topic, part), b"{}")
        await store.put(keys.assignment_key(DEAD, topic), keys.EMPTY)
    lease = await store.grant(TTL_S)
    await store.put(keys.registration_key(DEAD), b'"http://10.0.0.100:6650"', lease)
    return lease


async def _durable(store: MetadataStore) -> list[Listing]:
    listings = [await store.list(prefix) for prefix in keys.DURABLE]
    return [Listing(0, listing.entries) for listing in listings]


async def _watched(store: MetadataStore, count: int) -> tuple[float, float, dict[str, int]]:
    """When the registration was gone, when the last topic had an owner, and who owns each."""
    gone_s, owners = 0.0, dict[str, int]()
    after = (await store.list(keys.CLUSTER)).revision
    async with aclosing(store.watch(keys.CLUSTER, after)) as changes:
        async for events in changes:
            for event in events:
                key = keys.parse(event.key)
                if key == keys.Registration(DEAD) and event.entry is None:
                    gone_s = time.monotonic()
                if isinstance(key, keys.Assignment) and event.entry is not None:
                    owners[key.topic] = key.broker
            if len(owners) == count:
                break
    return gone_s, time.monotonic(), owners


SCENARIOS = (
    Scenario(
        "failover",
        f"a Danube broker's {TOPICS} topics get new owners once its lease is over",
        (METADATA_MEMORY, METADATA_ETCD),
        _failover,
    ),
)
