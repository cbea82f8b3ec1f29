"""A publish rate under saturation: how exact, how steady and how fair it is held."""

import itertools

from benchmarks.harness.arms import LIMIT_BYTES_PER_S, LIMITED_TOPICS, SLUICEGATE, STRIMZI, Bench
from benchmarks.harness.clients import fresh_topic
from benchmarks.harness.producers import Saturation, saturate
from benchmarks.harness.samples import jain, longest_gap, window_errors
from benchmarks.harness.scenario import Scenario

_PRODUCERS = 8
_RECORD_BYTES = 20_000
"""More than half a batch, so that each batch holds one record and acknowledgements come evenly."""
_BURST_S = 1.0
_SPENT_S = 3.0
"""The initial burst (1 s of the rate) has surely been spent by then; windows start here."""


def _rate(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.arm(name)
    seconds, window_s = (12.0, 5.0) if quick else (45.0, 20.0)
    with fresh_topic(arm.broker.bootstrap, LIMITED_TOPICS.rstrip("-*")) as topic:
        seen = saturate(
            arm.bootstrap, topic, producers=_PRODUCERS, record_bytes=_RECORD_BYTES, seconds=seconds
        )
        wire_bytes = arm.broker.bytes_per_record(topic)
    return _figures(seen, wire_bytes, seconds, window_s)


def _figures(seen: Saturation, wire_bytes: float, seconds: float, window_s: float) -> dict[str, float]:
    by_producer = [[at - seen.start for at in times] for times in seen.times]
    together = sorted(itertools.chain.from_iterable(by_producer))
    if not together:
        raise RuntimeError(f"no record was acknowledged; {seen.failed} failed")
    errors = window_errors(
        [(at, wire_bytes) for at in together],
        LIMIT_BYTES_PER_S,
        first_s=_SPENT_S,
        last_s=seconds,
        width_s=window_s,
    )
    first_second = wire_bytes * sum(1 for at in together if at < 1)
    shares = [float(sum(1 for at in times if 0 <= at - _SPENT_S < window_s)) for times in by_producer]
    return {
        "worst_window_error_percent": 100 * max(errors, key=abs),
        "mean_error_percent": 100 * sum(errors) / len(errors),
        "first_second_of_allowed": first_second / (LIMIT_BYTES_PER_S * (1 + _BURST_S)),
        "longest_gap_s": longest_gap(together),
        "longest_gap_of_a_producer_s": max(map(longest_gap, by_producer)),
        "jain": jain(shares),
        "failed_records": float(seen.failed),
    }


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
