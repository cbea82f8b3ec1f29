"""Produce and consume as fast as possible: throughput and what it costs the proxy."""

from collections.abc import Mapping

from benchmarks.harness.arms import PROXIES, Arm, Bench
from benchmarks.harness.clients import consume, fresh_topic, produce
from benchmarks.harness.names import HAPROXY, SLUICEGATE
from benchmarks.harness.scenario import Scenario

_GB = 1e9
_MIB = 1024 * 1024


class _Meter:
    """CPU seconds of an arm's proxy since the meter was made, and its memory now."""

    def __init__(self, arm: Arm) -> None:
        self._proxy = arm.proxy
        self._start = arm.proxy.cpu_seconds() if arm.proxy else 0.0

    def per(self, name: str, amount: float) -> dict[str, float]:
        """CPU seconds per `amount`, and the resident memory; nothing where there is no proxy."""
        if self._proxy is None:
            return {}
        used = self._proxy.cpu_seconds() - self._start
        return {name: used / amount, "rss_mib": self._proxy.resident_bytes() / _MIB}


def _produce(
    arm: Arm, records: int, record_bytes: int, properties: Mapping[str, str] | None = None
) -> dict[str, float]:
    with fresh_topic(arm.broker.bootstrap, "produce") as topic:
        meter = _Meter(arm)
        done = produce(
            arm.bootstrap, topic, records=records, record_bytes=record_bytes, properties=properties
        )
        return {"mib_per_s": done.mib_per_s} | meter.per("cpu_s_per_gb", records * record_bytes / _GB)


def _produce_1k(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    return _produce(bench.arm(arm), 100_000 if quick else 1_000_000, 1024)


def _produce_100(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    return _produce(bench.arm(arm), 500_000 if quick else 4_000_000, 100)


def _produce_large(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    large = {"batch.size": "1000000", "linger.ms": "100"}
    return _produce(bench.arm(arm), 100_000 if quick else 1_000_000, 1024, large)


def _small_requests(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.arm(name)
    requests = 20_000 if quick else 200_000
    one_record_each = {"batch.size": "0", "linger.ms": "0"}
    with fresh_topic(arm.broker.bootstrap, "small") as topic:
        meter = _Meter(arm)
        done = produce(arm.bootstrap, topic, records=requests, record_bytes=100, properties=one_record_each)
        cost = meter.per("cpu_s_per_100k_requests", requests / 100_000)
        return {"requests_per_s": done.records_per_s} | cost


def _consume(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.arm(name)
    records = 100_000 if quick else 1_000_000
    topic = bench.filled_topic(records, 1024)
    meter = _Meter(arm)
    speed = consume(arm.bootstrap, topic, records)
    return {"mib_per_s": speed} | meter.per("cpu_s_per_gb", records * 1024 / _GB)


SCENARIOS = (
    Scenario("produce-1k", "1 KiB records, default batches: throughput, CPU per GB", PROXIES, _produce_1k),
    Scenario("produce-100", "100 B records, default batches: throughput, CPU per GB", PROXIES, _produce_100),
    Scenario(
        "produce-large",
        "1 KiB records, batches of 1 MB: throughput, CPU per GB",
        (HAPROXY, SLUICEGATE),
        _produce_large,
    ),
    Scenario("consume-1k", "1 KiB records from one topic: throughput, CPU per GB", PROXIES, _consume),
    Scenario(
        "small-requests", "batch.size=0: one record in each Produce, CPU per 100k", PROXIES, _small_requests
    ),
)
