"""Danube's SendMessage, 1 KiB each, as fast as it is answered."""

from functools import partial

from benchmarks.harness.arms import Bench
from benchmarks.harness.grpc_clients import publish
from benchmarks.harness.meter import Meter
from benchmarks.harness.names import DIRECT, ENVOY, GRPC_AIO, HAPROXY, NGINX, SLUICEGATE
from benchmarks.harness.scenario import Scenario

_ARMS = (DIRECT, NGINX, HAPROXY, ENVOY, GRPC_AIO, SLUICEGATE)


def _unary(
    bench: Bench, name: str, quick: bool, *, in_flight: int, connections: int = 1, deadline_s: int = 0
) -> dict[str, float]:
    arm = bench.grpc.arm(name)
    meter = Meter(arm.proxy)
    done = publish(
        arm.address,
        in_flight=in_flight,
        connections=connections,
        seconds=1 if quick else 5,
        deadline_s=deadline_s,
    )
    seen = {"calls_per_s": done.calls_per_s, "p50_ms": done.p50_ms, "p99_ms": done.p99_ms}
    return seen | meter.per_100k(done.sent)


SCENARIOS = (
    Scenario("grpc-unary-1", "one call after the other", _ARMS, partial(_unary, in_flight=1)),
    Scenario("grpc-unary-16", "16 in flight on one connection", _ARMS, partial(_unary, in_flight=16)),
    Scenario("grpc-unary-64", "64 in flight on one connection", _ARMS, partial(_unary, in_flight=64)),
    Scenario(
        "grpc-unary-64-of-4",
        "64 in flight on four connections",
        _ARMS,
        partial(_unary, in_flight=64, connections=4),
    ),
    Scenario(
        "grpc-unary-16-deadline",
        "16 in flight on one connection, each with a deadline, so that no two requests are the same",
        _ARMS,
        partial(_unary, in_flight=16, deadline_s=30),
    ),
)
