"""Storage quotas on a real Kafka whose volume really fills."""

import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from confluent_kafka import Consumer, TopicPartition
from tests.kafka.real.support.broker import KafkaBroker
from tests.kafka.real.support.clients import create_topic, read_topic
from tests.kafka.real.support.families import RdkafkaFamily
from tests.kafka.real.support.families.base import wall_ms
from tests.kafka.real.support.gate import Gate
from tests.kafka.real.support.history import judge
from tests.kafka.real.support.steady import SteadyProducer
from tests.real.volumes import MIB, Filler, mounted
from tests.waiting import LONG_S

from sluicegate.features.storage_quota.snapshot import read_snapshot

VOLUME = 512 * MIB
SOFT, HARD = 300 * MIB, 100 * MIB
"""Free bytes."""
QUOTA = 500_000
LIMITS = {"storage_soft_min_free_bytes": SOFT, "storage_hard_min_free_bytes": HARD}
STORAGE = {"source": "log_dirs", "interval": "250ms", "timeout": f"{LONG_S}s"}


@pytest.fixture(scope="module")
def volume(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """The volume of the node's log directory."""
    with mounted(tmp_path_factory.mktemp("storage") / "volume", VOLUME // MIB) as where:
        yield where


@pytest.fixture(scope="module")
def full_kafka(
    kafka_libs: None, volume: Path, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[KafkaBroker]:
    """A node whose log directory has a volume of its own."""
    lines = {"log.dirs": f"{volume}/kafka", "log.index.size.max.bytes": "1048576"}
    with KafkaBroker(tmp_path_factory.mktemp("full") / "node", properties=lines) as node:
        yield node


@pytest.fixture
def filler(volume: Path) -> Iterator[Filler]:
    filler = Filler(volume)
    yield filler
    filler.remove()


def gate_of(directory: Path, node: KafkaBroker, **broker: Any) -> Gate:
    policies = {**LIMITS, "publish_quota_bytes": QUOTA, "burst_seconds": 0.2}
    return Gate(directory, node.bootstrap, policies, {"storage": STORAGE, **broker})


def factor_is(gate: Gate, low: float, high: float) -> None:
    gate.eventually(lambda: low <= factor(gate) <= high, f"the factor is {low} to {high}")


def factor(gate: Gate) -> float:
    return gate.metric("sluicegate_quota_factor", factor="storage_quota")


def end_offset(node: KafkaBroker, topic: str) -> int:
    asking = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "end"})
    try:
        return asking.get_watermark_offsets(TopicPartition(topic, 0), timeout=LONG_S)[1]
    finally:
        asking.close()


def first_record(node: KafkaBroker, topic: str) -> tuple[bytes, bytes]:
    asking = Consumer({"bootstrap.servers": node.bootstrap, "group.id": "first"})
    try:
        asking.assign([TopicPartition(topic, 0, 0)])
        message = asking.poll(LONG_S)
        assert message is not None
        return bytes(message.key() or b""), bytes(message.value() or b"")
    finally:
        asking.close()


@pytest.mark.seed("S4-004", "S4-012", "S4-019", "S4-035")
def test_publishing_slows_down_along_the_ramp(
    full_kafka: KafkaBroker, filler: Filler, tmp_path: Path
) -> None:
    topic = "ramp"
    create_topic(full_kafka.bootstrap, topic, message_timestamp_type="LogAppendTime")
    with gate_of(tmp_path / "gate", full_kafka) as gate:
        filler.leave(HARD + (SOFT - HARD) // 2)
        factor_is(gate, 0.45, 0.52)
        before = factor(gate)
        settings, began_ms = {"batch.num.messages": 1, "linger.ms": 0}, wall_ms()
        log = RdkafkaFamily().publish(gate.bootstrap, topic, [10_000] * 100, settings=settings)
        assert log.errored == {}
        stored = read_topic(full_kafka.bootstrap, topic)
        judge(log, stored).assert_clean()
        # What was sent took room itself, so the factor only fell meanwhile; the burst is of the full rate.
        for number, at_ms in enumerate(sorted(each.timestamp_ms for each in stored)):
            allowed = QUOTA * (0.2 + 1.05 * before * (at_ms - began_ms + 5) / 1_000)
            assert number * 10_000 <= allowed
        rows = gate.decided(policy="storage_quota", topic=topic)
        assert {row["action"] for row in rows} == {"delay"}
        assert all(0.4 < row["factor"] < 0.55 for row in rows)


@pytest.mark.seed("S4-010", "S4-011", "S4-013", "S4-014", "S4-034")
def test_a_full_volume_pauses_publishing_and_nothing_is_lost(
    full_kafka: KafkaBroker, filler: Filler, tmp_path: Path
) -> None:
    topic = "pause"
    create_topic(full_kafka.bootstrap, topic)
    with (
        gate_of(tmp_path / "gate", full_kafka, max_hold="2s") as gate,
        SteadyProducer(gate.bootstrap, topic, "steady", request_timeout_ms=5_000) as steady,
    ):
        filler.leave(HARD // 2)
        gate.decided(policy="storage_quota", topic=topic, factor=0.0)
        at = end_offset(full_kafka, topic)
        deadline = time.monotonic() + 4
        while time.monotonic() < deadline:
            time.sleep(
                0.2
            )  # real time passes: longer than max_hold, so that the producer is told and retries
            assert end_offset(full_kafka, topic) == at
        filler.remove()
        factor_is(gate, 1, 1)
        steady.goes_on()
    assert steady.log.errored == {}
    judge(steady.log, read_topic(full_kafka.bootstrap, topic)).assert_clean()


@pytest.mark.seed("S4-030", "S4-031", "S4-033", "S4-040")
def test_gates_that_read_snapshots_decide_as_the_one_that_publishes_them(
    full_kafka: KafkaBroker, filler: Filler, tmp_path: Path
) -> None:
    reading = {"storage": {"source": "snapshots", "topic": "usage", "interval": "250ms"}}
    publishing = {"storage": {**STORAGE, "publish_snapshots": "usage"}}
    with gate_of(tmp_path / "publishes", full_kafka, **publishing) as first:
        first.eventually(lambda: first.metric("sluicegate_quota_factor_known") == 1, "it has measured")
        with (
            Gate(tmp_path / "reads", full_kafka.bootstrap, {}, reading) as second,
            Gate(tmp_path / "reads-too", full_kafka.bootstrap, {}, reading) as third,
        ):
            for each in (first, second, third):
                factor_is(each, 1, 1)
            filler.leave(HARD + (SOFT - HARD) // 4)
            for each in (first, second, third):
                factor_is(each, 0.24, 0.26)
            key, value = first_record(full_kafka, "usage")
            assert key == b"1"
            assert read_snapshot(value, "1").usage.limits.hard
            filler.leave(HARD // 2)
            for each in (first, second, third):
                factor_is(each, 0, 0)
            third.restart()
            assert factor(third) == 0


@pytest.mark.seed("S4-015")
def test_an_unreachable_cluster_is_unknown(full_kafka: KafkaBroker, tmp_path: Path) -> None:
    nobody = {"username": "nobody", "password": "wrong"}
    with gate_of(tmp_path / "gate", full_kafka, identity=nobody) as gate:
        factor_is(gate, 0, 0)
        assert gate.metric("sluicegate_quota_factor_known", factor="storage_quota") == 0
        gate.apply({**LIMITS, "on_unknown": {"storage_quota": "open"}})
        factor_is(gate, 1, 1)
        assert gate.metric("sluicegate_quota_factor_known", factor="storage_quota") == 0
