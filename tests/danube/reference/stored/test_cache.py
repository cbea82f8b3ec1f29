"""How a broker learns of a topic before it serves it: the watch, a short wait, then one read of the store."""

import asyncio
import json
from collections.abc import AsyncIterator

import pytest
from tests.danube.support.stored import A, assign, provide, stored_brokers
from tests.waiting import LONG_S, until_so

from sluicegate.store.metadata import Entry, Event, Listing, MemoryMetadata
from sluicegate_danube.failover import keys
from sluicegate_danube.reference.broker_settings import Settings
from sluicegate_danube.reference.stored import create_namespace, create_topic
from sluicegate_danube.reference.stored.assignments import Assignments
from sluicegate_danube.reference.stored.cache import PrefixCache
from sluicegate_danube.reference.stored.cluster import StoredCluster
from sluicegate_danube.reference.stored.provisioning import read_topic
from sluicegate_danube.reference.stored.view import ClusterView, registration_value
from sluicegate_danube.reference.stored.writes import Writes

TOPIC = "/default/orders"


class Counting(MemoryMetadata):
    """A store that counts listings."""

    lists = 0

    async def list(self, prefix: str) -> Listing:
        self.lists += 1
        return await super().list(prefix)


class Bench:
    """The assignments of broker 1, whose cache is fed by hand."""

    def __init__(self, wait_s: float) -> None:
        self.store = Counting()
        self.view = ClusterView(self.store)
        self.cluster = StoredCluster(
            Settings(), lambda *later: None, self.store, self.view, Writes(), lambda: True
        )
        self.assignments = Assignments(self.store, 1, self.cluster, wait_s)
        self._revision = 99

    async def feed(self) -> None:
        """Let the cache know what the store holds."""
        self.view.durable.take(await MemoryMetadata.list(self.store, keys.TOPICS))

    def assigned(self) -> None:
        self.assignments.cache.take([self._event(b"null")])

    def taken_away(self) -> None:
        self.assignments.cache.take([self._event(None)])

    def _event(self, value: bytes | None) -> Event:
        key = keys.assignment_key(1, TOPIC)
        self._revision += 1
        entry = Entry(key, value, self._revision, self._revision) if value is not None else None
        return Event(key, self._revision, entry)


async def test_a_fully_known_topic_is_served_at_once() -> None:
    bench = Bench(LONG_S)
    await create_topic(bench.store, TOPIC, reliable=True, schema_subject="orders-value")
    await bench.feed()
    bench.assigned()
    await until_so(lambda: TOPIC in bench.cluster.topics)
    assert bench.store.lists == 0
    assert bench.cluster.topics[TOPIC].reliable
    assert bench.cluster.topics[TOPIC].schema_subject == "orders-value"


async def test_a_topic_waits_for_the_watch() -> None:
    bench = Bench(LONG_S)
    await create_topic(bench.store, TOPIC)
    bench.assigned()
    for _ in range(10):
        await asyncio.sleep(0)
    assert TOPIC not in bench.cluster.topics
    await bench.feed()
    await until_so(lambda: TOPIC in bench.cluster.topics)
    assert bench.store.lists == 0


@pytest.mark.seed("S3-009")
async def test_the_store_is_read_once_if_the_watch_is_silent() -> None:
    bench = Bench(0.01)
    await create_topic(bench.store, TOPIC, reliable=True)
    bench.assigned()
    await until_so(lambda: TOPIC in bench.cluster.topics)
    assert bench.store.lists == 1
    assert bench.cluster.topics[TOPIC].reliable


async def test_a_topic_without_entries_is_served_with_defaults_and_reported(
    caplog: pytest.LogCaptureFixture,
) -> None:
    bench = Bench(0.01)
    await bench.store.put(keys.topic_key(TOPIC, "policy"), b"{")
    bench.assigned()
    await until_so(lambda: TOPIC in bench.cluster.topics)
    assert "policy is no JSON" in caplog.text
    assert "delivery is missing" in caplog.text
    assert not bench.cluster.topics[TOPIC].reliable
    assert await bench.store.get(keys.topic_key(TOPIC, "policy")) is not None


async def test_a_topic_reassigned_meanwhile_is_not_served() -> None:
    bench = Bench(LONG_S)
    await create_topic(bench.store, TOPIC)
    bench.assigned()
    await asyncio.sleep(0)
    bench.taken_away()
    await bench.feed()
    for _ in range(10):
        await asyncio.sleep(0)
    assert not bench.cluster.topics


