"""Latency of single messages to Pulsar at a modest, steady rate."""

from benchmarks.harness.arms import Bench
from benchmarks.harness.meter import Meter
from benchmarks.harness.names import DIRECT, HAPROXY, PULSAR_PROXY, SLUICEGATE, SLUICEGATE_DELAY
from benchmarks.harness.pulsar_clients import paced_latencies
from benchmarks.harness.samples import percentile
from benchmarks.harness.scenario import Scenario

_PER_S = 1000


def _latency(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.pulsar.arm(name)
    seconds, warmup_s = (3, 1) if quick else (6, 1)
    with bench.pulsar.fresh_topic() as topic:
        meter = Meter(arm.proxy)
        seen = paced_latencies(
            arm.route, topic, per_s=_PER_S, message_bytes=1024, warmup_s=warmup_s, seconds=seconds
        )
        cost = meter.per_100k((seconds + warmup_s) * _PER_S)
    return {"p50_ms": 1e3 * percentile(seen, 0.5), "p99_ms": 1e3 * percentile(seen, 0.99)} | cost


SCENARIOS = (
    Scenario(
        "pulsar-latency",
        "1 KiB, 1,000 messages/s, from sending to the receipt: p50 and p99",
        (DIRECT, HAPROXY, PULSAR_PROXY, SLUICEGATE, SLUICEGATE_DELAY),
        _latency,
    ),
)
