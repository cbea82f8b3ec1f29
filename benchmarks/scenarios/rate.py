"""A publish rate under saturation: accuracy, steadiness and fairness."""

from benchmarks.harness.arms import LIMIT_BYTES_PER_S, LIMITED_TOPICS, Bench
from benchmarks.harness.clients import fresh_topic
from benchmarks.harness.names import SLUICEGATE, STRIMZI
from benchmarks.harness.producers import saturate
from benchmarks.harness.scenario import Scenario

_PRODUCERS = 8
_RECORD_BYTES = 20_000
"""More than half a batch, so that each batch holds one record and acknowledgements come evenly."""


def _rate(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.arm(name)
    seconds, window_s = (12.0, 5.0) if quick else (45.0, 20.0)
    with fresh_topic(arm.broker.bootstrap, LIMITED_TOPICS.rstrip("-*")) as topic:
        seen = saturate(
            arm.bootstrap, topic, producers=_PRODUCERS, record_bytes=_RECORD_BYTES, seconds=seconds
        )
        wire_bytes = arm.broker.bytes_per_record(topic)
    return seen.figures(wire_bytes, LIMIT_BYTES_PER_S, seconds=seconds, window_s=window_s)


SCENARIOS = (
    Scenario(
        "rate",
        "8 saturating producers against 10 MB/s: error, first second, gaps, fairness",
        (SLUICEGATE, STRIMZI),
        _rate,
        rounds=3,
        cold_round=False,
    ),
)
