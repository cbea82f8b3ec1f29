"""Memory that idle gRPC connections take."""

import time
from contextlib import ExitStack

from benchmarks.harness.arms import Bench
from benchmarks.harness.grpc_clients import start_idle
from benchmarks.harness.names import ENVOY, HAPROXY, NGINX, SLUICEGATE
from benchmarks.harness.scenario import Scenario

_SETTLE_S = 3.0
_WARM_UP = 50


def _idle(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    # Memory that earlier traffic left free would hide what these connections need.
    arm = bench.grpc.fresh_arm(name)
    assert arm.proxy is not None
    count = 200 if quick else 1000
    with ExitStack() as warm_up:
        start_idle(warm_up, bench.directory, arm.address, _WARM_UP)
    time.sleep(_SETTLE_S)
    before = arm.proxy.resident_bytes()
    with ExitStack() as connections:
        start_idle(connections, bench.directory, arm.address, count)
        time.sleep(_SETTLE_S)
        grown = arm.proxy.resident_bytes() - before
    return {"kib_per_connection": grown / count / 1024, "rss_before_mib": before / 1024 / 1024}


SCENARIOS = (
    Scenario(
        "grpc-idle",
        "memory growth over 1,000 connections that made one call and are silent",
        (NGINX, HAPROXY, ENVOY, SLUICEGATE),
        _idle,
        rounds=3,
        cold_round=False,
    ),
)
