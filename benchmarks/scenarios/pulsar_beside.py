"""One producer beside another of its connection held to 100 messages/s, clients at their defaults."""

from collections.abc import Callable, Mapping
from functools import partial

from benchmarks.harness.arms import Bench
from benchmarks.harness.names import DIRECT, SLUICEGATE
from benchmarks.harness.pulsar_arms import FREE, NATIVE_SLOW, SLOW
from benchmarks.harness.pulsar_beside import ALONE, BESIDE, Topics, java_latencies, python_latencies
from benchmarks.harness.samples import percentile
from benchmarks.harness.scenario import Scenario

Latencies = Callable[..., Mapping[str, list[float]]]


def _beside(bench: Bench, name: str, quick: bool, *, latencies: Latencies) -> dict[str, float]:
    arm, fresh = bench.pulsar.arm(name), bench.pulsar.fresh_topic
    limited = NATIVE_SLOW if name == DIRECT else SLOW
    with fresh(FREE) as alone, fresh(FREE) as beside, fresh(limited) as throttled:
        warmup_s, seconds = (3, 5) if quick else (5, 20)
        topics = Topics(alone, beside, throttled)
        return compare(latencies(arm.route, topics, warmup_s=warmup_s, seconds=seconds))


def compare(seen: Mapping[str, list[float]]) -> dict[str, float]:
    """Percentiles in ms, and the p99 beside the throttled one as a multiple of that alone.

    :raises RuntimeError: if there are no messages of either.
    """
    if not seen.get(ALONE) or not seen.get(BESIDE):
        raise RuntimeError(f"messages of {sorted(seen)} only")
    latencies = {
        f"{which}_p{share}_ms": 1e3 * percentile(seen[which], share / 100)
        for which in (ALONE, BESIDE)
        for share in (50, 99)
    }
    return latencies | {
        "beside_max_ms": 1e3 * max(seen[BESIDE]),
        "p99_of_alone": latencies["beside_p99_ms"] / latencies["alone_p99_ms"],
    }


SCENARIOS = (
    Scenario(
        "pulsar-beside",
        "pulsar-client (C++, Python): p99 beside a producer of its connection held to 100 messages/s",
        (DIRECT, SLUICEGATE),
        partial(_beside, latencies=python_latencies),
        rounds=3,
        cold_round=False,
    ),
    Scenario(
        "pulsar-beside-java",
        "the Java client with its batches: the same",
        (DIRECT, SLUICEGATE),
        partial(_beside, latencies=java_latencies),
        rounds=3,
        cold_round=False,
    ),
)
