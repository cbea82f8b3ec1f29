"""Rates that follow the state of a real Pulsar: its backlog quotas, its memory, and a volume that fills."""

from contextlib import suppress
from pathlib import Path

import pytest
from tests.pulsar.real.conftest import NewGate, NewNamespace, NewTopic
from tests.pulsar.real.support.admin import Admin, topic_path
from tests.pulsar.real.support.broker import PulsarBroker
from tests.pulsar.real.support.family import Family, RefusedError, numbered
from tests.pulsar.real.support.gate import Gate
from tests.pulsar.real.support.history import judge
from tests.pulsar.real.support.java import JavaFamily
from tests.pulsar.real.support.python import PythonFamily, read_topic
from tests.pulsar.real.support.steady import Steady
from tests.real.volumes import MIB, Filler, mounted
from tests.waiting import until

ADAPTIVE = "adaptive_publish_throttling"
QUOTA, LARGE = 8 * MIB, 50_000
"""Of a backlog: what is left of it above the high watermark lasts a topic at its full rate most of a minute,
and at its lowest much longer."""
MIN_FACTOR = 0.1
"""What a topic keeps of its natural rate, unless the policies say otherwise."""
MEMORY_LOW, MEMORY_HIGH = f"{ADAPTIVE}_memory_low_watermark_pct", f"{ADAPTIVE}_memory_high_watermark_pct"
UNREACHABLE = {MEMORY_LOW: 0.99, MEMORY_HIGH: 0.999}
EXCEEDED = {MEMORY_LOW: 0.0001, MEMORY_HIGH: 0.001}
POLICIES = {
    f"{ADAPTIVE}_enabled": True,
    f"{ADAPTIVE}_interval_ms": "100ms",
    f"{ADAPTIVE}_per_topic_metrics_enabled": True,
    "burst_seconds": 0.1,
}
OBSERVING = {f"{ADAPTIVE}_observe_only": True}
SOFT, HARD = 24 * MIB, 8 * MIB
"""Free bytes of the volume."""
BLOCKED = "ProducerBlockedQuotaExceededException"


def active(gate: Gate) -> float:
    return gate.metric("pulsar_broker_adaptive_throttle_active_topic_count")


def of_topic(gate: Gate, topic: str, what: str) -> float:
    return gate.metric(f"pulsar_broker_topic_adaptive_throttle_{what}", topic=topic)


def factor_is(gate: Gate, low: float, high: float) -> None:
    def factor() -> float:
        return gate.metric("sluicegate_quota_factor", factor="storage_quota")

    gate.eventually(lambda: low <= factor() <= high, f"the factor is {low} to {high}")


def set_quota(admin: Admin, place: str, topic: str, nbytes: int, policy: str) -> None:
    """Set a backlog quota at the page of a namespace or topic, and wait until the topic has it."""
    quota = {"limitSize": nbytes, "limitTime": -1, "policy": policy}
    admin.post(f"{place}/backlogQuota", quota, backlogQuotaType="destination_storage")
    until(lambda: admin.stats(topic)["backlogQuotaLimitSize"] == nbytes, "the quota holds")


@pytest.mark.seed("S5-006", "S5-008", "S5-022", "S5-031")
@pytest.mark.parametrize(
    ("level", "policy"),
    [
        ("namespace", "producer_request_hold"),
        pytest.param("topic", "consumer_backlog_eviction", marks=pytest.mark.longer),
    ],
)
def test_a_backlog_near_its_quota_throttles_the_topic_until_it_drains(
    pulsar: PulsarBroker,
    admin: Admin,
    new_namespace: NewNamespace,
    new_topic: NewTopic,
    new_gate: NewGate,
    python: PythonFamily,
    level: str,
    policy: str,
) -> None:
    namespace = new_namespace()
    topic, other = new_topic(namespace=namespace), new_topic()
    admin.create_subscription(topic, "idle")
    place = f"/namespaces/{namespace}" if level == "namespace" else topic_path(topic)
    set_quota(admin, place, topic, QUOTA, policy)
    pressure = {"backlog": {"interval": "200ms"}}
    gate = new_gate(POLICIES | UNREACHABLE, pressure=pressure)
    with (
        Steady(python, gate.service_url, topic) as steady,
        Steady(python, gate.service_url, other) as unconcerned,
    ):
        steady.goes_on(200)
        # Between the high watermark and the quota itself, which is what Pulsar acts on.
        direct = numbered(int(0.93 * QUOTA / LARGE), "direct", pad=LARGE)
        filled = python.produce(pulsar.service_url, topic, direct).close()
        gate.eventually(lambda: "minimum floor" in gate.output(), "the floor is reached")
        # Metrics are a second old at most.
        gate.eventually(
            lambda: abs(of_topic(gate, topic, "rate_reduction_ratio") - MIN_FACTOR) < 0.02, "metrics tell it"
        )
        assert active(gate) == 1
        assert of_topic(gate, topic, "backlog_pressure") == 1
        steady.goes_on(20)  # how fast is no measure: a client that had no processor hears of many at once
        unconcerned.goes_on(50)
        assert admin.stats(topic)["backlogSize"] < QUOTA
        rows = gate.decided(policy=ADAPTIVE, topic=topic)
        assert {row["action"] for row in rows} == {"delay"}
        assert not gate.decisions(policy=ADAPTIVE, topic=other)

        reader = python.consume(pulsar.service_url, topic, "idle")
        try:
            gate.eventually(lambda: active(gate) == 0, "released")
        finally:
            reader.close()
        steady.goes_on(200)
    told = steady.producer.published + filled
    judge(told, read_topic(pulsar.service_url, topic)).assert_clean()
    judge(unconcerned.producer.published, read_topic(pulsar.service_url, other)).assert_clean()


