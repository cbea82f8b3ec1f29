"""A broker reports its load on its lease, in the format that the failover controller reads."""

import json

import pytest
from tests.danube.support.stored import A, B, die, provide, stored_brokers

from sluicegate.store.metadata import MemoryMetadata
from sluicegate_danube.failover import keys
from sluicegate_danube.failover.values import usage_of_broker
from sluicegate_danube.reference.stored import StoredBroker
from sluicegate_danube.reference.stored.reports import Usage, report_value


async def reports(store: MemoryMetadata) -> list[str]:
    return [entry.key for entry in (await store.list(keys.LOADS)).entries]


async def test_a_report_exists_as_long_as_the_registration() -> None:
    store = MemoryMetadata()
    async with stored_brokers(store, A, B) as brokers:
        seen: set[str] = set()
        async for events in store.watch(keys.LOADS, 1):
            seen |= {event.key for event in events}
            if len(seen) == 2:
                break
        assert await reports(store) == [keys.load_key(A), keys.load_key(B)]
        await die(store, brokers[A])
        assert await reports(store) == [keys.load_key(B)]
    await store.close()


async def test_a_report_names_the_topics_and_is_renewed() -> None:
    store = MemoryMetadata()
    async with StoredBroker(store.another(), A, ttl_s=60, report_s=0.001) as broker:
        await provide(store, "/default/a", broker)
        async for events in store.watch(keys.LOADS, 1):
            [entry] = [event.entry for event in events]
            assert entry is not None
            assert 0 <= usage_of_broker(entry.value) <= 100
            said = json.loads(entry.value)
            if said["topics_len"]:
                assert said["topic_list"] == ["/default/a"]
                break
    await store.close()


def test_usage_is_a_share_of_all_cpus(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("os.cpu_count", lambda: 4)
    clock, used = [10.0], [1.0]
    usage = Usage(lambda: clock[0], lambda: used[0])
    assert usage.cpu() == 0
    clock[0], used[0] = 20.0, 21.0
    assert usage.cpu() == 50
    clock[0], used[0] = 21.0, 121.0
    assert usage.cpu() == 100
    assert 0 < usage.memory() <= 100


def test_usage_is_the_mean_of_cpu_and_memory() -> None:
    assert usage_of_broker(report_value(20, 60, ["/default/a"])) == 40
