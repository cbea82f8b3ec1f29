"""Memory that idle connections take."""

import time
from contextlib import ExitStack

from benchmarks.harness.arms import Bench
from benchmarks.harness.kafka_bytes import answer, connect
from benchmarks.harness.names import HAPROXY, KROXYLICIOUS, SLUICEGATE
from benchmarks.harness.scenario import Scenario

_SETTLE_S = 3.0


_WARM_UP = 50


def _idle(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    # Memory that earlier traffic left free would hide what these connections need.
    arm = bench.fresh_arm(name)
    assert arm.proxy is not None
    count = 200 if quick else 2000
    with ExitStack() as warm_up:
        _connect(warm_up, arm.bootstrap, _WARM_UP)
    time.sleep(_SETTLE_S)
    before = arm.proxy.resident_bytes()
    with ExitStack() as connections:
        _connect(connections, arm.bootstrap, count)
        time.sleep(_SETTLE_S)
        grown = arm.proxy.resident_bytes() - before
    return {"kib_per_connection": grown / count / 1024, "rss_before_mib": before / 1024 / 1024}


def _connect(stack: ExitStack, address: str, count: int) -> None:
    """Connections that asked for the API versions: the least that any Kafka client does."""
    for _ in range(count):
        answer(connect(stack, address))


SCENARIOS = (
    Scenario(
        "idle-connections",
        "memory growth over 2,000 connections that said hello and are silent",
        (HAPROXY, KROXYLICIOUS, SLUICEGATE),
        _idle,
        rounds=3,
        cold_round=False,
    ),
)
