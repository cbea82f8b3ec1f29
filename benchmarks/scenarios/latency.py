"""Latency of single records at a modest, steady rate."""

from benchmarks.harness.arms import PROXIES, Bench
from benchmarks.harness.clients import fresh_topic, produce
from benchmarks.harness.producers import paced_latencies
from benchmarks.harness.samples import percentile
from benchmarks.harness.scenario import Scenario

_RECORDS_PER_S = 1000


def _latency(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.arm(name)
    seconds, warmup_seconds = (5, 2) if quick else (30, 5)
    with fresh_topic(arm.broker.bootstrap, "latency") as topic:
        done = produce(
            arm.bootstrap,
            topic,
            records=(seconds + warmup_seconds) * _RECORDS_PER_S,
            record_bytes=1024,
            properties={"acks": "1", "linger.ms": "0"},
            records_per_s=_RECORDS_PER_S,
            warmup_records=warmup_seconds * _RECORDS_PER_S,
        )
    return {"p50_ms": done.p50_ms, "p99_ms": done.p99_ms}


def _latency_fine(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.arm(name)
    seconds, warmup_s = (5, 1) if quick else (20, 2)
    with fresh_topic(arm.broker.bootstrap, "latency") as topic:
        seen = paced_latencies(
            arm.bootstrap,
            topic,
            records_per_s=_RECORDS_PER_S,
            record_bytes=1024,
            warmup_s=warmup_s,
            seconds=seconds,
        )
    return {"p50_us": 1e6 * percentile(seen, 0.5), "p99_us": 1e6 * percentile(seen, 0.99)}


SCENARIOS = (
    Scenario("latency", "ProducerPerformance, acks=1, 1,000 records/s: p50 and p99", PROXIES, _latency),
    Scenario("latency-librdkafka", "the same by librdkafka, in microseconds", PROXIES, _latency_fine),
)
