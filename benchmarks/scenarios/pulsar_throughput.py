"""Produce to and consume from Pulsar as fast as possible: throughput and what it costs the proxy."""

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
    bench: Bench, name: str, *, messages: int, message_bytes: int, batched: bool
) -> dict[str, float]:
    arm = bench.pulsar.arm(name)
    with bench.pulsar.fresh_topic() as topic:
        meter = Meter(arm.proxy)
        speed = publish(arm.route, topic, messages=messages, message_bytes=message_bytes, batched=batched)
        return {"messages_per_s": speed} | meter.per_100k(messages)


def _produce_100(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    # The CPU clock of a process counts hundredths of a second: here they are half a percent of what is used.
    messages = 20_000 if quick else 400_000
    return _produce(bench, arm, messages=messages, message_bytes=100, batched=False)


def _produce_1k(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    messages = 20_000 if quick else 200_000
    return _produce(bench, arm, messages=messages, message_bytes=1024, batched=True)


def _produce_64k(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    messages = 500 if quick else 20_000
    return _produce(bench, arm, messages=messages, message_bytes=64 * 1024, batched=False)


def _produce_large(bench: Bench, arm: str, quick: bool) -> dict[str, float]:
    messages = 500 if quick else 4_000
    return _produce(bench, arm, messages=messages, message_bytes=512 * 1024, batched=False)


def _consume(bench: Bench, name: str, quick: bool) -> dict[str, float]:
    arm, messages = bench.pulsar.arm(name), 10_000 if quick else 100_000
    topic = bench.pulsar.filled_topic(messages, 100)
    meter = Meter(arm.proxy)
    speed = consume(arm.route, topic, messages)
    return {"messages_per_s": speed} | meter.per_100k(messages)


SCENARIOS = (
    Scenario(
        "pulsar-produce-100", "100 B, not batched: throughput, CPU per 100k, memory", _PRODUCING, _produce_100
    ),
    Scenario(
        "pulsar-produce-1k",
        "1 KiB, default batches: throughput, CPU per 100k, memory",
        _PRODUCING,
        _produce_1k,
    ),
    Scenario(
        "pulsar-produce-64k",
        "64 KiB, not batched: throughput, CPU per 100k, memory",
        (HAPROXY, SLUICEGATE),
        _produce_64k,
    ),
    Scenario(
        "pulsar-produce-large",
        "512 KiB, not batched: throughput, CPU per 100k, memory",
        (HAPROXY, SLUICEGATE),
        _produce_large,
    ),
    Scenario("pulsar-consume", "100 B, not batched: throughput, CPU per 100k, memory", _CONSUMING, _consume),
)