@pytest.mark.seed("S5-002", "S5-004", "S5-005", "S5-021", "S5-040", "S5-041", "S5-042")
def test_broker_memory_is_a_pressure_and_watermarks_change_at_once(
    pulsar: PulsarBroker, new_topic: NewTopic, new_gate: NewGate, python: PythonFamily
) -> None:
    topic = new_topic()
    memory = [{"source": "metrics", "url": f"{pulsar.admin_url}/metrics/"}]
    gate = new_gate(POLICIES | UNREACHABLE, pressure={"memory": memory})
    with Steady(python, gate.service_url, topic) as steady:
        steady.goes_on(200)
        known = "sluicegate_pressure_source_known"
        gate.eventually(lambda: gate.metric(known, source="memory_metrics_0") == 1, "memory is known")
        assert active(gate) == 0

        gate.apply(POLICIES | EXCEEDED | OBSERVING)
        would = "sluicegate_adaptive_throttle_would_throttle"
        gate.eventually(lambda: gate.metric(would) == 1, "it would throttle")
        # Where a source does not answer in time, its pressure is not known for a moment.
        memory_pressure = "pulsar_broker_adaptive_throttle_memory_pressure"
        gate.eventually(lambda: gate.metric(memory_pressure) == 1, "memory presses")
        assert active(gate) == 0
        gate.eventually(lambda: "would-activate topic=" in gate.output(), "it is told")
        assert " ACTIVATED topic=" not in gate.output()
        steady.goes_on(50)

        gate.apply(POLICIES | EXCEEDED)
        gate.eventually(lambda: active(gate) == 1, "the limiter is active")
        assert gate.decided(policy=ADAPTIVE, topic=topic)
        gate.apply(POLICIES | EXCEEDED | OBSERVING)
        gate.eventually(lambda: active(gate) == 0, "observing releases")
        gate.apply(POLICIES | EXCEEDED)
        gate.eventually(lambda: active(gate) == 1, "the limiter is active again")

        gate.apply(POLICIES | UNREACHABLE)
        gate.eventually(lambda: active(gate) == 0, "released")
        steady.goes_on(200)
    judge(steady.producer.published, read_topic(pulsar.service_url, topic)).assert_clean()


def stands_still(admin: Admin, topic: str) -> bool:
    """Whether nothing is stored for two seconds; what was under way comes before."""
    at = admin.stats(topic)["msgInCounter"]
    with suppress(TimeoutError):
        until(lambda: admin.stats(topic)["msgInCounter"] > at, "more", 2)
    return bool(admin.stats(topic)["msgInCounter"] == at)


def refusal(family: Family, url: str, topic: str) -> str:
    """The client's name of the error with which a new producer is refused."""
    # The Java client tries again for as long as this. A stall must not be longer: it would be told instead.
    client = {"operationTimeoutMs": 10_000} if family.name == "java" else {}
    with pytest.raises(RefusedError) as refused:
        family.produce(url, topic, [], client=client)
    return refused.value.error


@pytest.mark.seed("S4-002", "S4-011", "S4-014", "X-03")
def test_a_full_volume_pauses_producers_and_refuses_new_ones_as_pulsars_quota_does(
    pulsar: PulsarBroker,
    admin: Admin,
    new_topic: NewTopic,
    new_gate: NewGate,
    python: PythonFamily,
    java: JavaFamily,
    tmp_path: Path,
) -> None:
    families: tuple[Family, ...] = (python, java)
    topic, native = new_topic(), new_topic("native")
    admin.create_subscription(native, "idle")
    python.produce(pulsar.service_url, native, numbered(3)).close()
    set_quota(admin, topic_path(native), native, 1, "producer_exception")
    for each in families:
        assert refusal(each, pulsar.service_url, native) == BLOCKED

    limits = {"storage_soft_min_free_bytes": SOFT, "storage_hard_min_free_bytes": HARD}
    with mounted(tmp_path / "volume", 2 * SOFT // MIB) as volume:
        storage = {"source": "path", "paths": [str(volume)], "interval": "200ms"}
        gate, filler = new_gate(limits, storage=storage), Filler(volume)
        factor_is(gate, 1, 1)
        sending = java.produce(gate.service_url, topic, numbered(1_000, "java"), interval_ms=5)
        with Steady(python, gate.service_url, topic) as steady:
            steady.goes_on(100)
            filler.leave(HARD // 2)
            factor_is(gate, 0, 0)
            for each in families:
                assert refusal(each, gate.service_url, topic) == BLOCKED
            until(lambda: stands_still(admin, topic), "nothing is stored any more")
            assert gate.decided(policy="storage_quota", topic=topic, factor=0.0)

            filler.remove()
            factor_is(gate, 1, 1)
            steady.goes_on(200)
            late = python.produce(gate.service_url, topic, numbered(10, "late")).close()
        published = steady.producer.published + sending.close() + late
    assert all(one.entry for one in published)
    judge(published, read_topic(pulsar.service_url, topic)).assert_clean()