async def test_a_reassigned_topic_is_closed_and_forgotten() -> None:
    bench = Bench(LONG_S)
    await create_topic(bench.store, TOPIC)
    await bench.feed()
    bench.assigned()
    await until_so(lambda: TOPIC in bench.cluster.topics)
    producer = bench.cluster.add_producer(bench.cluster.topics[TOPIC], "p")
    bench.taken_away()
    assert not bench.cluster.topics
    assert bench.cluster.topic_of(producer, 0) is None


@pytest.mark.parametrize(
    ("part", "value", "problem"),
    [
        ("delivery", b'"Sometimes"', "neither"),
        ("policy", b"[1]", "policy is no object"),
        ("schema", b"7", "schema is no object"),
        ("schema", b"[" * 100_000, "schema is no JSON"),
    ],
)
async def test_entries_of_unknown_shape(part: str, value: bytes, problem: str) -> None:
    store = MemoryMetadata()
    await create_topic(store, TOPIC)
    await store.put(keys.topic_key(TOPIC, part), value)
    listing = await store.list(keys.TOPICS)
    read = read_topic(TOPIC, {entry.key: entry.value for entry in listing.entries})
    assert any(problem in told for told in read.problems)


@pytest.mark.seed("S3-004", "S3-005")
async def test_the_stored_entries_of_a_topic() -> None:
    store = MemoryMetadata()
    assert await create_namespace(store, "default", {"max_producers": 3})
    assert not await create_namespace(store, "default")
    assert await create_topic(store, TOPIC, policy={"max_subscriptions": 2})
    assert not await create_topic(store, TOPIC, reliable=True)
    held = {entry.key: json.loads(entry.value) for entry in (await store.list("/")).entries}
    assert held == {
        "/namespaces/default/policy": {"max_producers": 3},
        "/namespaces/default/topics/default/orders": None,
        "/topics/default/orders/policy": {"max_subscriptions": 2},
        "/topics/default/orders/schema": None,
        "/topics/default/orders/delivery": "NonReliable",
        "/cluster/unassigned/default/orders": None,
    }


async def test_a_listing_replaces_the_cache_and_older_events_are_ignored() -> None:
    told: list[tuple[str, bytes | None]] = []
    store = MemoryMetadata()
    cache = PrefixCache(store, "/k/", lambda key, value: told.append((key, value)))
    await store.put("/k/a", b"1")
    late = [Event("/k/a", 1, (await store.list("/k/")).entries[0])]
    await cache.refresh()
    await store.delete("/k/a")
    await store.put("/k/b", b"2")
    await cache.refresh()
    cache.take(late)  # a watch that is behind
    assert cache.entries == {"/k/b": b"2"}
    assert told == [("/k/a", b"1"), ("/k/a", None), ("/k/b", b"2")]


async def test_changes_that_overtake_a_listing_are_not_lost(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    store = MemoryMetadata()
    cache = PrefixCache(store, "/k/")
    before = await store.list("/k/")
    await store.put("/k/a", b"1")
    [entry] = (await store.list("/k/")).entries

    async def late(prefix: str) -> Listing:
        cache.take([Event("/k/a", entry.modified, entry)])
        return before

    monkeypatch.setattr(store, "list", late)
    await cache.refresh()
    assert cache.entries == {"/k/a": b"1"}


def test_a_view_leaves_strange_keys_and_values_alone() -> None:
    view = ClusterView(MemoryMetadata())
    cluster = view.caches[1]
    strange = [
        ("/cluster/register/1", b"{"),
        ("/cluster/register/x", b'"http://a:1"'),
        ("/cluster/register/2", b"[7]"),
        ("/cluster/brokers/2/default/orders", b"null"),
        ("/cluster/brokers/3/default", b"null"),
        ("/cluster/register/3", registration_value("http://c:3")),
        ("/cluster/brokers/3/default/orders", b"null"),
    ]
    entries = tuple(Entry(key, value, 1, 1) for key, value in strange)
    cluster.take(Listing(1, entries))
    assert view.owner(TOPIC) == 3
    assert view.url(3) == "http://c:3"
    cluster.take([Event("/cluster/register/3", 2, None)])
    assert view.owner(TOPIC) is None


@pytest.fixture
async def store() -> AsyncIterator[MemoryMetadata]:
    made = MemoryMetadata()
    yield made
    await made.close()


async def test_waiting_topics_reach_a_broker_that_starts_late(store: MemoryMetadata) -> None:
    assert await create_topic(store, TOPIC)
    async with stored_brokers(store, A) as brokers:
        await assign(store, TOPIC, brokers[A])
        await provide(store, "/default/other", brokers[A])
        assert sorted(brokers[A].cluster.topics) == [TOPIC, "/default/other"]
        assert all(brokers[A].view.knows(name) for name in brokers[A].cluster.topics)
