"""Reading and writing the topic of snapshots, with fake clients."""

import asyncio
import json
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from types import SimpleNamespace
from typing import Any

import aiokafka
import pytest

import sluicegate_kafka.cluster.admin
from sluicegate.features.storage_quota.snapshot import BrokerUsage, Snapshot
from sluicegate.features.storage_quota.volumes import Volume
from sluicegate_kafka.cluster import snapshot_topic
from sluicegate_kafka.cluster.snapshot_topic import NoSuchTopicError, SnapshotPublisher, SnapshotTopic

NOW_MS = 1_650_000_000_000
DATED = "2022-04-15T05:20:{:02d}Z"
"""In the minute of `NOW_MS`."""


def told(broker: str, second: int = 0, volumes: int = 1, year: int = 2022) -> tuple[bytes, bytes]:
    snapshot = {
        "brokerId": broker,
        "snapshotAt": DATED.format(second).replace("2022", str(year)),
        "hardLimit": {"type": "MinFreeBytes", "level": 1},
        "softLimit": {"type": "MinFreeBytes", "level": 2},
        "volumes": [{"volumeName": f"v{each}", "capacity": 100, "consumed": 1} for each in range(volumes)],
    }
    return broker.encode(), json.dumps(snapshot).encode()


class Cluster:
    """One topic of one partition, and the clients that the room makes."""

    def __init__(self) -> None:
        self.records: list[tuple[bytes, bytes | None]] = []
        self.partitions = [("usage", 0)]
        self.made: list[str] = []
        self.open = 0
        self.hangs_at: int | None = None
        self.refused: Exception | None = None
        self.read_from: list[int] = []

    @asynccontextmanager
    async def admin(self, _: Mapping[str, Any]) -> AsyncIterator[Any]:
        async def partitions_of(_: Sequence[str]) -> list[tuple[str, int]]:
            return self.partitions

        async def make_compacted(topic: str) -> None:
            self.made.append(topic)
            self.partitions = [(topic, 0)]

        yield SimpleNamespace(partitions_of=partitions_of, make_compacted=make_compacted)


class Client:
    """A consumer or a producer of the cluster."""

    cluster: Cluster

    def __init__(self, **_: Any) -> None:
        self.at = 0

    async def start(self) -> None:
        self.cluster.open += 1

    async def stop(self) -> None:
        self.cluster.open -= 1

    def assign(self, partitions: Sequence[Any]) -> None:
        self.partitions = partitions

    async def end_offsets(self, partitions: Sequence[Any]) -> Mapping[Any, int]:
        return dict.fromkeys(partitions, len(self.cluster.records))

    async def beginning_offsets(self, partitions: Sequence[Any]) -> Mapping[Any, int]:
        return dict.fromkeys(partitions, 0)

    def seek(self, _: Any, offset: int) -> None:
        self.at = offset

    async def position(self, _: Any) -> int:
        return self.at

    async def getmany(self, **_: Any) -> Mapping[Any, list[Any]]:
        if self.cluster.hangs_at == self.at:
            await asyncio.Event().wait()
        self.cluster.read_from.append(self.at)
        key, value = self.cluster.records[self.at]
        record = SimpleNamespace(offset=self.at, key=key, value=value)
        self.at += 1
        return {self.partitions[0]: [record]}

    async def send(self, _: str, *, key: bytes, value: bytes) -> "asyncio.Future[None]":
        result: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if self.cluster.refused is not None:
            result.set_exception(self.cluster.refused)
        else:
            self.cluster.records.append((key, value))
            result.set_result(None)
        return result


@pytest.fixture
def cluster(monkeypatch: pytest.MonkeyPatch) -> Cluster:
    cluster = Cluster()
    client = type("Of", (Client,), {"cluster": cluster})
    monkeypatch.setattr(aiokafka, "AIOKafkaConsumer", client)
    monkeypatch.setattr(aiokafka, "AIOKafkaProducer", client)
    monkeypatch.setattr(sluicegate_kafka.cluster.admin, "admin_client", cluster.admin)
    return cluster


