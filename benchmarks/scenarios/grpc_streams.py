"""Danube's ReceiveMessages, about 1.1 KB each, as fast as they come."""

from benchmarks.harness.arms import Bench
from benchmarks.harness.grpc_clients import receive
from benchmarks.harness.meter import Meter
from benchmarks.harness.names import (
    DIRECT,
    ENVOY,
    GRPC_AIO,
    HAPROXY,
    NGINX,
    SLUICEGATE,
    SLUICEGATE_DISPATCH,
)
from benchmarks.harness.scenario import Scenario


def _stream(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm = bench.grpc.arm(name)
    meter = Meter(arm.proxy)
    done = receive(arm.address, seconds=1 if quick else 5)
    return {"messages_per_s": done.messages_per_s} | meter.per_100k(done.taken)


SCENARIOS = (
    Scenario(
        "grpc-streams",
        "one stream: throughput, CPU per 100k, memory",
        (DIRECT, NGINX, HAPROXY, ENVOY, GRPC_AIO, SLUICEGATE, SLUICEGATE_DISPATCH),
        _stream,
    ),
)
