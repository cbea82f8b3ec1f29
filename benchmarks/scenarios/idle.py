"""Memory that idle connections take, of Kafka's clients and of gRPC's."""

import time
from collections.abc import Callable
from contextlib import ExitStack

from benchmarks.harness.arms import Bench
from benchmarks.harness.grpc_clients import start_idle
from benchmarks.harness.kafka_bytes import answer, connect
from benchmarks.harness.names import ENVOY, HAPROXY, KROXYLICIOUS, NGINX, SLUICEGATE
from benchmarks.harness.processes import Child
from benchmarks.harness.scenario import Scenario

_SETTLE_S = 3.0
_WARM_UP = 50


def _kafka(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    # Memory that earlier traffic left free would hide what these connections need.
    arm = bench.fresh_arm(name)

    def connect_all(stack: ExitStack, count: int) -> None:
        """Connections that asked for the API versions: the least that any Kafka client does."""
        for _ in range(count):
            answer(connect(stack, arm.bootstrap))

    return _grown(arm.proxy, connect_all, 200 if quick else 2000)


def _grpc(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.grpc.fresh_arm(name)

    def connect_all(stack: ExitStack, count: int) -> None:
        start_idle(stack, bench.directory, arm.address, count)

    return _grown(arm.proxy, connect_all, 200 if quick else 1000)


def _grown(
    proxy: Child | None, connect_all: Callable[[ExitStack, int], None], count: int
) -> dict[str, float]:
    assert proxy is not None
    with ExitStack() as warm_up:
        connect_all(warm_up, _WARM_UP)
    time.sleep(_SETTLE_S)
    before = proxy.resident_bytes()
    with ExitStack() as connections:
        connect_all(connections, count)
        time.sleep(_SETTLE_S)
        grown = proxy.resident_bytes() - before
    return {"kib_per_connection": grown / count / 1024, "rss_before_mib": before / 1024 / 1024}


SCENARIOS = (
    Scenario(
        "idle-connections",
        "memory growth over 2,000 connections that said hello and are silent",
        (HAPROXY, KROXYLICIOUS, SLUICEGATE),
        _kafka,
        rounds=3,
        cold_round=False,
    ),
    Scenario(
        "grpc-idle",
        "memory growth over 1,000 connections that made one call and are silent",
        (NGINX, HAPROXY, ENVOY, SLUICEGATE),
        _grpc,
        rounds=3,
        cold_round=False,
    ),
)