class Reader:
    """The topic as a gateway reads it, and what it refused and forgot."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.forgotten: list[str] = []
        self.topic = SnapshotTopic(
            "usage",
            dict,
            lambda: NOW_MS,
            lambda reason, _: self.refused.append(reason),
            self.forgotten.append,
        )


@pytest.fixture
def reader(cluster: Cluster) -> Reader:
    return Reader()


@pytest.mark.seed("S4-031")
async def test_each_reading_gives_the_latest_new_snapshot_per_broker(
    cluster: Cluster, reader: Reader
) -> None:
    cluster.records = [told("1", 5), told("1", 3), told("2", 1)]
    found = await reader.topic.read()
    assert {broker: usage.at_ms % 60_000 for broker, usage in found.items()} == {"1": 5_000, "2": 1_000}
    assert await reader.topic.read() == {}
    cluster.records.append(told("2", 9))
    assert list(await reader.topic.read()) == ["2"]
    assert cluster.read_from == [0, 1, 2, 3]
    assert cluster.open == 0


async def test_an_interrupted_reading_loses_no_snapshot(cluster: Cluster, reader: Reader) -> None:
    cluster.records, cluster.hangs_at = [told("1"), told("2"), told("3")], 2
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.05):
            await reader.topic.read()
    assert cluster.open == 0
    cluster.hangs_at = None
    assert sorted(await reader.topic.read()) == ["1", "2", "3"]
    assert cluster.read_from == [0, 1, 2]


async def test_a_tombstone_withdraws_earlier_snapshots(cluster: Cluster, reader: Reader) -> None:
    cluster.records = [told("1"), told("2"), (b"1", None)]
    assert list(await reader.topic.read()) == ["2"]
    assert reader.forgotten == ["1"]


async def test_a_snapshot_dated_in_the_future_hides_no_later_one(cluster: Cluster, reader: Reader) -> None:
    cluster.records = [told("1", 1), told("1", year=2999)]
    found = await reader.topic.read()
    assert found["1"].at_ms % 60_000 == 1_000
    assert reader.refused == ["future"]


async def test_records_that_are_not_snapshots_are_refused(cluster: Cluster, reader: Reader) -> None:
    cluster.records = [(b"1", b"{"), (b"\xff", b"{}"), (b"2", told("1")[1]), told("9" * 1_001), told("3")]
    assert list(await reader.topic.read()) == ["3"]
    assert reader.refused == ["malformed"] * 4


async def test_snapshots_beyond_the_bound_are_refused(
    cluster: Cluster, reader: Reader, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(snapshot_topic, "MAX_BROKERS", 2)
    monkeypatch.setattr(snapshot_topic, "MAX_VOLUMES", 5)
    cluster.records = [told("1", volumes=4), told("2", volumes=2), told("1", 1), told("2", 1), told("3")]
    assert sorted(await reader.topic.read()) == ["1", "2"]
    assert reader.refused == ["too_many", "too_many"]


async def test_without_the_topic_none_is_created(cluster: Cluster, reader: Reader) -> None:
    cluster.partitions = []
    with pytest.raises(NoSuchTopicError, match="no topic 'usage'"):
        await reader.topic.read()
    assert cluster.made == []


def snapshot(broker: str = "1") -> Snapshot:
    return Snapshot(broker, BrokerUsage((Volume("v", 100, 1),), NOW_MS))


@pytest.mark.seed("S4-062")
async def test_a_snapshot_refused_by_the_broker_is_an_error(cluster: Cluster) -> None:
    cluster.refused = RuntimeError("not enough replicas")
    with pytest.raises(RuntimeError, match="not enough replicas"):
        await SnapshotPublisher("usage", dict).publish([snapshot("1"), snapshot("2")])
    assert cluster.open == 0


@pytest.mark.seed("S4-030")
async def test_the_topic_is_created_only_where_it_is_missing(cluster: Cluster) -> None:
    publisher = SnapshotPublisher("usage", dict)
    await publisher.publish([snapshot()])
    assert cluster.made == []
    cluster.partitions = []
    await publisher.publish([snapshot()])
    assert cluster.made == ["usage"]
    assert [key for key, _ in cluster.records] == [b"1", b"1"]
