"""Produce to and consume from Pulsar as fast as possible: throughput and what it costs the proxy."""

from collections.abc import Callable

from benchmarks.harness.arms import Bench
from benchmarks.harness.meter import Meter
from benchmarks.harness.names import (
    DIRECT,
    HAPROXY,
    PULSAR_PROXY,
    SLUICEGATE,
    SLUICEGATE_DELAY,
    SLUICEGATE_DISPATCH,
)
from benchmarks.harness.pulsar_clients import consume, publish
from benchmarks.harness.scenario import Scenario

_PRODUCING = (DIRECT, HAPROXY, PULSAR_PROXY, SLUICEGATE, SLUICEGATE_DELAY)
_CONSUMING = (DIRECT, HAPROXY, PULSAR_PROXY, SLUICEGATE, SLUICEGATE_DISPATCH)


def _produce(
    message_bytes: int, *, messages: int, quick_messages: int, batched: bool = False
) -> Callable[[Bench, str, bool], dict[str, float]]:
    def measure(bench: Bench, name: str, quick: bool) -> dict[str, float]:
        arm, sent = bench.pulsar.arm(name), quick_messages if quick else messages
        with bench.pulsar.fresh_topic() as topic:
            meter = Meter(arm.proxy)
            speed = publish(arm.route, topic, messages=sent, message_bytes=message_bytes, batched=batched)
            return {"messages_per_s": speed} | meter.per_100k(sent)

    return measure


def _consume(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm, messages = bench.pulsar.arm(name), 10_000 if quick else 100_000
    topic = bench.pulsar.filled_topic(messages, 100)
    meter = Meter(arm.proxy)
    speed = consume(arm.route, topic, messages)
    return {"messages_per_s": speed} | meter.per_100k(messages)


SCENARIOS = (
    Scenario(
        "pulsar-produce-100",
        "100 B, not batched: throughput, CPU per 100k, memory",
        _PRODUCING,
        # The CPU clock of a process counts hundredths of a second: half a percent of what is used here.
        _produce(100, messages=400_000, quick_messages=20_000),
    ),
    Scenario(
        "pulsar-produce-1k",
        "1 KiB, default batches: throughput, CPU per 100k, memory",
        _PRODUCING,
        _produce(1024, messages=200_000, quick_messages=20_000, batched=True),
    ),
    Scenario(
        "pulsar-produce-64k",
        "64 KiB, not batched: throughput, CPU per 100k, memory",
        (HAPROXY, SLUICEGATE),
        _produce(64 * 1024, messages=20_000, quick_messages=500),
    ),
    Scenario(
        "pulsar-produce-large",
        "512 KiB, not batched: throughput, CPU per 100k, memory",
        (HAPROXY, SLUICEGATE),
        _produce(512 * 1024, messages=4_000, quick_messages=500),
    ),
    Scenario("pulsar-consume", "100 B, not batched: throughput, CPU per 100k, memory", _CONSUMING, _consume),
)
